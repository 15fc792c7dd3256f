//! Debian's busybox under the personality: the same commands on the same files print the same as on this host.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod played;

use personality::machine::Machine;
use personality::server::Server;
use played::Mode;
use played::{Played, on_host, possible, run};

const MTIME: i64 = 1_700_000_000;

/// Files for both sides.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    let mut noise = Vec::new();
    let mut state = 0x1234_5678u32;
    for _ in 0..300_000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        noise.push((state >> 24) as u8);
    }
    let lines: String =
        (0..20_000u32).map(|i| format!("{} line {}\n", i.wrapping_mul(2_654_435_761) % 9973, i)).collect();
    vec![
        ("abc", b"b 2\na 1\nc 3\n".to_vec()),
        ("abd", b"b 2\na 1\nd 4\n".to_vec()),
        ("empty", Vec::new()),
        ("one", b"x".to_vec()),
        ("page", vec![b'p'; 4096]),
        ("noise", noise),
        ("lines", lines.into_bytes()),
        ("dir/inner/leaf", b"leaf\n".to_vec()),
    ]
}

struct Both {
    server: Server<Played>,
    directory: std::path::PathBuf,
}

impl Both {
    fn new(name: &str) -> Both {
        let directory = std::env::temp_dir().join(format!("musubi-linux-{name}-{}", std::process::id()));
        let machine = Played::new();
        machine.put(b"busybox", &std::fs::read("/bin/busybox").unwrap(), Mode::Executable, MTIME);
        for (name, bytes) in files() {
            machine.put(name.as_bytes(), &bytes, Mode::Plain, MTIME);
            let path = directory.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, bytes).unwrap();
        }
        Both { server: Server::new(machine), directory }
    }

    fn same(&self, arguments: &[&str]) {
        self.same_with(arguments, b"");
    }

    fn same_with(&self, arguments: &[&str], input: &[u8]) {
        let here = run(&self.server, arguments, input);
        let there = on_host(&self.directory, arguments, input);
        let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(2000)]).into_owned();
        assert!(
            here == there,
            "{arguments:?}\nhere ({}): {}\nerrors: {}\nthere ({}): {}\nerrors: {}",
            here.code,
            text(&here.output),
            text(&here.errors),
            there.code,
            text(&there.output),
            text(&there.errors)
        );
    }
}

