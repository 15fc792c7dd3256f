//! What a user was promised of what there is, and has of it.

use super::{all, own};
use crate::holds;
use crate::memory::{data, store};
use crate::report::{Outcome, doing};
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use musubi::Error;
use musubi::abi::info::layout::Promised;
use musubi::abi::layout::PAGE;
use musubi::rt::info::Had;
use musubi::rt::post::Post;
use musubi::rt::{sync, thread};

/// Of [`Promised::pool`].
const POSTS: usize = 0;
const MESSAGES: usize = 1;
const RECORDS: usize = 2;
const ACCOUNTS: usize = 3;

/// So many of each are had.
const SOME: u64 = 8;
/// Of which so many are seen, whatever else comes and goes.
const MOSTLY: u64 = 5;

fn look() -> Result<(Promised, Had), String> {
    let own = own()?;
    Ok((own.promised(), own.had(&all()?)))
}

pub fn is_seen() -> Outcome {
    // Who has had something of the pool was promised of it, as long as his task is there.
    Post::any().and_then(|post| post.free(true)).map_err(doing("a post"))?;
    let machine = all()?.machine();
    let (promised, had) = look()?;
    let pool = promised.pool.iter().zip(promised.pool_had).all(|(most, had)| *most > 0 && had <= *most);
    holds!(promised.frames > 0 && promised.heap > 0 && pool, "{promised:?}");
    holds!(machine.owed > 0 && machine.owed <= machine.total, "{} frames of {} are owed", machine.owed, machine.total);
    holds!(machine.owed_heap > 0, "nothing of the heap is owed");
    holds!(had.frames > 0 && 0 < had.least && had.least < had.most, "{had:?}");
    memory(&promised, &had)?;
    messages(&promised)
}

fn memory(promised: &Promised, before: &Had) -> Outcome {
    let sections: Result<Vec<_>, _> = (0..SOME).map(|_| data(SOME * PAGE)).collect();
    let sections = sections.map_err(doing("create"))?;
    for section in &sections {
        (0..SOME).for_each(|page| store(section.base() + page * PAGE, 1));
    }
    let had = look()?.1;
    let grown = had.frames.saturating_sub(before.frames);
    // With page tables; and what other programs and threads of his have had may be given back at any time.
    holds!((MOSTLY * SOME..4 * SOME * SOME).contains(&grown), "{grown} frames for {} pages", SOME * SOME);
    let least = MOSTLY * promised.section[0];
    holds!(
        had.least >= before.least + least,
        "of the heap {before:?}, and {had:?} with {SOME} sections, of at least {least} for {MOSTLY}"
    );
    holds!(had.most >= before.most + MOSTLY * promised.section[1], "the same at the most");
    sections.into_iter().try_for_each(|one| one.delete()).map_err(doing("delete"))?;
    let after = look()?.1;
    holds!(after.frames + MOSTLY * SOME <= had.frames, "{} frames, and {} afterwards", had.frames, after.frames);
    holds!(after.least + least <= had.least, "of the heap {had:?}, and {after:?} afterwards");
    Ok(())
}

static GO: AtomicU32 = AtomicU32::new(0);
static LOOKED: AtomicU32 = AtomicU32::new(0);

fn messages(promised: &Promised) -> Outcome {
    let posts: Result<Vec<Post>, Error> = (0..SOME).map(|_| Post::any()).collect();
    let posts = posts.map_err(doing("posts"))?;
    let had = look()?.0.pool_had;
    let posts_had = had[POSTS];
    holds!(posts_had >= promised.pool_had[POSTS] + SOME, "{posts_had} posts with {SOME} more");
    // The first message that a task leaves in a queue opens its account, and a thread that looks for one has a record.
    for n in 0..SOME {
        posts[0].send(1, [n; 6], None).map_err(doing("send"))?;
    }
    let (post, last) = (posts[1], posts[2]);
    let looks = move || {
        let _ = post.receive(0);
        LOOKED.fetch_add(1, Ordering::SeqCst);
        while GO.load(Ordering::SeqCst) == 0 {
            let _ = sync::wait(&GO, 0, u64::MAX);
        }
    };
    let _ = last.receive(0);
    let before = look()?.0.pool_had;
    holds!(before[ACCOUNTS] > 0, "no account, of one who has sent");
    let threads: Result<Vec<_>, _> = (0..SOME).map(|_| thread::spawn(looks, 0)).collect();
    let threads = threads.map_err(doing("threads"))?;
    while LOOKED.load(Ordering::SeqCst) < SOME as u32 {
        thread::yield_now();
    }
    let had = look()?.0.pool_had;
    let records = had[RECORDS];
    holds!(records >= before[RECORDS] + SOME, "{records} records with {SOME} threads more");
    // (As of then.)
    holds!(had[MESSAGES] >= SOME, "{} messages wait, of {SOME}", had[MESSAGES]);
    GO.store(1, Ordering::SeqCst);
    sync::wake(&GO, u64::MAX);
    threads.into_iter().try_for_each(|one| one.join().map(drop)).map_err(doing("join"))?;
    for _ in 0..SOME {
        posts[0].receive(0).map_err(doing("receive"))?;
    }
    posts.into_iter().try_for_each(|one| one.free(true)).map_err(doing("free"))?;
    let after = look()?.0.pool_had;
    holds!(after[POSTS] + SOME <= posts_had, "{} posts afterwards", after[POSTS]);
    holds!(after[RECORDS] + SOME <= records, "{} records afterwards", after[RECORDS]);
    Ok(())
}
