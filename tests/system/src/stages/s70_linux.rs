//! Unmodified Linux programs from Debian: what they print is what they print on the host.

use super::faults_linux;
use crate::case::{Case, checks, several, sh};

const BUSYBOX: &str = "/bin/busybox";

pub fn cases() -> Vec<Case> {
    vec![
        busybox("echo", "busybox echo hello", &["busybox", "echo", "hello"]),
        sum("sha256_of_1_byte", 1).matrix(),
        sum("sha256_of_a_page", 4096),
        sum("sha256_of_20_mb", 20_000_000),
        lines("cat", "busybox cat lines", &["busybox", "cat", "lines"]),
        lines("sort", "busybox sort -n lines", &["busybox", "sort", "-n", "lines"]),
        lines(
            "awk",
            "busybox awk '{ n += $1 } END { print NR, n }' lines",
            &["busybox", "awk", "{ n += $1 } END { print NR, n }", "lines"],
        ),
        busybox("loop", &format!("busybox sh -c '{LOOP}'"), &["busybox", "sh", "-c", LOOP]),
        busybox("status", "busybox sh -c 'exit 7'", &["busybox", "true"]).status(7),
        sh("uname", "busybox uname -a")
            .put(BUSYBOX, "/bin/busybox")
            .out("Linux musubi 6.1.0-musubi #1 SMP Musubi x86_64 GNU/Linux\n").placed_thoroughly(),
        busybox("date", "busybox date -u +%Y-%j", &["busybox", "date", "-u", "+%Y-%j"]),
        busybox("script", &format!("busybox sh -c '{SCRIPT}'"), &["busybox", "sh", "-c", SCRIPT]),
        // The shell becomes the tool that it runs last.
        lines("exec", "busybox sh -c 'wc lines'", &["busybox", "wc", "lines"]).matrix(),
        lines("many_reads", "busybox od -v lines", &["busybox", "od", "-v", "lines"]),
        super::s65_gate::jumps_to_where_calls_end(),
        // Several programs at a time, on the native shell's pipes.
        sh("pipeline", "busybox seq 3000 | busybox sort -rn | busybox sha256sum")
            .put(BUSYBOX, "/bin/busybox")
            .out("4a2ec04775606a5c93fa3e28e537b364ea72ac4384ed2f28fe88e01a39892232  -\n")
            .matrix().placed_thoroughly(),
        sh("nobody_reads", "busybox yes | busybox head -n 2").put(BUSYBOX, "/bin/busybox").out("y\ny\n").placed_thoroughly(),
        sh("what_is_not_there", "busybox nc 127.0.0.1 1; linux-unknown")
            .put(BUSYBOX, "/bin/busybox")
            .out_has(&["1  call 41   socket  (last: busybox)"])
            .err_has(&["nc: socket: Function not implemented\n"]).placed_thoroughly(),
        // Programs that start programs: a shell's pipes, subshells, jobs and signals.
        lines("files_outlive_who_has_opened_them", &format!("busybox sh -c '{LEFT}'"), &["busybox", "sh", "-c", LEFT]).cpus(2),
        lines("forks", &format!("busybox sh -c '{FORKS}'"), &["busybox", "sh", "-c", FORKS]).matrix(),
        lines("forks_and_signals", &format!("busybox sh -c '{SIGNALS}'"), &["busybox", "sh", "-c", SIGNALS]).matrix(),
        debian("debian_shells", DEBIAN),
        checks(
            "forked",
            "check linux",
            &[
                "nothing_is_left_of_those_who_fork",
                "a_group_ends_with_those_who_were_forked",
                "who_cannot_fork_is_told",
                "a_start_by_message_calls_nobody_as_the_system",
                "who_waits_for_input_leaves_streams_to_others",
            ],
        )
        .put(BUSYBOX, "/bin/busybox")
        .err_any()
        .matrix().placed_thoroughly(),
        busybox("files_by_a_script", &format!("busybox sh -c '{WRITES}'"), &["busybox", "sh", "-c", WRITES])
            .err("sh: can't create none/c: nonexistent directory\n")
            .matrix(),
        lines("files_copied_moved_removed", TOOLS, &["sh", "-c", TOOLS]).matrix(),
        lines("files_packed", PACKS, &["sh", "-c", PACKS]),
        sh("files_of_the_system", "busybox touch bin/new; busybox rm bin/shell; busybox mkdir dev/d; busybox ln tmp x; busybox ln -s tmp x")
            .put(BUSYBOX, "/bin/busybox")
            .err_has(&[
                "touch: bin/new: Permission denied\n",
                "rm: can't remove 'bin/shell': Permission denied\n",
                "mkdir: can't create directory 'dev/d': Read-only file system\n",
                "ln: x: Operation not permitted\n",
            ])
            .status(1).placed_thoroughly(),
        // Both see the same files, and what is full is full for both.
        sh("files_of_both", "echo native > a; busybox sh -c 'read x < a; echo linux $x >> a'; cat a; busybox cp a tmp; cat tmp/a")
            .put(BUSYBOX, "/bin/busybox")
            .out("native\nlinux native\nnative\nlinux native\n").placed_thoroughly(),
        sh(
            "no_space",
            "busybox dd if=/dev/zero of=big bs=65536 count=1000; echo $?; busybox sh -c 'echo x > more'; busybox rm big; \
             busybox dd if=/dev/zero of=less bs=65536 count=100; echo $?",
        )
        .put(BUSYBOX, "/bin/busybox")
        .mem("192M")
        .out("1\n0\n")
        .err_has(&["dd: error writing 'big': No space left on device\n", "100+0 records out\n"]).placed_thoroughly(),
        sh("signal", "busybox sh -c 'kill -TERM $$'").put(BUSYBOX, "/bin/busybox").status(128 + 15).placed_thoroughly(),
        sh("killed", "busybox sleep 100 & sleep 0.2; kill %1; sleep 1.5; busybox echo alive")
            .put(BUSYBOX, "/bin/busybox")
            .out_has(&["alive\n"])
            .err_any().placed_thoroughly(),
        sh("dynamic", "/usr/bin/seq 3")
            .put("/usr/bin/seq", "/usr/bin/seq")
            .put("/lib64/ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2")
            .put("/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6")
            .out("1\n2\n3\n").placed_thoroughly(),
        fault("null_pointer", &[0x31, 0xc0, 0xc6, 0x00, 0x01], 139, "segmentation fault: write at 0x0 ip 0x40007a\n")
            .matrix(),
        fault("wild_jump", &[0x31, 0xc0, 0xff, 0xe0], 139, "segmentation fault: jump to 0x0 ip 0x0\n"),
        fault("divide", &[0x31, 0xc9, 0xf7, 0xf1], 136, "arithmetic exception: exception 0 ip 0x40007a\n"),
        fault("privileged", &[0xf4], 139, "segmentation fault: exception 13 ip 0x400078\n"),
        fault("no_instruction", &[0x0f, 0x0b], 132, "illegal instruction: exception 6 ip 0x400078\n"),
        several("fault_handlers", &faults_linux::names(), faults_linux::handled).matrix().placed_thoroughly(),
        sh("damaged", "damaged")
            .program("damaged", tiny(&[0xf4])[..100].to_vec())
            .err_has(&["the file ends within its headers"])
            .status(126).placed_thoroughly(),
    ]
}