impl Drop for Both {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn tools_print_what_they_print_on_linux() {
    if !possible() {
        return;
    }
    let both = Both::new("tools");
    for line in TOOLS.lines().filter(|line| !line.is_empty()) {
        let arguments: Vec<&str> = ["busybox"].into_iter().chain(line.split(' ')).collect();
        both.same_with(&arguments, b"from the input\nsecond line\n");
    }
    let unknown = both.server.coverage.lock().lines();
    eprintln!("{unknown}");
    assert!(!unknown.contains(" call "), "every call that these make is there");
}

const TOOLS: &str = "\
echo hello world
echo -n
cat abc
cat abc lines empty
cat
cat none
sha256sum one page noise empty lines
md5sum noise
sha1sum lines
sort lines
sort -n -k1 lines
sort -r abc
awk {print$2,$1} abc
awk {n+=$1}END{print(n)} lines
wc abc lines noise empty
wc
head -n 3 lines
head -c 10 noise
tail -n 3 lines
tail -c 5 lines
grep -c line lines
grep -n 7.*99 lines
grep x abc
sed s/a/X/ abc
sed -n 2p abc
cut -d  -f2 abc
tr a-z A-Z
tr -d e
printf %s-%d\\n abc 5
seq 1 5
seq 3 -1 1
expr 6 * 7
test -f abc
test -f none
test -d dir
basename /a/b/c
dirname /a/b/c
od abc
od -c one
hexdump -C abc
xxd abc
cmp abc abd
cmp abc abc
diff abc abd
diff abc abc
find dir
find dir -name leaf
find dir -type f
ls dir
ls dir/inner
ls abc
ls none
uniq abc
tac abc
rev abc
nl abc
paste abc abd
fold -w 3 abc
expand abc
base64 noise
factor 1234567
cal 3 2026
strings noise
gzip -c lines
bzip2 -c abc
true
false
yes --help
readlink abc
stat -c %s-%F abc
stat -c %s-%F dir/inner/leaf
env
printenv PATH
sum noise
dd if=noise bs=1000 count=3 skip=2
tee
od -A d -t x1 page
";

#[test]
fn the_shell_runs_its_own_commands() {
    if !possible() {
        return;
    }
    let both = Both::new("shell");
    for script in [
        "i=0; while [ $i -lt 5 ]; do i=$((i+1)); echo $i; done",
        "for x in a b c; do echo $x; done",
        "f() { echo got $1 $#; return 3; }; f one two; echo $?",
        "case hello in h*) echo yes;; *) echo no;; esac",
        "x=5; y=$((x * x - 3)); echo $y; echo $((0x10 + 010))",
        "echo ${HOME:-none} ${x:=set} $x ${#x}",
        "read a < abc; echo $a",
        "read a <<END\nwords here\nEND\necho $a",
        "while read a b; do echo $b $a; done < abc",
        "until false; do echo once; break; done",
        "set -- a b c; shift; echo $# $*",
        "test -e abc && echo there || echo gone",
        "[ -d dir ] && echo dir; [ -x abc ] || echo plain",
        "printf '%05d|%-5s|%x\\n' 42 ab 255",
        "exit 7",
        "cd dir/inner; read a < leaf; echo $a; cd ../..; cd none; echo $?",
        "trap 'echo bye' EXIT; echo work",
        "trap 'echo caught' USR1; kill -USR1 $$; echo after",
        "kill -TERM $$; echo never",
        "kill -KILL $$",
        "echo ab* dir/* dir/inner/*",
        "exec cat abc",
        "cat abc",
        "sha256sum noise",
        "exec busybox wc lines",
        "no-such-command; echo $?",
        "echo 1 >&2; echo 2",
        "type echo; command -v test",
        "umask; umask 077; umask",
        "unset PATH; echo $PATH",
        "a='1 2  3'; set -- $a; echo $3",
        "echo $((7/2)) $((7%2)) $((1<<10))",
        "x=abcdef; echo ${x#ab} ${x%ef} ${x:2:2}",
        "exec 3<abc; read a <&3; read b <&3; echo $b $a; exec 3<&-",
        "ulimit -s; ulimit -n 100; ulimit -n",
    ] {
        both.same(&["busybox", "sh", "-c", script]);
    }
}

/// Step by step on both sides; each step finds what those before it have left.
#[test]
fn files_are_changed_as_on_linux() {
    if !possible() {
        return;
    }
    let both = Both::new("changes");
    for line in CHANGES.lines().filter(|line| !line.is_empty()) {
        let arguments: Vec<&str> = match line.strip_prefix("sh: ") {
            Some(script) => vec!["busybox", "sh", "-c", script],
            None => ["busybox"].into_iter().chain(line.split(' ')).collect(),
        };
        both.same_with(&arguments, b"from the input\n");
    }
    let unknown = both.server.coverage.lock().lines();
    assert!(!unknown.contains(" call "), "every call that these make is there: {unknown}");
}

const CHANGES: &str = "\
sh: echo one > new; echo two >> new; cat new
sh: echo three > new; cat new
sh: set -C; echo four > new; echo $?
sh: exec 3> out; echo a >&3; echo b >&3; exec 3>&-; exec 4< out; read x <&4; read y <&4; echo $y $x
sh: cd dir; echo here > there; cd ..; cat dir/there
sh: : > dir/empty; [ -s dir/empty ] || echo empty; [ -f dir/empty ] && echo file
sh: umask 077; echo hidden > secret
sh: echo x > none/new; echo $?
sh: echo x > dir; echo $?
stat -c %a-%s secret new
cat out dir/there
mkdir -p made/inner
mkdir made
mkdir none/made
cp abc made/copy
cp -r dir made
cp dir made/copy
mv made/copy made/inner/moved
mv nothing made
mv made made/inner
mv made/inner/moved dir/inner/leaf
cat dir/inner/leaf
ls -R made dir
sed -i s/a/X/ dir/inner/leaf
cat dir/inner/leaf
tee made/tee
cat made/tee
sort -o made/sorted lines
sha256sum made/sorted
dd if=noise of=part bs=1000 count=7 skip=3
dd if=abc of=part bs=1 seek=100 conv=notrunc
sha256sum part
truncate -s 10000 part
truncate -s 50 new
sha256sum part new
gzip part
ls part part.gz
gunzip part.gz
sha256sum part
tar cf made.tar made/sorted made/tee
tar tf made.tar
tar xf made.tar -C dir
ls -R dir
chmod 640 abc
stat -c %a abc
touch -d @1600000000 abc
stat -c %Y abc
touch fresh
stat -c %s fresh
touch none/fresh
rm none
rm dir
rmdir dir
rm fresh abc
cat abc
rm -r made dir
ls made dir
find . -name fresh
";

/// Coreutils of this host with its C library: the loader and the libraries are files like others.
#[test]
fn dynamically_linked_programs_run() {
    let files = [
        "/lib64/ld-linux-x86-64.so.2",
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/usr/bin/seq",
        "/usr/bin/sort",
        "/usr/bin/wc",
    ];
    if !possible() || !files.iter().all(|file| std::path::Path::new(file).exists()) {
        return;
    }
    let machine = Played::new();
    for file in files {
        machine.put(file.as_bytes(), &std::fs::read(file).unwrap(), Mode::Executable, MTIME);
    }
    machine.put(b"lines", b"b\nc\na\n", Mode::Plain, MTIME);
    let server = Server::new(machine);
    let sections = |server: &Server<Played>| server.machine.sections();
    for (arguments, output) in [
        (&["/usr/bin/seq", "3"][..], &b"1\n2\n3\n"[..]),
        (&["/usr/bin/sort", "-r", "lines"], b"c\nb\na\n"),
        (&["/usr/bin/wc", "-l", "lines"], b"3 lines\n"),
    ] {
        let outcome = run(&server, arguments, b"");
        assert_eq!((outcome.code, &outcome.output[..]), (0, output), "{}", String::from_utf8_lossy(&outcome.errors));
    }
    let kept = sections(&server);
    run(&server, &["/usr/bin/seq", "3"], b"");
    assert_eq!(sections(&server), kept, "a program leaves no section behind");
    // Without its linker there is a reason.
    let lonely = Played::new();
    lonely.put(b"seq", &std::fs::read("/usr/bin/seq").unwrap(), Mode::Executable, MTIME);
    let refusal = refused(&Server::new(lonely), "seq");
    assert_eq!(refusal, "its dynamic linker /lib64/ld-linux-x86-64.so.2 is not there");
    // Nor may it be somebody else's.
    for (path, mode) in [(&b"/lib64"[..], 0o700), (b"/lib64/ld-linux-x86-64.so.2", 0o600)] {
        let private = Played::new();
        for file in [files[0], files[2]] {
            private.put(file.as_bytes(), &std::fs::read(file).unwrap(), Mode::Executable, MTIME);
        }
        private.file_set_mode(path, mode).unwrap();
        assert_eq!(refused(&Server::new(private), "/usr/bin/seq"), refusal);
    }
}

#[test]
fn what_is_no_program_is_refused_with_a_reason() {
    if !possible() {
        return;
    }
    let machine = Played::new();
    machine.put(b"text", b"just text", Mode::Executable, MTIME);
    machine.put(b"empty", b"", Mode::Executable, MTIME);
    let mut cut = std::fs::read("/bin/busybox").unwrap();
    cut.truncate(100_000);
    machine.put(b"cut", &cut, Mode::Executable, MTIME);
    let server = Server::new(machine);
    for (name, reason) in [
        ("text", "not an ELF file"),
        ("empty", "not an ELF file"),
        ("cut", "segment 1 lies beyond the end of the file"),
    ] {
        assert_eq!(refused(&server, name), reason);
    }
    assert_eq!(server.machine.sections(), 0);
}

#[test]
fn programs_start_programs() {
    if !possible() {
        return;
    }
    let both = Both::new("fork");
    for script in [
        "echo one | cat; echo two",
        "(exit 3); echo $?",
        "x=$(echo a; echo b); echo \"$x\"",
        "cat lines | sort -n | head -5 | wc",
        "cat noise | md5sum",
        "cat noise noise noise | (read -n 1 x; cat) | wc -c",
        "seq 100000 | tail -1",
        "yes | head -3",
        "(echo early; exit 4) & wait $!; echo $?",
        "busybox sh -c '(kill -TERM $$) & wait; echo never'; echo $?",
        "sleep 100 & exec 2>/dev/null; kill $!; wait $!; echo $?",
        "sleep 100 & exec 2>/dev/null; kill -9 $!; wait $!; echo $?",
        "trap 'echo caught' USR1; (kill -USR1 $$) & wait; echo after; wait; echo $?",
        "trap 'echo bye' EXIT; (echo inner); echo outer",
        "i=0; while [ $i -lt 20 ]; do (exit $i) || :; i=$((i+1)); done; echo $i",
        "x=before; (x=inside; echo $x); echo $x",
        "busybox sh -c 'busybox sh -c \"exit 9\"; exit $?'; echo $?",
        "echo a b c | xargs -n 1 echo item",
        "find dir -type f -exec cat {} \\;",
        "cat <<END | tr a-z A-Z\nsome text\nEND",
        "wait 99999; echo $?",
        "(sleep 0.05; echo late) | cat; echo done",
        "{ echo out; echo err >&2; } 2>/dev/null | cat",
        "false | true; echo $?",
        "exec cat abc",
    ] {
        both.same(&["busybox", "sh", "-c", script]);
    }
    both.same_with(&["busybox", "sh"], b"echo one | cat\nread x\nthis is read\necho $x | cat\n");
    assert_eq!((both.server.all(), both.server.machine.open_files()), (vec![], 0));
}

#[test]
fn faults_end_a_program_as_signals_do() {
    if !possible() {
        return;
    }
    // Instructions after the headers: divide by zero, an instruction that does not exist, a null pointer.
    for (code, ends, says) in [
        (&[0x31, 0xc9, 0xf7, 0xf1][..], 136, "arithmetic exception: exception 0 ip 0x400"),
        (&[0x0f, 0x0b], 132, "illegal instruction: exception 6 ip 0x400"),
        (&[0x31, 0xc0, 0x8b, 0x00], 139, "segmentation fault: read at 0x0 ip 0x400"),
        (&[0xcc], 133, "breakpoint: exception 3 ip 0x400"),
    ] {
        let machine = Played::new();
        machine.put(b"faulty", &tiny(code), Mode::Executable, MTIME);
        let outcome = run(&Server::new(machine), &["faulty"], b"");
        assert_eq!(outcome.code, ends);
        let errors = String::from_utf8_lossy(&outcome.errors).into_owned();
        assert!(errors.starts_with(says), "{errors}");
    }
}

fn refused(server: &Server<Played>, name: &str) -> String {
    let file = server.machine.file(name.as_bytes());
    let spawn = personality::server::Spawn {
        path: name.as_bytes(),
        arguments: &[name.as_bytes().to_vec()],
        environment: &[],
        streams: Default::default(),
        file: file.address,
        len: file.len,
        user: 1,
        limits: Default::default(),
        payer: 0,
    };
    server.spawn(&spawn).expect_err("it is refused").to_string()
}

/// The smallest program: one segment at 0x400000 with the headers and this code.
fn tiny(code: &[u8]) -> Vec<u8> {
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let len = 120 + code.len() as u64;
    let mut put = |bytes: &[u8]| file.extend_from_slice(bytes);
    [2u16, 62].iter().for_each(|half| put(&half.to_le_bytes()));
    put(&1u32.to_le_bytes());
    [0x40_0078u64, 64, 0].iter().for_each(|word| put(&word.to_le_bytes()));
    put(&0u32.to_le_bytes());
    [64u16, 56, 1, 64, 0, 0].iter().for_each(|half| put(&half.to_le_bytes()));
    [1u32, 5].iter().for_each(|word| put(&word.to_le_bytes()));
    [0, 0x40_0000, 0x40_0000, len, len, 0x1000].iter().for_each(|word: &u64| put(&word.to_le_bytes()));
    put(code);
    file
}
