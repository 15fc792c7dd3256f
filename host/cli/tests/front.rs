//! The front door: the shell script, and the list that it installs from.

use std::path::{Path, PathBuf};
use std::process::Command;

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_scripts_are_plain_sh() {
    for script in ["musubi", "host/setup.sh", "tests/bare-machine.sh", ".ci/run"] {
        let checked = Command::new("/bin/sh").arg("-n").arg(top().join(script)).output().unwrap();
        assert!(checked.status.success(), "{script}: {}", String::from_utf8_lossy(&checked.stderr));
    }
}

#[test]
fn every_package_has_its_columns() {
    let text = std::fs::read_to_string(top().join("host/packages.txt")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut count = 0;
    for line in lines {
        let fields: Vec<&str> = line.split_whitespace().collect();
        assert!(fields.len() >= 6, "a column is missing: {line}");
        let stages = ["build", "boot", "image", "firmware", "real", "peer", "nice"];
        assert!(stages.contains(&fields[0]), "unknown stage: {line}");
        assert!(fields[2].starts_with('/'), "the proof is a path: {line}");
        count += 1;
    }
    assert!(count > 0);
}

/// Runs the script's own doctor with a list of packages of the test's making, in a folder with a space.
#[test]
fn doctor_tells_what_is_missing() {
    let dir = tempfile::Builder::new().prefix("front door ").tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    for script in ["musubi", "host/setup.sh"] {
        file(script, &std::fs::read_to_string(top().join(script)).unwrap());
    }
    let doctor = |packages: &str| {
        file("host/packages.txt", packages);
        let mut command = Command::new("/bin/sh");
        let output = command.arg(dir.path().join("musubi")).arg("doctor").current_dir("/").output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (status, said) = doctor("build  shell  /bin/sh  1  reads this\n");
    assert_eq!(status, Some(0), "{said}");
    let (status, said) =
        doctor("build  shell  /bin/sh  1  reads this\nboot  nothing  /nonexistent/x  2  is not there\n");
    assert_eq!(status, Some(1), "{said}");
    assert!(said.lines().any(|line| line.contains("nothing") && line.contains("MISSING")), "{said}");
    let (status, _) = doctor("build  shell  /bin/sh  1  reads this\nimage  nothing  /nonexistent/x  2  is not there\n");
    assert_eq!(status, Some(0), "what an image needs is installed when one is made");
}

/// What Linux to compare with needs is asked for only when it is wanted, and is no reason to stop. Compiler, apt and front tool
/// are of the test's making.
#[test]
fn what_only_the_peer_needs_is_installed_for_it_alone() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    };
    for script in ["musubi", "host/setup.sh"] {
        file(script, &std::fs::read_to_string(top().join(script)).unwrap());
    }
    file("bin/rustc", "#!/bin/sh\necho rustc 1.96.0\n");
    file("bin/cargo", "#!/bin/sh\n");
    file("lib/rustlib/src/rust/library/core/lib.rs", "");
    file("bin/sudo", "#!/bin/sh\nexec \"$@\"\n");
    file("bin/apt-get", "#!/bin/sh\necho there is no network >&2; exit 100\n");
    file("bin/apt-cache", "#!/bin/sh\n");
    file("target/debug/musubi-cli", "#!/bin/sh\necho the front tool: \"$@\"\n");
    let path = format!("{}/bin:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let musubi = |words: &str| {
        let mut command = Command::new("/bin/sh");
        command.arg(dir.path().join("musubi")).args(words.split(' ')).env("PATH", &path).env_remove("CARGO_HOME");
        let output = command.env("MUSUBI_RUSTC", dir.path().join("bin/rustc")).output().unwrap();
        let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code(), out, err)
    };
    file("host/packages.txt", "peer  wanted  /nonexistent/x  1  Linux beside\n");
    for words in ["bench calls --peer linux", "bench --peer=linux calls", "bench-peer", "test peers", "test host peers"]
    {
        let (status, out, said) = musubi(words);
        assert_eq!((status, out), (Some(0), format!("the front tool: {words}\n")), "{said}");
        assert!(said.contains("missing on this machine") && said.contains("Linux beside"), "{words}: {said}");
        assert!(said.contains("going on without"), "{words}: {said}");
    }
    for words in ["bench calls", "bench calls --peer none", "exec -- echo linux", "test", "test system", "run"] {
        let (status, out, said) = musubi(words);
        assert_eq!((status, out, said), (Some(0), format!("the front tool: {words}\n"), String::new()));
    }
    file("host/packages.txt", "boot  wanted  /nonexistent/x  1  nothing runs without it\n");
    let (status, out, said) = musubi("bench calls --peer linux");
    assert_eq!((status, out.as_str()), (Some(1), ""), "{said}");
}
