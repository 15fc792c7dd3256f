//! All sections.

use super::access::entry_text;
use super::table::{Table, bytes};
use super::{misused, number};
use crate::io::Io;
use crate::shell::Shell;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::Rights;
use musubi::abi::section::{SectionInfo, kind};
use musubi::rt::{section, task};

pub fn sections(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    let of = match words {
        [_] => None,
        [_, task] => match number(task) {
            Some(task) => Some(task),
            None => return misused(words, io),
        },
        _ => return misused(words, io),
    };
    if let Some(of) = of
        && !task::list().any(|t| t.task == of)
    {
        io.complain("sections", format_args!("{of}: no such task"));
        return 1;
    }
    let mut table =
        Table::new(&["address", "length", "in memory", "shared", "kind", "owner", "name", "you", "ACL"], &[1, 2, 3, 5]);
    for info in section::list().filter(|info| of.is_none_or(|task| info.owner == task)) {
        table.row([
            format!("{:#x}", info.base),
            bytes(info.len),
            format!("{}", info.resident),
            format!("{}", info.shared),
            kind_text(&info).into(),
            format!("{}", info.owner),
            musubi::ended::text(&info.name),
            format!("{}", Rights::from_bits_truncate(info.rights as u32)),
            acl_text(&info),
        ]);
    }
    table.print(io);
    0
}

pub fn kind_text(info: &SectionInfo) -> &'static str {
    match info.kind {
        kind::TEXT => "text",
        kind::DEVICE => "device",
        kind::PORTS => "ports",
        kind::STACK => "stack",
        _ => "data",
    }
}

/// The entries, where we may read them; otherwise how many there are.
fn acl_text(info: &SectionInfo) -> String {
    const SHOWN: usize = 3;
    match section::acl(info.base) {
        Ok(entries) => {
            let mut shown: Vec<String> = entries.iter().take(SHOWN).map(entry_text).collect();
            if entries.len() > SHOWN {
                shown.push(format!("and {} more", entries.len() - SHOWN));
            }
            shown.join("; ")
        }
        Err(_) => format!("({})", info.entries),
    }
}
