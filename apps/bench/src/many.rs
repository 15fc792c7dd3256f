//! Several pairs at once, on twice as many processors; and as many senders and receivers at one post. What a message takes there, by all
//! processors, is not to grow with their number (K1-30, M4). All messages of a way are one round between marks: what they take besides, locks and turns of
//! loops that wait for another processor among that, is the case's of the same name with `-all`.

use crate::at_once::at_once;
use crate::pool::{BYTES, OP, Posts, end, one_more};
use crate::report::{Case, Report};
use crate::rounds::{Moment, Rounds};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;
use musubi::Error;
use musubi::command::Child;
use musubi::rt::post::{FOR_EVER, Post};
use musubi::rt::{task, thread};

/// Rounds of each of them, and such before it is measured.
const ROUNDS: u64 = 5_000;
const WARM: u64 = 200;

pub fn run(report: &Report) -> Result<(), String> {
    by(report, &WAYS)
}

/// As many senders and as many receivers at one post as half of the processors, and nothing else.
pub fn crowd(report: &Report) -> Result<(), String> {
    by(report, &WAYS[2..])
}

fn by(report: &Report, ways: &[Way]) -> Result<(), String> {
    let pairs = (task::processors().count() / 2).max(1);
    let posts: Result<Vec<Posts>, Error> = (0..pairs).map(|_| Posts::new()).collect();
    let posts: &'static [Posts] = Vec::leak(posts.map_err(|e| format!("posts: {e}"))?);
    let outcome = ways.iter().copied().try_for_each(|(case, way, partner, exchange)| {
        let partners: Result<Vec<Child>, String> = match partner {
            Some(partner) => posts.iter().map(|posts| posts.partner(partner)).collect(),
            None => posts[0].partner(&format!("crowd-{pairs}")).map(|one| [one].into()),
        };
        let partners = partners?;
        let times = move |count: u64| {
            move |number: usize| {
                (0..count).try_fold([1; 6], |words, _| exchange(&posts[0], &posts[number], words)).map(drop)
            }
        };
        let took = at_once(pairs, times(WARM), times(ROUNDS), moments());
        partners.into_iter().try_for_each(end)?;
        let round = Rounds::once(took.map_err(|e| format!("{case} by {way}: {e}"))?);
        let messages = 2 * ROUNDS * pairs as u64;
        report.average(Case { case, way, bytes: BYTES }, round.ticks.sum(), messages);
        report.at_a_stretch(Case { case: &format!("{case}-all"), way, bytes: BYTES }, messages, &round);
        Ok(())
    });
    outcome.and(posts.iter().try_for_each(Posts::free).map_err(|e| format!("freeing: {e}")))
}

/// The beginning of a round, and its end.
pub fn moments() -> impl Fn() -> Moment {
    let has_begun = Cell::new(false);
    move || if has_begun.replace(true) { Moment::ends() } else { Moment::begins() }
}

/// A round: with the posts of all, those of the pair, and what the message carries.
type Exchange = fn(&Posts, &Posts, [u64; 6]) -> Result<[u64; 6], Error>;
/// Case, way, what each one's partner plays (or one for all), and the round.
type Way = (&'static str, &'static str, Option<&'static str>, Exchange);
const WAYS: [Way; 3] = [
    ("pairs", "pool", Some("pool"), |_, own, words| send_and_receive(own.there, own.back, words)),
    ("pairs", "woken", Some("woken"), |_, own, words| {
        own.there.send(OP, words, None)?;
        own.back.receive(FOR_EVER).map(|m| m.words)
    }),
    ("crowd", "pool", None, |all, own, words| send_and_receive(all.there, own.back, words)),
];

fn send_and_receive(there: Post, back: Post, words: [u64; 6]) -> Result<[u64; 6], Error> {
    there.send_and_receive(OP, words, back, FOR_EVER).map(|m| m.words)
}

/// The main function of one for all: so many threads.
pub fn serve(threads: &str, &[there, ..]: &[Post; 3]) -> Result<(), Error> {
    let count: u64 = threads.parse().map_err(|_| Error::BadArgument)?;
    let one = move || -> Result<(), Error> {
        let mut message = there.receive(FOR_EVER)?;
        loop {
            message = match Post(message.back).send_and_receive(OP, one_more(message.words), there, FOR_EVER) {
                // Whoever had the answer has ended with it; the others go on.
                Err(Error::Dead) => there.receive(FOR_EVER)?,
                other => other?,
            };
        }
    };
    let others: Result<Vec<_>, Error> = (1..count).map(|_| thread::spawn(move || _ = one(), 0)).collect();
    others?;
    one()
}