const SCRIPT: &str = "f() { case $1 in a*) echo \"$1: $((0x10 + $2))\";; *) return 3;; esac; }; f abc 5; f b; echo $?; \
    read x y <<END\nsome words here\nEND\necho \"$y|$x\"; for i in 1 2 3; do printf %03d $i; done; trap \"echo bye\" EXIT";

/// A child goes on reading in what its parent has opened, who has ended, and for longer than it takes until that is noticed.
const LEFT: &str = "sh -c \"exec 3<lines; (sleep 2; read x <&3; echo got \\$x; read x <&3; echo got \\$x) & exit 0\"; sleep 4; echo end";
const FORKS: &str = "x=$(echo a; echo b); echo \"$x\"; cat lines | sort -n | head -n 5 | wc; (exit 3); echo $?; y=1; (y=2; echo $y); echo $y; \
    i=0; while [ $i -lt 50 ]; do (exit $i); i=$((i+1)); done; echo $i; echo a b c | xargs -n 1 echo item; yes | head -n 3; seq 30000 | tail -n 1; \
    (sleep 0.05; echo late) | cat; find . -name lines -exec cat {} + | sha256sum; { echo out; echo err >&2; } 2>/dev/null | cat; exec wc lines";

const SIGNALS: &str = "(echo early; exit 4) & wait $!; echo $?; sleep 100 & exec 2>/dev/null; kill $!; wait $!; echo $?; sleep 100 & kill -9 $!; wait $!; \
    echo $?; trap \"echo caught\" USR1; (kill -USR1 $$) & wait; echo after; wait; echo $?; trap \"echo bye\" EXIT; (echo inner); \
    trap \"\" TERM; kill $$; sleep 0.01; kill -0 $$; echo $?; kill -0 999999; echo $?";

