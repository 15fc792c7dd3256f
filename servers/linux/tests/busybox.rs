//! Debian's busybox under the personality: the same commands on the same files print the same as on this host.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod played;

use personality::server::Server;
use personality::tree::Mode;
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
    let lines: String = (0..20_000u32).map(|i| format!("{} line {}\n", i.wrapping_mul(2_654_435_761) % 9973, i)).collect();
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
            here.code, text(&here.output), text(&here.errors), there.code, text(&there.output), text(&there.errors)
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
