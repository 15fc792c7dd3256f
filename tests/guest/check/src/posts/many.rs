//! What a call that sends many messages takes, and what it refuses (K1-24, K1-29).

use super::{WORDS, post};
use crate::report::{Outcome, doing};
use crate::same;
use alloc::vec;
use musubi::Error;
use musubi::abi::calls::stub;
use musubi::abi::post::{Body, MANY_MAX};
use musubi::rt::Trap;

/// None, a flag that does not exist, and memory that is not there are refused, and nothing is sent; of more than may go by one call that many go.
pub fn by_one_call() -> Outcome {
    let post = post()?;
    let one = Body { op: 7, words: WORDS };
    let at = core::ptr::from_ref(&one) as u64;
    same!(post.send_many(&[]), Err(Error::BadArgument), "none of them");
    same!(post.send_copies(&one, 0), Err(Error::BadArgument), "none like it");
    same!(stub::post_send_many(&Trap, post.0, at, 1, 2), Err(Error::BadArgument), "a flag that does not exist");
    same!(stub::post_send_many(&Trap, post.0, at, u64::MAX, u64::MAX), Err(Error::BadArgument), "all of them");
    let nowhere = post.0 - 1;
    for same in [0, 1] {
        let refused = stub::post_send_many(&Trap, post.0, nowhere, 1, same).err();
        same!(refused.is_some(), true, "from where nothing is (flag {same})");
    }
    same!(post.free(false), Ok(()), "nothing was sent");
    let post = super::post()?;
    let all = vec![one; MANY_MAX as usize + 1];
    let ways: [&dyn Fn() -> Result<u64, Error>; 2] =
        [&|| post.send_copies(&one, MANY_MAX + 1), &|| post.send_many(&all)];
    for send in ways {
        same!(send(), Ok(MANY_MAX), "of one more than may go by one call");
        for _ in 0..MANY_MAX {
            let came = post.receive(0).map_err(doing("receiving"))?;
            same!((came.op, came.words), (7, WORDS), "a message");
        }
        same!(post.receive(0).err(), Some(Error::TimedOut), "no more were sent");
    }
    post.free(false).map_err(doing("freeing"))
}
