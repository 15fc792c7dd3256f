//! What a person who has never been here needs.

use super::{GROUPS, find, text};
use crate::io::Io;
use crate::say;
use crate::shell::Shell;
use alloc::vec::Vec;

pub fn help(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    if let Some(name) = words.get(1) {
        return match find(name) {
            Some(b) => {
                say!(io, "{} {}\n  {}", b.name, b.usage, b.about);
                0
            }
            None => {
                io.complain("help", format_args!("{}: no built-in command (programs are in `ls bin`)", text(name)));
                1
            }
        };
    }
    say!(io, "Every program and file is at an address, the same for all. Programs call each other; rights decide.");
    for group in GROUPS {
        say!(io, "\n{}", group.title);
        for b in group.builtins {
            let left = alloc::format!("{} {}", b.name, b.usage);
            say!(io, "  {left:<44} {}", b.about);
        }
    }
    say!(io, "\nPrograms to try (all: `ls bin`)");
    for (line, about) in [
        ("hello", "heap and floating point"),
        ("counter &", "a server; then: call counter add 5"),
        ("paint", "a picture, coloured by another program where it lies"),
        ("denied write", "an access without a right, and how it ends"),
        ("crash divide", "one of many ways to crash (`crash` lists them)"),
        ("bench calls", "what calls cost (on the host: ./musubi bench calls)"),
        ("busybox sh -c 'echo $((6*7))'", "an unmodified Linux program (if it was put in)"),
    ] {
        say!(io, "  {line:<44} {about}");
    }
    say!(
        io,
        "\nKeys: arrows, ^A ^E ^U ^K ^W ^L; ^C kills what runs, ^D leaves. `a; b`, `a && b`, `a || b`, `a | b`, `a &`, $?, *"
    );
    0
}
