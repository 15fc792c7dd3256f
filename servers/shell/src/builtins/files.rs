//! Files: what there is, and what is in them.

use super::table::Table;
use super::text;
use crate::io::Io;
use crate::shell::Shell;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::boot::flag;
use musubi::why;
use musubi::{Error, files};

pub fn ls(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    let prefix: &[u8] = words.get(1).map_or(&[], |w| w);
    let plain = |name: &[u8]| -> Vec<u8> { name.strip_prefix(b"/").unwrap_or(name).to_vec() };
    let mut all = match files::list() {
        Ok(all) => all,
        Err(e) => {
            io.complain("ls", format_args!("{}", why(e)));
            return 1;
        }
    };
    all.retain(|f| plain(&f.0).starts_with(&plain(prefix)));
    all.sort_by(|a, b| a.0.cmp(&b.0));
    if all.is_empty() && !prefix.is_empty() {
        io.complain("ls", format_args!("{}: not found", text(prefix)));
        return 1;
    }
    let mut table = Table::new(&["length", "section", "", "name"], &[0]);
    for (name, file) in &all {
        let kind = if file.flags & u64::from(flag::EXECUTABLE) != 0 { "x" } else { "-" };
        let name = String::from_utf8_lossy(name).into_owned();
        table.row([format!("{}", file.len), format!("{:#x}", file.section), kind.into(), name]);
    }
    table.print(io);
    0
}

pub fn cat(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    let mut status = 0;
    let mut fail = |io: &mut Io, name: &str, e: Error| {
        io.complain("cat", format_args!("{name}: {}", why(e)));
        status = 1;
    };
    if words.len() == 1 {
        if let Err(e) = io.read_all(|io, bytes| io.write(bytes)) {
            fail(io, "input", e);
        }
        return status;
    }
    for name in &words[1..] {
        if name == b"-" {
            if let Err(e) = io.read_all(|io, bytes| io.write(bytes)) {
                fail(io, "input", e);
            }
            continue;
        }
        if let Err(e) = files::open(name).and_then(|bytes| io.write(bytes)) {
            fail(io, text(name), e);
        }
    }
    status
}
