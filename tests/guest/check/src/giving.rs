//! Pagers of the memory server that do not give what they say, or do not receive what they are asked: others are served all the same, and little
//! lies at their posts.

use crate::info::{all, own};
use crate::memory::data;
use crate::report::{Check, Outcome, doing, in_time};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::layout::PAGE;
use musubi::command::{Child, Command};
use musubi::files::{self, File};
use musubi::interfaces::memory::{GiveBack, GiveBackClient, MemoryClient, give_back_serve_by};
use musubi::rt::gate::ANYBODY;
use musubi::rt::post::{Message, Post};
use musubi::rt::request;
use musubi::rt::serve::Ways;
use musubi::rt::{Section, section, task, thread, time};
use musubi::{Error, Rights, names, servers};

pub const CHECKS: &[Check] = &[
    ("who_only_says_so_ends_the_round", who_only_says_so),
    ("who_receives_nothing_is_asked_once", who_receives_nothing),
    ("who_was_late_is_late_when_it_registers_again", who_was_late),
    ("who_answers_what_it_has_not_received", who_answers_unseen),
    ("few_that_say_nothing_are_asked", few_are_asked),
    ("the_kernel_says_that_memory_is_short", the_kernel_says_so),
];

/// More than there is.
const ALL: u64 = 1 << 40;
/// How often a pager is asked at most by a `want` that brings nothing.
const FEW: u64 = 10;
/// Programs of which at most half are asked, in a machine of 512 MiB.
const SILENT: usize = 20;
const PATIENCE_NS: u64 = 60_000_000_000;
/// Pages of one that gives them back.
const GIVEN: u64 = 4096;
const FILE: &[u8] = b"/tmp/short";

fn client() -> Result<MemoryClient, Error> {
    MemoryClient::bind(names::lookup("memory")?)
}

fn register(post: Post) -> Result<(), String> {
    client().and_then(|server| server.register(post.0)).map_err(doing("register"))
}

/// A post that is asked from now on.
fn pager() -> Result<Post, String> {
    let post = Post::any().map_err(doing("a post"))?;
    post.allow(&everybody(Rights::CALL)).map_err(doing("allow"))?;
    register(post)?;
    Ok(post)
}

/// Waits for memory that nobody has.
fn want() -> Outcome {
    let had = in_time(|| client()?.want(ALL));
    holds!(matches!(had, Some(Ok(_))), "it waits for memory for ever: {had:?}");
    Ok(())
}

/// The requests that lie there; not what asks for one.
fn requests(post: Post) -> Vec<Message> {
    let all = core::iter::from_fn(|| post.receive(0).ok());
    all.filter(|message| request::of_head(message.op).1 != request::WATCH).collect()
}

/// Says that it has given one page.
fn answer(to: u64, head: u32) -> Result<(), Error> {
    Post(to).send(head, [0, 0, 1, 0, 0, 0], None)
}

#[derive(Default)]
struct Says(AtomicU64);

impl GiveBack for Says {
    fn give_back(&self, _: u64) -> Result<u64, Error> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(1)
    }
}

/// A pager that answers what it is asked.
fn says() -> Result<&'static Says, String> {
    let says: &'static Says = Box::leak(Box::default());
    let post = Post::any().map_err(doing("a post"))?;
    give_back_serve_by(says, Ways::default().post(post).receivers(1))
        .and_then(|gates| gates.admit(&ANYBODY))
        .map_err(doing("serve"))?;
    register(post)?;
    Ok(says)
}

fn who_only_says_so() -> Outcome {
    let says = says()?;
    for n in 1..=5 {
        want()?;
        let asked = says.0.load(Ordering::SeqCst);
        holds!((n..=n * FEW).contains(&asked), "it was asked {asked} times by {n} that wanted memory");
    }
    Ok(())
}

/// However often it registers, and wherever.
fn who_receives_nothing() -> Outcome {
    let post = pager()?;
    for _ in 0..4 {
        want()?;
        register(post)?;
    }
    let other = pager()?;
    want()?;
    same!(requests(other).len(), 0, "requests at its next post");
    same!(requests(post).len(), 1, "requests that it has not received");
    Ok(())
}

/// It is not asked in the next two rounds, and then in the next four. Each time that somebody wants memory there are two.
fn who_was_late() -> Outcome {
    let post = pager()?;
    for _ in 0..2 {
        want()?;
        let asked = requests(post);
        same!(asked.len(), 1, "requests");
        answer(asked[0].back, asked[0].op).map_err(doing("answer"))?;
    }
    register(post)?;
    want()?;
    same!(requests(post).len(), 0, "requests after it was late twice");
    Ok(())
}

/// It knows by the first one what the next ones will look like.
fn who_answers_unseen() -> Outcome {
    let post = pager()?;
    want()?;
    let asked = requests(post);
    same!(asked.len(), 1, "requests");
    let Message { op, back, .. } = asked[0];
    let (identity, _, method) = request::of_head(op);
    same!((identity, method), (GiveBackClient::IDENTITY, 0), "what it is asked");
    let over: &'static AtomicU64 = Box::leak(Box::default());
    let guess = move || {
        while over.load(Ordering::SeqCst) == 0 {
            for tag in 0..64 {
                let _ = answer(back, request::head(identity, tag, method));
            }
        }
    };
    let guessing = thread::spawn(guess, 0).map_err(doing("thread"))?;
    let outcome = (0..20).try_for_each(|_| want());
    over.store(1, Ordering::SeqCst);
    guessing.join().map_err(doing("join"))?;
    outcome?;
    let lie = requests(post).len();
    holds!((1..=3).contains(&lie), "{lie} requests lie there, all answered");
    Ok(())
}

