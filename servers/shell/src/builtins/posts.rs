//! Posts of this user's programs, and which of its threads wait there.

use super::known::Known;
use super::table::Table;
use crate::io::Io;
use crate::say;
use crate::shell::Shell;
use alloc::format;
use alloc::string::String;
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
    let titles =
        ["post", "address", "owner", "sent", "received", "refused", "messages", "most", "waiting", "threads", "name"];
    let mut table = Table::new(&titles, &[0, 2, 3, 4, 5, 6, 7, 8]);
    let receivers = known.receivers();
    for post in known.posts() {
        let waiting = receivers.get(&post.number).map_or(&[][..], |threads| threads);
        let counts = known.all.post_counts(post.number);
        table.row([
            format!("{}", post.number),
            format!("{:#x}", post.base),
            format!("{}", post.owner),
            format!("{}", counts.sent()),
            format!("{}", counts.received()),
            format!("{}", counts.refused),
            format!("{}", counts.waiting),
            format!("{}", counts.most),
            format!("{}", waiting.len()),
            some_of(waiting),
            known.section_name(post.base).unwrap_or_default(),
        ]);
    }
    table.print(io);
    say!(
        io,
        "refused: calls that could not send any more, as too much of their program's waited. most: messages that waited at once. threads: that wait for one"
    );
    known.says_what_is_missing(io);
    0
}

/// Numbers that are shown.
const SHOWN: usize = 4;

/// The first of these threads.
fn some_of(threads: &[u64]) -> String {
    let first: Vec<String> = threads.iter().take(SHOWN).map(|thread| format!("{thread}")).collect();
    match first.len() {
        0 => String::from("-"),
        shown if shown < threads.len() => first.join(",") + ",...",
        _ => first.join(","),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_threads_are_shown() {
        assert_eq!(some_of(&[]), "-");
        assert_eq!(some_of(&[7]), "7");
        assert_eq!(some_of(&[1, 2, 3, 4]), "1,2,3,4");
        assert_eq!(some_of(&[1, 2, 3, 4, 5]), "1,2,3,4,...");
    }
}
