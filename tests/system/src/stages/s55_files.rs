//! The file system in memory: as a person uses it in the shell, and from within (`tests/guest/check`).

use crate::case::{Case, checks, sh};

const BUSYBOX: &str = "/bin/busybox";

pub fn cases() -> Vec<Case> {
    vec![
        sh("make_append_read", "echo one > a; echo two >> a; cat a; cat < a | cat; echo three > a; cat a")
            .out("one\ntwo\none\ntwo\nthree\n")
            .matrix(),
        sh("programs_write_files", "hello > out; check as bytes out 300000 > big; ls big; cat out; cat big | cat > copy; ls copy")
            .out_check(|out| out.matches(" 300000  0x").count() == 2 && out.contains("Hello from task ")),
        sh("errors_go_to_a_file", "cat none 2> err; echo $?; cat none none 2>> err; cat err")
            .out("1\ncat: none: not found\ncat: none: not found\ncat: none: not found\n"),
        sh("copy_move_remove", "echo x > a; cp a b; mv a c; cat b c; rm b; ls b; ls c; rm c; ls c")
            .out_check(|out| out.starts_with("x\nx\nmode") && out.ends_with("  c\n"))
            .err("ls: b: not found\nls: c: not found\n")
            .status(1),
        sh(
            "directories",
            "mkdir d d/e; echo x > d/f; cp d/f d/e; cp d/f d/e/f g d; echo $?; mv d/f g d/e; cat d/e/f; ls d/e; \
             mv d/e h; cat h/f; rm -r h; ls h; rmdir d; ls d",
        )
        .out_check(|out| out.starts_with("1\nx\nmode") && out.ends_with("  f\nx\n"))
        .err("cp: d/f: exists already\ncp: g: not found\nmv: g: not found\nls: h: not found\nls: d: not found\n")
        .status(1),
        sh(
            "refusals",
            &format!(
                "cat none; echo x > none/a; mkdir d; echo x > d; cat d; mkdir d; echo x > d/a; rmdir d; rm d; rm none; \
                 cat d/a/b; mv d d/e; echo x > {}; echo x > bin/a; rm bin/hello; rmdir bin; mkdir; cp a; cat < none; echo $?",
                "n".repeat(256)
            ),
        )
        .out("1\n")
        .err_check(refused),
        sh("patterns_of_files_that_were_made", "echo x > a1; echo x > a2; mkdir d; echo x > d/a3; echo a* d/*; rm a*; echo a*")
            .out("a1 a2 d/a3\na*\n"),
        sh("files_that_were_put_in", "echo more >> d/notes; cat /d/notes; mv d/notes d/other; cat d/other; rm -r d; ls d")
            .file("/d/notes", "put\n")
            .out("put\nmore\nput\nmore\n")
            .err("ls: d: not found\n")
            .status(1),
        sh("a_program_that_was_copied_runs", "cp bin/hello mine; cp bin/hello tmp/other; mine; tmp/other; rm mine; mine; echo $?")
            .out_check(|out| out.matches("Hello from task ").count() == 2 && out.ends_with("127\n"))
            .err_has(&["mine: not found"]),
        sh("redirections_that_name_no_file", "echo a > $NONE; echo $?; cat < ''; echo $?")
            .out("1\n1\n")
            .err("shell: : not found\nshell: : not found\n"),
        sh("redirections_without_a_file", "echo on; echo x >").status(2).err_has(&["the name of a file is expected"]),
        // A quarter of memory is the files' own.
        sh(
            "no_space",
            "cp data a; cp data b; cp data c; cp data d; echo $?; rm b d; cp data d; echo $?; busybox sha256sum a c d data",
        )
        .file("data", data())
        .put(BUSYBOX, "/bin/busybox")
        .mem("192M")
        .out_check(|out| {
            let sums: Vec<&str> = out.lines().filter_map(|line| line.split_once("  ")).map(|line| line.0).collect();
            out.starts_with("1\n0\n") && sums.len() == 4 && sums.iter().all(|sum| *sum == sums[3])
        })
        .err("cp: data: quota exceeded\n"),
        checks(
            "files",
            "check files",
            &[
                "each_refusal_has_its_error",
                "what_was_written_is_read",
                "what_is_open_outlives_its_name",
                "threads_write_different_files",
                "threads_append_to_one_file",
                "of_many_one_makes_a_file_and_one_moves_it",
                "readers_see_whole_lengths_while_it_grows",
                "what_is_full_is_said_and_nothing_is_lost",
                "so_many_files_and_no_more",
                "what_a_program_has_open_ends_with_it",
                "writers_are_killed_and_the_server_goes_on",
                "nothing_that_is_passed_breaks_the_server",
                "asked_by_messages_and_by_a_line",
            ],
        )
        .timeout(300)
        .spread(),
        checks("files_alone", "check files", &["killed_while_a_file_is_copied"]).cpus(1).timeout(300).long(),
    ]
}

/// Three times as much fits into a quarter of 192 MiB, and four times does not.
fn data() -> Vec<u8> {
    (0..12u64 << 20).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// One line each, in the order of the commands.
fn refused(err: &str) -> bool {
    let wanted = [
        "cat: none: not found",
        "shell: none/a: not found",
        "shell: d: a directory",
        "cat: d: a directory",
        "mkdir: d: exists already",
        "rmdir: d: directory not empty",
        "rm: d: a directory",
        "rm: none: not found",
        "cat: d/a/b: not a directory",
        "mv: d: bad argument",
        "shell: n",
        "shell: bin/a: access denied",
        "rm: bin/hello: access denied",
        "rmdir: bin: access denied",
        "mkdir: usage: mkdir DIRECTORY...",
        "cp: usage: cp FILE... TARGET",
        "shell: none: not found",
    ];
    let lines: Vec<&str> = err.lines().collect();
    let is = |(line, wanted): (&&str, &&str)| match *wanted {
        "shell: n" => **line == format!("shell: {}: too big", "n".repeat(256)),
        _ => line == wanted,
    };
    lines.len() == wanted.len() && lines.iter().zip(&wanted).all(is)
}
