//! Posts of this user's programs.

use super::known::Known;
use super::table::Table;
use crate::io::Io;
use crate::shell::Shell;
use alloc::format;
use alloc::vec::Vec;
use musubi::why;

pub fn posts(_: &mut Shell, _: &[Vec<u8>], io: &mut Io) -> i32 {
    let known = match Known::look() {
        Ok(known) => known,
        Err(e) => {
            io.complain("posts", format_args!("{}", why(e)));
            return 1;
        }
    };
    let mut table = Table::new(&["post", "address", "owner", "messages", "name"], &[0, 2, 3]);
    for post in known.posts() {
        table.row([
            format!("{}", post.number),
            format!("{:#x}", post.base),
            format!("{}", post.owner),
            format!("{}", known.all.messages(post.number)),
            known.section_name(post.base).unwrap_or_default(),
        ]);
    }
    table.print(io);
    0
}
