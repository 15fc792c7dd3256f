//! Questions with which as much memory is lent as a message can name, and answers: what of it was used is taken back with them, by the way that the
//! trace sees.

use alloc::format;
use alloc::vec::Vec;
use musubi::abi::layout::PAGE;
use musubi::abi::section::kind;
use musubi::command::Command;
use musubi::rt::gate::ANYBODY;
use musubi::rt::post::{self, FOR_EVER, Post};
use musubi::rt::{Section, probe};
use musubi::{AclEntry, Error, Rights};

/// Ranges that a message can name: an address and a length each, for reading.
const RANGES: u64 = 3;
const LEND: u16 = 0b1_0101;
/// Pages of each, and which of them are used.
const PAGES: u64 = 512;
const EACH: usize = 4;
const QUESTIONS: usize = 3;
const ASK: u32 = 1;
const END: u32 = 2;
/// Where the holder says that it has used what it is lent, and that it is to do so without an answer.
const TELL: u32 = 3;
const KEEP: u32 = 4;
/// So long the answer may take.
const PATIENCE_NS: u64 = 60_000_000_000;

pub fn calls() -> Result<(), Error> {
    let post = Post::any()?;
    post.allow(&AclEntry { rights: (Rights::CALL | Rights::READ).bits(), ..ANYBODY })?;
    let address = format!("{}", post.0);
    let holder =
        Command::new(b"bin/bench").args(["bench", "holder", &address]).spawn().map_err(|refused| refused.error)?;
    let len = PAGES * PAGE;
    let lent: Vec<Section> = (0..RANGES).map(|_| Section::create(len, len, kind::DATA, 0)).collect::<Result<_, _>>()?;
    let words: Vec<u64> = lent.iter().flat_map(|one| [one.base(), len]).collect();
    let words: [u64; 6] = words.try_into().map_err(|_| Error::BadArgument)?;
    lent.iter().for_each(|one| (0..PAGES).for_each(|page| probe::write(one.base() + page * PAGE)));
    for _ in 0..QUESTIONS {
        let answer = post.ask_lending(ASK, words, LEND, PATIENCE_NS)?;
        if answer.words != words {
            return Err(Error::Changed);
        }
    }
    let back = Post::any()?;
    back.allow(&AclEntry { rights: Rights::CALL.bits(), ..ANYBODY })?;
    post.send(TELL, [back.0, 0, 0, 0, 0, 0], None)?;
    for _ in 0..QUESTIONS {
        // Without waiting: answered, and taken back.
        post.send_lending(ASK, words, LEND, back, FOR_EVER)?;
        let answered = back.receive(PATIENCE_NS)?;
        let loan = post.send_lending(KEEP, words, LEND, back, FOR_EVER)?;
        let used = back.receive(PATIENCE_NS)?;
        post::cancel(loan)?;
        if (answered.op, answered.words, used.op) != (ASK, words, KEEP) {
            return Err(Error::Changed);
        }
    }
    post.send(END, [0; 6], None)?;
    holder.wait()?;
    lent.into_iter().try_for_each(Section::delete)?;
    back.free(true)?;
    post.free(true)
}

/// The program that is asked, and may use none of that otherwise.
pub fn holder(post: &str) -> i32 {
    let Ok(post) = post.parse().map(Post) else { return 2 };
    let (mut came, mut back) = (post.receive(FOR_EVER), None);
    loop {
        match came {
            Ok(message) if message.op == ASK || message.op == KEEP => {
                let [a, _, b, _, c, _] = message.words;
                for page in (0..PAGES).step_by(EACH) {
                    [a, b, c].into_iter().for_each(|base| _ = probe::read(base + page * PAGE));
                }
                came = match back.filter(|_| message.op == KEEP) {
                    Some(back) => Post(back).send(KEEP, [0; 6], None).and_then(|_| post.receive(FOR_EVER)),
                    None => post::answer_and_receive(message.back, ASK, message.words, post, FOR_EVER),
                };
            }
            Ok(message) if message.op == TELL => {
                back = Some(message.words[0]);
                came = post.receive(FOR_EVER);
            }
            Ok(_) => return 0,
            Err(_) => return 1,
        }
    }
}
