//! Who may do what to a section.

use super::sections::kind_text;
use super::{misused, number, text};
use crate::io::Io;
use crate::say;
use crate::shell::Shell;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::rights::{ANY_TEXT, principal};
use musubi::rt::section;
use musubi::why;
use musubi::{AclEntry, Rights};

/// An entry in words.
pub fn entry_text(entry: &AclEntry) -> String {
    let who = match entry.principal {
        principal::THREAD => format!("thread {}", entry.id),
        principal::TASK => format!("task {}", entry.id),
        principal::USER => format!("user {}", entry.id),
        principal::NODE => format!("node {}", entry.id),
        _ => "anybody".into(),
    };
    let via = match entry.text {
        ANY_TEXT => "any text".into(),
        base => match musubi::ended::section_name(base).filter(|n| !n.is_empty()) {
            Some(name) => format!("{name} {base:#x}"),
            None => format!("{base:#x}"),
        },
    };
    format!("{who} in {via}: {}", Rights::from_bits_truncate(entry.rights))
}

pub fn acl(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    let Some(address) = words.get(1).and_then(|w| number(w)) else {
        return misused(words, io);
    };
    let outcome = match &words[2..] {
        [] => show(address, io),
        [set, who, via, rights] if set == b"set" => {
            let Some(entry) = entry(text(who), text(via), text(rights)) else {
                io.complain(
                    "acl",
                    format_args!(
                        "WHO: any, thread:N, task:N, user:N, node:N. TEXT: any or an address. RIGHTS: of rwxcad, or -"
                    ),
                );
                return 2;
            };
            section::info(address).and_then(|info| section::grant(info.base, &entry))
        }
        _ => return misused(words, io),
    };
    match outcome {
        Ok(()) => 0,
        Err(e) => {
            io.complain("acl", format_args!("{address:#x}: {}", why(e)));
            1
        }
    }
}

fn show(address: u64, io: &mut Io) -> Result<(), musubi::Error> {
    let info = section::info(address)?;
    let yours = Rights::from_bits_truncate(info.rights as u32);
    say!(
        io,
        "{:#x} {} {} of task {}; you: {yours}",
        info.base,
        kind_text(info.kind),
        musubi::ended::text(&info.name),
        info.owner
    );
    for entry in section::acl(info.base)? {
        say!(io, "  {}", entry_text(&entry));
    }
    Ok(())
}

fn entry(who: &str, via: &str, rights: &str) -> Option<AclEntry> {
    let (kind, id) = match who.split_once(':') {
        None if who == "any" => (principal::ANY, 0),
        Some((kind, id)) => {
            let kind = match kind {
                "thread" => principal::THREAD,
                "task" => principal::TASK,
                "user" => principal::USER,
                "node" => principal::NODE,
                _ => return None,
            };
            (kind, number(id.as_bytes())?)
        }
        None => return None,
    };
    let text = if via == "any" { ANY_TEXT } else { number(via.as_bytes())? };
    let mut bits = Rights::empty();
    for letter in rights.chars().filter(|c| *c != '-') {
        bits |= match letter {
            'r' => Rights::READ,
            'w' => Rights::WRITE,
            'x' => Rights::EXECUTE,
            'c' => Rights::CALL,
            'a' => Rights::CHANGE_ACL,
            'd' => Rights::DMA,
            _ => return None,
        };
    }
    Some(AclEntry { principal: kind, rights: bits.bits(), id, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_as_people_write_them() {
        let e = entry("task:7", "0x400000", "rw").unwrap();
        assert_eq!((e.principal, e.id, e.text, e.rights), (principal::TASK, 7, 0x40_0000, 3));
        assert_eq!(entry("any", "any", "-").unwrap().rights, 0);
        for (who, via, rights) in
            [("all", "any", "r"), ("task:x", "any", "r"), ("any", "here", "r"), ("any", "any", "q")]
        {
            assert_eq!(entry(who, via, rights), None);
        }
    }
}
