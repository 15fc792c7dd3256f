//! Sections of this user's programs.

use super::known::Known;
use super::table::{Table, bytes};
use super::{misused, number};
use crate::io::Io;
use crate::shell::Shell;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
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
            if info.pager == 0 { String::from("-") } else { format!("{} {:#x}", info.level, info.pager) },
            musubi::ended::text(&info.name),
        ]);
    }
    table.print(io);
    0
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
