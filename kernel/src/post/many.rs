//! Many messages by one call. They are read from the program straight to where they are to lie, so those that nobody waits for are copied once (K1-48).

use super::{kept, pool, wake, with};
use crate::claim;
use crate::domain::Domain;
use crate::processor::copied;
use crate::thread::Thread;
use ::post::Body;
use abi::post::MANY_MAX;
use abi::{Error, Rights};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Words of a message in memory.
const WORDS: usize = size_of::<abi::post::Body>() / size_of::<u64>();

/// `post_send_many`.
pub fn send(thread: &Arc<Thread>, d: &Domain, post: u64, from: u64, count: u64, same: u64) -> Result<u64, Error> {
    if count == 0 || same > 1 {
        return Err(Error::BadArgument);
    }
    let count = count.min(MANY_MAX) as u32;
    let one = |n: u32| {
        let address = from.wrapping_add(u64::from(n) * size_of::<abi::post::Body>() as u64);
        claim::read_record(d, address).map(|abi::post::Body { op, words }| Body { op, words, lend: 0 })
    };
    let first = if same == 1 { Some(one(0)?) } else { None };
    let mut woken = Vec::new();
    let sent = with(thread, d, &[(post, Rights::CALL)], |by, permits| {
        let to = &permits[0];
        if let Some(body) = first {
            return pool().send_many(to, by, count, |_| body, |one| woken.push(one));
        }
        let rooms = pool().rooms(by, count);
        let written = read(d, from, &rooms).and_then(|()| {
            pool().send_written(to, by, &rooms, |one| {
                // From where it was written to where he has it.
                copied(super::WORDS);
                woken.push(one);
            })
        });
        let mut sent = written.unwrap_or(0);
        rooms[sent as usize..].iter().for_each(|room| pool().done_with(*room, by.processor));
        written?;
        // Beyond what may be left in a post it is only sent to who waits for it.
        while sent < count && sent as usize >= rooms.len() {
            let outcome = one(sent).and_then(|body| pool().send_many(to, by, 1, |_| body, |one| woken.push(one)));
            match outcome {
                Ok(_) => sent += 1,
                Err(error) if sent == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(sent)
    });
    woken.into_iter().for_each(wake);
    let sent = sent.map(u64::from);
    (0..*sent.as_ref().unwrap_or(&0)).for_each(|_| kept());
    sent
}

/// Word by word, of which one may lie on two pages.
fn read(d: &Domain, from: u64, rooms: &[u32]) -> Result<(), Error> {
    let mut word = [0; size_of::<u64>()];
    let len = (rooms.len() * WORDS * word.len()) as u64;
    claim::walk::<{ claim::AGAIN }>(d, from, len, Rights::READ, |frame, offset, at, len| {
        let mut done = 0;
        while done < len {
            let (number, within) = ((at + done) / word.len(), (at + done) % word.len());
            let part = (word.len() - within).min(len - done);
            frame.read(offset + done, &mut word[within..within + part]);
            if within + part == word.len() {
                pool().write(rooms[number / WORDS], number % WORDS, u64::from_ne_bytes(word));
            }
            done += part;
        }
    })
}
