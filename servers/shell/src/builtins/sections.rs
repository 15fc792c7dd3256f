//! Sections of this user's programs.

use super::known::Known;
use super::table::{Table, bytes};
use super::{misused, number};
use crate::io::Io;
use crate::shell::Shell;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::info::layout::{IN_VAIN, Section};
use musubi::abi::section::kind;
use musubi::why;

pub fn sections(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    let of = match words {
        [_] => None,
        [_, task] => match number(task) {
            Some(task) => Some(task),
            None => return misused(words, io),
        },
        _ => return misused(words, io),
    };
    let known = match Known::look() {
        Ok(known) => known,
        Err(e) => {
            io.complain("sections", format_args!("{}", why(e)));
            return 1;
        }
    };
    if let Some(of) = of
        && !known.all.tasks().any(|t| t.number == of)
    {
        io.complain("sections", format_args!("{of}: no such task"));
        return 1;
    }
    let mut table = Table::new(&["address", "length", "pages", "kind", "ACL", "owner", "pager", "name"], &[1, 2, 4, 5]);
    for info in known.sections().iter().filter(|info| of.is_none_or(|task| info.owner == task)) {
        table.row([
            format!("{:#x}", info.base),
            bytes(info.len),
            format!("{}", info.charged),
            kind_text(info.kind & 0xff).into(),
            format!("{}", info.kind >> 8 & 0xff_ffff),
            format!("{}", info.owner),
            pager(info),
            musubi::ended::text(&info.name),
        ]);
    }
    table.print(io);
    0
}

/// Level and text, and how often it was asked.
fn pager(info: &Section) -> String {
    if info.pager == 0 { "-".into() } else { format!("{} {}", info.level, asked(info.pager, info.asked)) }
}

/// A pager's text, and how often it was asked; in vain, if that happened.
pub fn asked(text: u64, asked: u64) -> String {
    match (asked & ((1 << IN_VAIN) - 1), asked >> IN_VAIN) {
        (asked, 0) => format!("{text:#x} {asked}"),
        (asked, in_vain) => format!("{text:#x} {asked} ({in_vain} in vain)"),
    }
}

pub fn kind_text(kind: u64) -> &'static str {
    match kind {
        kind::TEXT => "text",
        kind::DEVICE => "device",
        kind::PORTS => "ports",
        kind::STACK => "stack",
        kind::POST => "post",
        _ => "data",
    }
}