/// Many programs that receive nothing: not all of them are asked, and who answers still is.
fn few_are_asked() -> Outcome {
    let says = says()?;
    want()?;
    let start = |_| Command::new(b"bin/check").args(["check", "as", "stubborn"]).spawn().map_err(doing("start"));
    let silent = (0..SILENT).map(start).collect::<Result<Vec<Child>, _>>()?;
    let tasks: Vec<u64> = silent.iter().map(|child| child.task).collect();
    let asked = asked_beside(says, &tasks);
    silent.into_iter().try_for_each(Child::kill).map_err(doing("kill"))?;
    let asked = asked?;
    holds!((1..=SILENT / 2).contains(&asked), "{asked} of {SILENT} were asked");
    Ok(())
}

/// At how many of these something lies when somebody has wanted memory.
fn asked_beside(says: &Says, silent: &[u64]) -> Result<usize, String> {
    let server = client().map_err(doing("memory"))?;
    let is_registered = |task: &&u64| {
        let pagers = (0..).map_while(|n| server.pager(n).ok().filter(|pager| pager.0 != 0));
        pagers.into_iter().any(|pager| pager.0 == **task)
    };
    let until = time::now_ns() + PATIENCE_NS;
    while silent.iter().filter(is_registered).count() < silent.len() {
        holds!(time::now_ns() < until, "not all of them have registered");
        time::sleep_ns(10_000_000);
    }
    for _ in 0..3 {
        let before = says.0.load(Ordering::SeqCst);
        want()?;
        holds!(says.0.load(Ordering::SeqCst) > before, "who answers is not asked any more");
    }
    let (all, own) = (all()?, own()?);
    Ok(own.posts().filter(|post| silent.contains(&post.owner) && all.messages(post.number) > 0).count())
}

/// A pager that gives pages of a section back, from its end.
struct Gives {
    base: u64,
    left: AtomicU64,
}

impl Gives {
    fn was_asked(&self) -> bool {
        self.left.load(Ordering::SeqCst) < GIVEN
    }
}

impl GiveBack for Gives {
    fn give_back(&self, pages: u64) -> Result<u64, Error> {
        let left = self.left.load(Ordering::SeqCst);
        let given = pages.min(left);
        if given > 0 {
            section::free(self.base + (left - given) * PAGE, given * PAGE)?;
        }
        self.left.store(left - given, Ordering::SeqCst);
        Ok(given)
    }
}

/// Who takes memory asks nobody for it: that there is little left, the memory server hears of the kernel alone.
fn the_kernel_says_so() -> Outcome {
    // The next server has it tell that one.
    servers::act("memory", servers::acts::RESTART).map_err(doing("the next memory server"))?;
    let memory = task::memory().map_err(doing("the machine's memory"))?;
    holds!(memory.free > memory.total / 3, "{} bytes of {} are free to begin with", memory.free, memory.total);
    let section = data(GIVEN * PAGE).map_err(doing("create"))?;
    section::alloc(section.base(), GIVEN * PAGE).map_err(doing("pages to be given back"))?;
    let gives: &'static Gives = Box::leak(Box::new(Gives { base: section.base(), left: AtomicU64::new(GIVEN) }));
    let post = Post::any().map_err(doing("a post"))?;
    give_back_serve_by(gives, Ways::default().post(post).receivers(1))
        .and_then(|gates| gates.admit(&ANYBODY))
        .map_err(doing("serve"))?;
    register(post)?;
    let taken = data(memory.total).map_err(doing("a large section"))?;
    let outcome = until_it_is_asked(gives, &taken, memory.total);
    let _ = files::remove(FILE);
    taken.delete().map_err(doing("delete"))?;
    outcome
}

/// Takes pages, and what one program may not have of them as a file, until somebody is asked or less than the server's mark is left.
fn until_it_is_asked(gives: &Gives, taken: &Section, total: u64) -> Outcome {
    const STEP: u64 = 1 << 20;
    // Before there is little: one page of it at a time.
    let block = [7; PAGE as usize];
    // The mark is at a quarter.
    let is_enough = || gives.was_asked() || task::memory().is_ok_and(|memory| memory.free < total / 16 * 3);
    let mut at = 0;
    while !is_enough() && at + STEP <= total && section::alloc(taken.base() + at, STEP).is_ok() {
        at += STEP;
    }
    let file = File::create(FILE).map_err(doing("a file"))?;
    let mut written = 0;
    while !is_enough() && file.write_all(written, &block).is_ok() {
        written += PAGE;
    }
    let until = time::now_ns() + PATIENCE_NS / 3;
    while !gives.was_asked() {
        let free = task::memory().map_or(0, |memory| memory.free);
        holds!(time::now_ns() < until, "nobody is asked, and {free} bytes of {total} are free");
        time::sleep_ns(10_000_000);
    }
    Ok(())
}