/// Debian's shells and tools, which are linked dynamically.
const DEBIAN: &str = "/usr/bin/bash -c 'x=$(/usr/bin/seq 9 | /usr/bin/head -n 2); echo \"$x\"; for i in 1 2 3; do (exit $i); echo $?; done; \
    { echo to; echo cat; } | /usr/bin/cat; /usr/bin/seq 3 | while read n; do echo n$n; done; \
    /usr/bin/dash -c \"/usr/bin/seq 1000 | /usr/bin/wc -l; exit 6\"; echo $?'";

const WRITES: &str = "echo one > a; echo two >> a; while read x; do echo got $x; done < a; exec 3> b; echo three >&3; exec 3>&-; \
    read y < b; echo $y; echo x > none/c; echo $?; cd none 2> /dev/null; [ -s a ] && echo there; set -C; echo x > d; cat d";

/// The same on the host, whose shell starts Debian's busybox, too.
const TOOLS: &str = "busybox mkdir -p d/e; busybox cp lines d/a; busybox cp -r d f; busybox mv f/a f/e/b; busybox sed -i s/line/word/ f/e/b; \
    busybox tail -n 2 f/e/b; busybox ls -R d f; busybox rm -r d; busybox ls d 2> err; busybox cat err; busybox truncate -s 20 f/e/b; \
    busybox cat f/e/b; busybox sort -o lines lines; busybox sha256sum lines; busybox chmod 600 lines; busybox stat -c %a-%s lines";

const PACKS: &str = "busybox mkdir d; busybox cp lines d/a; busybox cp lines d/b; busybox tar cf t.tar d/a d/b; busybox rm -r d; busybox tar tf t.tar; \
    busybox mkdir d; busybox tar xf t.tar; busybox sha256sum d/a d/b lines; busybox gzip d/a; busybox gunzip d/a.gz; busybox cmp d/a lines; busybox ls -R d";

/// A program that runs into a fault at once.
fn fault(name: &'static str, code: &[u8], status: u8, says: &'static str) -> Case {
    sh(name, "faulty").program("faulty", tiny(code)).err_has(&[says]).status(status).placed_thoroughly()
}

/// The smallest program: one segment at 0x400000, with the headers and this code behind them at 0x400078.
fn tiny(code: &[u8]) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let mut put = |bytes: &[u8]| file.extend_from_slice(bytes);
    let len = 0x78 + code.len() as u64;
    // A program, x86-64, version 1; entry, program headers, no section headers; no flags.
    put(&[2, 0, 62, 0, 1, 0, 0, 0]);
    [0x40_0078u64, 64, 0].iter().for_each(|word| put(&word.to_le_bytes()));
    put(&[0; 4]);
    [64u16, 56, 1, 64, 0, 0].iter().for_each(|half| put(&half.to_le_bytes()));
    // To be loaded, read and execute.
    put(&[1, 0, 0, 0, 5, 0, 0, 0]);
    [0, 0x40_0000, 0x40_0000, len, len, 0x1000].iter().for_each(|word: &u64| put(&word.to_le_bytes()));
    put(code);
    file
}

const LOOP: &str = "i=0; while [ $i -lt 5 ]; do echo $((i * i)); i=$((i + 1)); done";

fn debian(name: &'static str, line: &'static str) -> Case {
    const FILES: [&str; 9] = [
        "/lib64/ld-linux-x86-64.so.2",
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/lib/x86_64-linux-gnu/libtinfo.so.6",
        "/usr/bin/bash",
        "/usr/bin/dash",
        "/usr/bin/cat",
        "/usr/bin/head",
        "/usr/bin/seq",
        "/usr/bin/wc",
    ];
    FILES
        .iter()
        .fold(sh(name, line).mem("1G"), |case, file| case.put(file, file))
        .out_as_host(&["sh", "-c", line])
        .placed()
}

fn busybox(name: &'static str, line: &str, host: &[&'static str]) -> Case {
    sh(name, line).put(BUSYBOX, "/bin/busybox").out_as_host(host).placed()
}

fn sum(name: &'static str, len: u64) -> Case {
    let data: Vec<u8> = (0..len).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    busybox(name, "busybox sha256sum data", &["busybox", "sha256sum", "data"]).file("data", data)
}

fn lines(name: &'static str, line: &str, host: &[&'static str]) -> Case {
    let lines: String = (0..1000u32).map(|n| format!("{} line\n", n * 7919 % 1000)).collect();
    busybox(name, line, host).file("lines", lines)
}
