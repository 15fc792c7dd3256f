//! What each post counts.

use super::{all, own, waits_at};
use crate::report::{Outcome, doing};
use crate::{holds, same};
use alloc::string::String;
use musubi::Error;
use musubi::abi::info::layout::PostCounts;
use musubi::rt::post::{self, FOR_EVER, Post};
use musubi::rt::thread;

/// What has come to a post, by each way: left there, handed to who waits (also by the short way, a thousand times), and refused because too much
/// waits; and whoever gets the number next begins anew.
pub fn of_posts() -> Outcome {
    const ROUNDS: u64 = 1000;
    let post = Post::any().map_err(doing("a post"))?;
    let number = own()?.posts().find(|one| one.base == post.0).map(|one| one.number).ok_or("a new post is not seen")?;
    let is = |wanted: PostCounts, what: &str| {
        same!(all()?.post_counts(number), wanted, "counts of a post {what}");
        Ok::<_, String>(())
    };
    is(PostCounts::default(), "that is new")?;
    for op in 1..=3 {
        post.send(op, [0; 6], None).map_err(doing("send"))?;
    }
    post.receive(0).map_err(doing("receive"))?;
    let left = PostCounts { waiting: 2, most: 3, queued: 3, ..PostCounts::default() };
    is(left, "with messages that nobody waited for")?;
    same!((left.sent(), left.received()), (3, 1), "of these");
    (0..2).try_for_each(|_| post.receive(0).map(drop)).map_err(doing("receive"))?;

    // Each finds the server waiting, but perhaps the first.
    let server = thread::spawn(
        move || {
            let mut next = post.receive(FOR_EVER);
            while let Ok(message) = next
                && message.op != 0
            {
                next = post::answer_and_receive(message.back, 0, message.words, post, FOR_EVER);
            }
        },
        0,
    )
    .map_err(doing("thread"))?;
    waits_at(server.number(), &[number])?;
    (0..ROUNDS).try_for_each(|_| post.ask(1, [0; 6], FOR_EVER).map(drop)).map_err(doing("asking"))?;
    let counts = all()?.post_counts(number);
    same!((counts.sent(), counts.waiting, counts.most, counts.refused), (3 + ROUNDS, 0, 3, 0), "questions: {counts:?}");
    holds!(counts.handed >= ROUNDS / 2, "{} of {ROUNDS} questions were handed to who waited", counts.handed);
    post.send(0, [0; 6], None).map_err(doing("the last"))?;
    server.join().map_err(doing("join"))?;

    // Until no more of this program's may wait; the call that says so has sent nothing.
    let before = all()?.post_counts(number);
    let mut sent = 0;
    let refused = loop {
        match post.send(1, [0; 6], None) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    same!(refused, Error::MessageQuota, "why no more is sent");
    let full =
        PostCounts { waiting: sent, most: sent.max(before.most), queued: before.queued + sent, refused: 1, ..before };
    is(full, "that is full")?;
    same!(post.send(1, [0; 6], None), Err(Error::MessageQuota), "once more");
    same!(post.ask(1, [0; 6], FOR_EVER).err(), Some(Error::MessageQuota), "a question");
    is(PostCounts { refused: 3, ..full }, "that is still full")?;
    post.free(true).map_err(doing("free"))?;
    is(PostCounts::default(), "that was given back")
}
