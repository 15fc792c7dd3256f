//! Unmodified Linux programs from Debian: what they print is what they print on the host.

use crate::case::{Case, sh};

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
    ]
}

const LOOP: &str = "i=0; while [ $i -lt 5 ]; do echo $((i * i)); i=$((i + 1)); done";

fn busybox(name: &'static str, line: &str, host: &[&'static str]) -> Case {
    sh(name, line).put(BUSYBOX, "/bin/busybox").out_as_host(host)
}

fn sum(name: &'static str, len: u64) -> Case {
    let data: Vec<u8> = (0..len).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    busybox(name, "busybox sha256sum data", &["busybox", "sha256sum", "data"]).file("data", data)
}

fn lines(name: &'static str, line: &str, host: &[&'static str]) -> Case {
    let lines: String = (0..1000u32).map(|n| format!("{} line\n", n * 7919 % 1000)).collect();
    busybox(name, line, host).file("lines", lines)
}
