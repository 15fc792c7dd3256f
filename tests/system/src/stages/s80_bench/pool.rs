//! `bench pool`: what the K1 paper measures of messages, and the bars that posts are held to. Instructions are counted, so no host
//! makes a difference.

mod backs;
mod lending;
mod told;

use super::Runs;
use anyhow::{Context, Result, ensure};
use measure::found::{AT_A_POST, BY_NUMBER, BY_THREAD, CASE};
use measure::{Figure, count, unit};

const BOTH_WAYS: [&str; 3] = ["pool", "question", "rendezvous"];
const MACHINES: [u32; 4] = [1, 2, 4, 8];
/// Of `bench messages`, which has few rounds, and the same bars.
const MACHINES_IN_SHORT: [u32; 2] = [1, 2];

/// Most instructions of a message to another program and one back.
const MOST: u64 = 900;
/// Most that it may take in thousandths of a rendezvous. (The aim is 1100: `docs/requirements.toml`, K1-M2.)
const MOST_OF_RENDEZVOUS: u64 = 1100; // and of one that found its task by number, which is reckoned:
const MOST_OF_NUMBERED: u64 = 1150;
/// Most of one that is left in a post by one call and received by another.
const MOST_OF_TWO_CALLS: u64 = 1550;
/// Most of plain messages to and fro, each of which wakes whoever waits: at one post, at two, or one of them at eight.
const MOST_OF_WOKEN: [(&str, u64); 3] = [("woken", 2200), ("several", 3150), ("at-eight", 5000)];
/// Two such messages to two who wait, and one back from each.
const MOST_OF_TWO_WOKEN: u64 = 5300;
/// The same where who is woken rests at a processor that has nothing to do: with what that one does meanwhile.
const MOST_OF_IDLE: u64 = 3700;
/// And with four and eight processors in hundredths of what it is with two: an idle one is told of each plain message, and no more are (but look around).
const MOST_BESIDE_MORE: [(&str, u64); 2] = [("woken", 105), ("idle", 110)];
/// And `woken` with any of what it is with one: there nobody is told.
const MOST_BESIDE_ANY: u64 = 115;
/// Most of a hand-over and back where both wait with a limit of time.
const MOST_OF_LIMITED: u64 = 1050;
/// Most locks that a message may take.
const LOCKS: u64 = 2;
/// Most instructions and locks of a message and one back after a pause, in which processors have become idle.
const MOST_AFTER_A_PAUSE: (u64, u64) = (2_300, 4);
/// Most instructions and locks of plain messages on one processor, where a third thread is ready all the time, and where a scheduler is asked.
const MOST_BESIDE_OTHERS: [(&str, u64, u64); 2] = [("beside-ready", 2_100, LOCKS), (UNDER, 26_000, 182)];
const UNDER: &str = "under-ageing";
/// Calls that are no message to another program and back: how many a round has, and how often it copies at most. Many messages at once, eight, are read from the
/// program to where they lie. Beside a lock for each that is received the call has those of any full call, which fewer messages would have to bear alone.
const CALLS: [(&str, &str, u64, u64); 4] = [
    ("get-and-free", "any", 2, 0),
    ("look", "several", 1, 0),
    ("send-many", "queued", 1 + MANY, MANY),
    ("answer", "woken", 3, 2),
];
const MANY: u64 = 8;
/// What takes too long for a short form.
const PAUSED: &str = "asleep";
/// Most of a tick for each processor, all of which look whether there is something to do: an interrupt, the kernel's message to the clock, its answer to
/// who waits for it, and what that asks next.
const MOST_OF_TICK: u64 = 40_000;
/// And of rounds beside such ticks, in hundredths of what they take on one processor, where few of these come (decision 9).
const MOST_WITH_TICKS: u64 = 195;
/// Most of a message of four senders and four receivers at one post, in hundredths of one pair's.
const MOST_OF_CROWD: u64 = 130;
/// What long ways and the ends of quanta may add to what many messages take, in hundredths.
const SELDOM_LONG: u64 = 110;
/// Messages to the clock in ten thousand rounds, one in 26.
const TICKS: u64 = 385;

/// What a benchmark has told of messages, on machines with so many processors.
struct Told<'a> {
    figures: &'a [Figure],
    machines: &'static [u32],
    /// As many rounds as the paper has, at a stretch, too, and after pauses; else few single ones.
    at_length: bool,
}

impl<'a> Told<'a> {
    fn at_length(runs: &'a Runs) -> Result<Self> {
        Ok(Self { figures: &runs.of("pool")?.figures, machines: &MACHINES, at_length: true })
    }

    fn in_short(runs: &'a Runs) -> Result<Self> {
        Ok(Self { figures: &runs.of("messages")?.figures, machines: &MACHINES_IN_SHORT, at_length: false })
    }

    fn value(&self, case: &str, way: &str, cpus: u32, unit: &str) -> Result<u64> {
        let same = |f: &&Figure| f.case == case && f.way == way && f.cpus == cpus && f.unit == unit;
        let found = self.figures.iter().find(same);
        found.map(|figure| figure.value).with_context(|| format!("no {unit} of {case} by {way} on {cpus} processors"))
    }
}

fn value(runs: &Runs, case: &str, way: &str, cpus: u32, unit: &str) -> Result<u64> {
    Told::at_length(runs)?.value(case, way, cpus, unit)
}

fn average(runs: &Runs, case: &str, way: &str, cpus: u32) -> Result<u64> {
    value(runs, case, way, cpus, &on_average())
}

fn on_average() -> String {
    format!("{}{}", unit::INSTRUCTIONS, unit::AVERAGE)
}

/// A message and its answer are two entries into the kernel, whoever else there is to be woken for nothing (K1-30, 49, 50, M4).
pub fn messages_beside_idle_processors(runs: &Runs) -> Result<()> {
    beside_idle_processors(&Told::at_length(runs)?)
}

pub fn few_beside_idle_processors(runs: &Runs) -> Result<()> {
    beside_idle_processors(&Told::in_short(runs)?)
}

fn beside_idle_processors(told: &Told) -> Result<()> {
    for way in BOTH_WAYS {
        let taken = |cpus: u32, unit: &str| told.value("ping-pong", way, cpus, unit);
        let alone = taken(1, unit::INSTRUCTIONS)?;
        ensure!((300..=MOST).contains(&alone), "{way}: {alone} instructions");
        for &cpus in told.machines {
            let each = taken(cpus, unit::INSTRUCTIONS)?;
            ensure!(each * 100 <= alone * 105, "{way}: {each} with {cpus} processors, {alone} with one");
            let counted = [taken(cpus, count::ENTRIES)?, taken(cpus, count::VIEWS)?, taken(cpus, count::COPIES)?];
            ensure!(counted == [2, 2, 0], "{way} with {cpus} processors: entries, views, copies {counted:?}");
            if told.at_length {
                // At a stretch, too, with whatever else the machine does.
                let each = told.value("ping-pong-without-clock", way, cpus, &on_average())?;
                ensure!(each * 100 <= alone * 105, "{way}: {each} on average with {cpus} processors, {alone} with one");
            }
        }
    }
    // What is left in a post, and what is waited for for a while.
    for (case, way) in [("queued", "pool"), ("ping-pong", "limited")] {
        let alone = told.value(case, way, 1, unit::INSTRUCTIONS)?;
        for &cpus in told.machines {
            let each = told.value(case, way, cpus, unit::INSTRUCTIONS)?;
            ensure!(each * 100 <= alone * 105, "{case} by {way}: {each} with {cpus} processors, {alone} with one");
        }
    }
    Ok(())
}

/// K1-7, 18, 48: a call is one entry and takes at most one lock of a post; a message takes no other lock of the kernel, handed over, also to one who waits
/// with a limit of time, or left in a post. So nobody holds two of posts at once. Nobody else is there who could make it spin. And it is copied once, where
/// nobody waits for it or whoever does is woken.
pub fn messages_take_few_locks(runs: &Runs) -> Result<()> {
    take_few_locks(&Told::at_length(runs)?)
}

pub fn few_take_few_locks(runs: &Runs) -> Result<()> {
    take_few_locks(&Told::in_short(runs)?)
}

fn take_few_locks(told: &Told) -> Result<()> {
    for &cpus in told.machines {
        for way in BOTH_WAYS.into_iter().chain(["limited"]) {
            let taken = |unit| told.value("ping-pong", way, cpus, unit);
            let (locks, posts, spins) = (taken(count::LOCKS)?, taken(count::POST_LOCKS)?, taken(count::SPINS)?);
            let few = 0 < posts && posts <= taken(count::ENTRIES)? && locks <= 2 * LOCKS;
            ensure!(few, "{way}, {cpus} processors: {locks} locks of a message and one back, {posts} of posts");
            ensure!(locks == posts, "{way}, {cpus} processors: {locks} locks, {posts} of posts");
            ensure!(spins == 0, "{way}, {cpus} processors: {spins} spins");
        }
        let units = [count::ENTRIES, count::LOCKS, count::POST_LOCKS, count::COPIES, count::SPINS];
        backs::as_one_of_pool(told, cpus)?;
        let taken = units.map(|unit| told.value("queued", "pool", cpus, unit));
        let taken = taken.into_iter().collect::<Result<Vec<u64>>>()?;
        ensure!(
            taken == [2, LOCKS, LOCKS, 1, 0],
            "queued, {cpus} processors: entries, locks, locks of posts, copies, spins {taken:?}"
        );
        // Plain messages, one and one back: a call that sends and one that waits, each. Who is woken goes on by the short way, and his wait has ended
        // under the lock of the post: there is no other one, of the switch neither.
        // So it is if he waits at several posts, which are entered and left by one exchange each.
        for (way, most) in MOST_OF_WOKEN {
            let taken = units.map(|unit| told.value("ping-pong", way, cpus, unit));
            let taken = taken.into_iter().collect::<Result<Vec<u64>>>()?;
            ensure!(
                taken == [4, 2, 2, 2, 0],
                "{way}, {cpus} processors: entries, locks, locks of posts, copies, spins {taken:?}"
            );
            let each = told.value("ping-pong", way, cpus, unit::INSTRUCTIONS)?;
            ensure!(each <= most, "{way}, {cpus} processors: {each} instructions");
        }
        // Two to two of them before their sender waits, and one back from each, of which one may be left in its post. The order does not matter to what a message takes.
        let taken = units.map(|unit| told.value("two-woken", "pool", cpus, unit));
        let taken = taken.into_iter().collect::<Result<Vec<u64>>>()?;
        let each = told.value("two-woken", "pool", cpus, unit::INSTRUCTIONS)?;
        ensure!(
            taken[0] == 8 && (4..=4 * LOCKS).contains(&taken[1]) && taken[1..] == [taken[2], taken[2], 4, 0],
            "two-woken, {cpus} processors: entries, locks, locks of posts, copies, spins {taken:?}"
        );
        ensure!(each <= MOST_OF_TWO_WOKEN, "two-woken, {cpus} processors: {each} instructions");
        let each = told.value("queued", "pool", cpus, unit::INSTRUCTIONS)?;
        ensure!(each <= MOST_OF_TWO_CALLS, "queued, {cpus} processors: {each} instructions");
        let [each, copies] =
            [unit::INSTRUCTIONS, count::COPIES].map(|unit| told.value("ping-pong", "limited", cpus, unit));
        let (each, copies) = (each?, copies?);
        ensure!(
            each <= MOST_OF_LIMITED && copies == 0,
            "limited, {cpus} processors: {each} instructions, {copies} copies"
        );
        if cpus > 1 {
            // Who is woken rests at a processor that has nothing to do.
            let units = [count::LOCKS, count::POST_LOCKS, count::COPIES]
                .map(|unit| told.value("ping-pong", "idle", cpus, unit));
            let taken = units.into_iter().collect::<Result<Vec<u64>>>()?;
            ensure!(
                (2..=2 * LOCKS).contains(&taken[0]) && taken[0] == taken[1] && taken[2] == 2,
                "beside an idle processor, of {cpus}: locks of a message and one back, those of posts, copies {taken:?}"
            );
            let each = told.value("ping-pong", "idle", cpus, unit::INSTRUCTIONS)?;
            ensure!(each <= MOST_OF_IDLE, "beside an idle processor, of {cpus}: {each} instructions");
        }
    }
    Ok(())
}

/// K1-7: whoever takes one of the kernel's locks for a message has no other one. Looked at on one processor, lock by lock, in all that a round takes.
pub fn few_take_one_lock_at_a_time(runs: &Runs) -> Result<()> {
    let told = Told::in_short(runs)?;
    let played = BOTH_WAYS.into_iter().chain(["limited", "woken", "several", "at-eight", "beside-ready"]);
    let more = [("send-many", "queued"), ("look", "several")];
    for (case, way) in played
        .map(|way| ("ping-pong", way))
        .chain(["queued", "backs", "two-woken"].map(|case| (case, "pool")))
        .chain(more)
    {
        let (locks, within) = (told.value(case, way, 1, count::LOCKS)?, told.value(case, way, 1, count::WITHIN)?);
        ensure!(
            locks > 0 && within == 0,
            "{case} by {way}: {within} of {locks} locks taken while another one was held"
        );
    }
    // What a scheduler is told it is told of under the locks of its seat.
    told.value("ping-pong", UNDER, 1, count::WITHIN)?;
    Ok(())
}

/// K1-7, 18, 48, where processors were idle, others are ready, or a scheduler is asked: a call is one entry there, too, and a message is copied once. Only under a scheduler,
/// which is told of who is ready, it takes more locks; so many are counted, and they do not become more.
pub fn messages_by_the_long_way(runs: &Runs) -> Result<()> {
    by_the_long_way(&Told::at_length(runs)?)
}

pub fn few_by_the_long_way(runs: &Runs) -> Result<()> {
    let told = Told::in_short(runs)?;
    by_the_long_way(&told).and(lending::few_that_lend(&told)).and(told::few_that_go_on(&told))
}

fn by_the_long_way(told: &Told) -> Result<()> {
    for &cpus in told.machines {
        let paused = told.at_length.then_some((PAUSED, MOST_AFTER_A_PAUSE.0, MOST_AFTER_A_PAUSE.1));
        for (way, most, locks) in paused.into_iter().chain(MOST_BESIDE_OTHERS.into_iter().filter(|_| cpus == 1)) {
            let units = [unit::INSTRUCTIONS, count::ENTRIES, count::LOCKS, count::POST_LOCKS, count::COPIES];
            let taken = units.map(|unit| told.value("ping-pong", way, cpus, unit));
            let taken = taken.into_iter().collect::<Result<Vec<u64>>>()?;
            let [each, entries, all, posts, copied] = taken[..] else { unreachable!("as many as units") };
            ensure!(each <= most, "{way}, {cpus} processors: {each} instructions");
            ensure!(
                posts >= 2 && (posts..=locks).contains(&all),
                "{way}, {cpus} processors: {all} locks of a message and one back, {posts} of posts"
            );
            ensure!(copied == 2, "{way}, {cpus} processors: {copied} copies of a message and one back");
            // What a scheduler does is entries of its own.
            ensure!(
                entries == 4 || way == UNDER && entries > 4,
                "{way}, {cpus} processors: {entries} entries, and two calls each"
            );
            // Told, and held to nothing: who is idle looks around in loops that count, too.
            told.value("ping-pong", way, cpus, count::SPINS)?;
        }
        // What is no message to another program and back.
        for (case, way, calls, copies) in CALLS {
            let [entries, copied] = [count::ENTRIES, count::COPIES].map(|unit| told.value(case, way, cpus, unit));
            let (entries, copied) = (entries?, copied?);
            ensure!(entries == calls, "{case}, {cpus} processors: {entries} entries, and {calls} calls");
            ensure!(copied <= copies, "{case}, {cpus} processors: {copied} copies");
            let locks = told.value(case, way, cpus, count::LOCKS)?;
            ensure!(case != "send-many" || locks <= MANY * LOCKS, "{case}, {cpus} processors: {locks} locks");
        }
    }
    Ok(())
}

/// With processors that have nothing to do, plain messages take no more the more there are; and little more than with none.
pub fn plain_messages_beside_many(runs: &Runs) -> Result<()> {
    let taken = |cpus| value(runs, "ping-pong", "woken", cpus, unit::INSTRUCTIONS);
    let alone = taken(1)?;
    for cpus in &MACHINES[1..] {
        let each = taken(*cpus)?;
        ensure!(each * 100 <= alone * MOST_BESIDE_ANY, "woken: {each} with {cpus} processors, {alone} with one");
    }
    for (way, most) in MOST_BESIDE_MORE {
        let taken = |cpus| value(runs, "ping-pong", way, cpus, unit::INSTRUCTIONS);
        let beside_one = taken(2)?;
        for cpus in [4, 8] {
            let each = taken(cpus)?;
            ensure!(each * 100 <= beside_one * most, "{way}: {each} with {cpus} processors, {beside_one} with two");
        }
    }
    Ok(())
}

/// K1-M2: what is sent to a post, against what is handed to a task that waits for it.
pub fn messages_beside_rendezvous(runs: &Runs) -> Result<()> {
    beside_rendezvous(&Told::at_length(runs)?)
}

pub fn few_beside_rendezvous(runs: &Runs) -> Result<()> {
    beside_rendezvous(&Told::in_short(runs)?)
}

fn beside_rendezvous(told: &Told) -> Result<()> {
    for &cpus in told.machines {
        let [posts, tasks] = ["pool", "rendezvous"].map(|way| told.value("ping-pong", way, cpus, unit::INSTRUCTIONS));
        let (posts, tasks) = (posts?, tasks?);
        ensure!(
            posts * 1000 <= tasks * MOST_OF_RENDEZVOUS,
            "{posts} by posts, {tasks} by rendezvous, {cpus} processors"
        );
        ensure!(tasks <= posts, "a reference that takes longer: {tasks}, {posts} by posts, {cpus} processors");
    }
    // The reference goes to a post itself. What it would take if it found its task by number is reckoned from what an answer takes to a post and to a thread.
    let [posts, tasks] = [("ping-pong", "pool"), (BY_NUMBER, "rendezvous")]
        .map(|(case, way)| told.value(case, way, 1, unit::INSTRUCTIONS));
    let (posts, tasks) = (posts?, tasks?);
    let answered = [AT_A_POST, BY_THREAD].map(|way| told.value(CASE, way, 1, unit::INSTRUCTIONS));
    ensure!(
        posts * 1000 <= tasks * MOST_OF_NUMBERED,
        "{posts} by posts, {tasks} by a rendezvous by number; an answer to a post and to a thread: {answered:?}"
    );
    Ok(())
}

/// K1-M3: every one of the messages has come to the clock's server, which counts them, and is paid for.
pub fn messages_to_a_clock(runs: &Runs) -> Result<()> {
    for cpus in MACHINES {
        for way in BOTH_WAYS {
            let [without, with] =
                ["ping-pong-without-clock", "ping-pong-with-clock"].map(|case| average(runs, case, way, cpus));
            let (without, with) = (without?, with?);
            let alone = average(runs, "ping-pong-with-clock", way, 1)?;
            ensure!(with * 100 <= alone * 105, "{way}: {with} with {cpus} processors and a clock, {alone} with one");
            let messages = value(runs, "ping-pong-with-clock", way, cpus, "messages")?;
            ensure!(messages == TICKS, "{way} with {cpus} processors: {messages} messages to the clock");
            let each = value(runs, "clock", way, cpus, "per-message")?;
            ensure!(with > without && each > 0, "{way} with {cpus} processors: {with}, {without} without a clock");
            let sum = (with - without) * 10_000;
            ensure!(
                sum.abs_diff(each * messages) <= 20_000,
                "{way} with {cpus} processors: {each} a message, {sum} all"
            );
            // The machine's own clock, at moments of its own.
            let heard = value(runs, "ping-pong-with-ticks", way, cpus, "messages")?;
            // Who is woken waits for the end of a turn, and no longer: one comes in each quantum, and at the beginning and the end there may be none.
            let all = average(runs, "ping-pong-with-ticks", way, cpus)? * TICKING_ROUNDS;
            let least = (all / QUANTUM).saturating_sub(1).max(1);
            ensure!(heard >= least, "{way} with {cpus} processors: {heard} ticks of the machine's clock in {all} ns");
            let (with, alone) = (all / TICKING_ROUNDS, average(runs, "ping-pong-with-ticks", way, 1)?);
            ensure!(
                with * 100 <= alone * MOST_WITH_TICKS,
                "{way}: {with} with {cpus} processors and ticks, {alone} with one"
            );
            let each = value(runs, "ticks", way, cpus, "per-message")?;
            ensure!(each <= MOST_OF_TICK * u64::from(cpus), "{way} with {cpus} processors: {each} a tick");
        }
    }
    Ok(())
}

/// K1-30, M4: several pairs at once take for a message what one pair takes. As many senders and receivers at one post take a little more: who waits there beside
/// others stands in its queue, and no more alone in the word that is also its lock.
pub fn many_at_once(runs: &Runs) -> Result<()> {
    let one = average(runs, "pairs", "pool", 2)?;
    ensure!((150..=MOST / 2).contains(&one), "one pair beside an idle processor: {one} instructions of a message");
    for (case, most) in [("pairs", 105), ("crowd", MOST_OF_CROWD)] {
        for cpus in &MACHINES[1..] {
            let each = average(runs, case, "pool", *cpus)?;
            ensure!(each * 100 <= one * most, "{case}: {each} with {cpus} processors, {one} of one pair");
            counted_in_all(runs, &format!("{case}-all"), "pool", *cpus)?;
        }
    }
    MACHINES[1..].iter().try_for_each(|cpus| counted_in_all(runs, "pairs-all", "woken", *cpus))
}

/// K1-48, where several meet: what all messages together have taken, by one. Seldom one goes the long way, so it is not exact.
fn counted_in_all(runs: &Runs, case: &str, way: &str, cpus: u32) -> Result<()> {
    let messages = value(runs, case, way, cpus, "messages")?;
    let calls = if way == "woken" { 2 } else { 1 };
    for (unit, most) in [(count::ENTRIES, calls), (count::LOCKS, LOCKS), (count::POST_LOCKS, LOCKS), (count::COPIES, 1)]
    {
        let all = value(runs, case, way, cpus, unit)?;
        ensure!(
            all * 100 <= messages * most * SELDOM_LONG,
            "{case} by {way}, {cpus} processors: {all} {unit} of {messages} messages"
        );
    }
    ensure!(value(runs, case, way, cpus, count::POST_LOCKS)? > 0, "{case} by {way}: no lock was seen");
    // Who is idle looks around in loops that count, too: told, and held to nothing.
    value(runs, case, way, cpus, count::SPINS).map(drop)
}

/// Rounds beside the machine's own clock, as `apps/bench/src/pool.rs` has them, and how long a turn is, in ns, which are instructions.
const TICKING_ROUNDS: u64 = 50_000;
const QUANTUM: u64 = 10_000_000;

/// Threads of the service, each on a processor of its own.
const THREADS: [u64; 3] = [2, 4, 8];

/// K1-6, 14, 16: requests to one post are shared among the processors, which execute no more for them than one, and so many do 0.9 times as much
/// as they are in the time of one, with whatever they wait for.
pub fn a_service_on_all_processors(runs: &Runs) -> Result<()> {
    for cpus in MACHINES {
        let alone = average(runs, "service", "1-thread", cpus)?;
        ensure!(alone > 1_000_000, "{alone} instructions are no work");
        if cpus > 1 {
            let together = average(runs, "service", &format!("{cpus}-threads"), cpus)?;
            ensure!(
                together * 100 <= alone * 105,
                "{together} instructions on {cpus} processors, {alone} by one thread"
            );
        }
    }
    side_by_side(runs, "service", "threads", &THREADS)
}

/// That so many do at least 0.9 times as much as they are in the time of one, and no more than they are.
fn side_by_side(runs: &Runs, case: &str, who: &str, counts: &[u64]) -> Result<()> {
    each_does(900, runs, case, who, counts)
}

/// The same with so many thousandths.
fn each_does(least: u64, runs: &Runs, case: &str, who: &str, counts: &[u64]) -> Result<()> {
    let figures = &runs.of("service")?.figures;
    for count in counts {
        let way = format!("{count}-{who}");
        let same = |figure: &&Figure| figure.case == case && figure.way == way && figure.unit == count::BESIDE;
        let gained = figures.iter().find(same).with_context(|| format!("{case} by {way} was not measured"))?.value;
        let may_be = least * count..=1050 * count;
        ensure!(may_be.contains(&gained), "{case} by {way}: {gained} thousandths of what one does");
    }
    Ok(())
}

/// K1-4: clients of different servers do not wait for one another.
pub fn clients_at_servers_of_their_own(runs: &Runs) -> Result<()> {
    side_by_side(runs, "servers", "clients", &THREADS)
}

/// What so many clients of one server of the system's do at least, each in thousandths of what one does. What they share is the server's heap, and where it is asked
/// for names and processes nothing else for longer than a moment.
const AT_THE_SYSTEMS: [(&str, u64); 3] = [("lookup", 700), ("status", 900), ("pipe", 700)];

/// K1-4: nor do those of one server of the system's that ask for something else.
pub fn clients_at_the_systems_servers(runs: &Runs) -> Result<()> {
    AT_THE_SYSTEMS.into_iter().try_for_each(|(case, least)| each_does(least, runs, case, "clients", &[2, 4]))
}

/// K1-2: a program whose loop is done by more threads is so much sooner done.
pub fn a_loop_by_many_threads(runs: &Runs) -> Result<()> {
    side_by_side(runs, "loop", "threads", &[2, 4])
}

/// Most locks that a message at one post of as many threads as processors asks for, whether it gets them at once or not, in hundredths: 7 were measured.
const MOST_OF_FIGHT: u64 = 800;
/// Most that a message or an operation asks for on 32 processors, in hundredths of those on 16.
const MOST_OF_TWICE: u64 = 150;

/// K1-U8, U10: what is fought over is counted, on many processors that take short turns, and on two that run at once if the host has them. What messages at one
/// post, a service's and operations on files have in common is that they enter the kernel or take its locks, and of these no more with more processors; how long
/// they wait is told, and held to nothing.
pub fn what_processors_fight_over(runs: &Runs) -> Result<()> {
    let figures = &runs.of("fights")?.figures;
    for case in ["crowd", "service", "make-and-remove", "open-and-close", "write", "read", "write-to-one-file"] {
        // Messages and locks on half as many.
        let mut before = None;
        for cpus in [16, 32] {
            let case = format!("{case}-all");
            let of = |unit: &str| -> Result<u64> {
                let same = |f: &&Figure| f.case == case && f.cpus == cpus && f.unit == unit;
                let found = figures.iter().find(same).map(|figure| figure.value);
                found.with_context(|| format!("no {unit} of {case} on {cpus} processors"))
            };
            let (messages, entries, locks) = (of(count::MESSAGES)?, of(count::ENTRIES)?, of(count::LOCKS)?);
            ensure!(messages >= u64::from(cpus), "{case}: {messages} are no crowd of {cpus}");
            ensure!(entries + locks > 0, "{case} on {cpus} processors: no entry and no lock");
            ensure!(
                case != "crowd-all" || locks * 100 <= MOST_OF_FIGHT * messages,
                "{case} on {cpus} processors: {locks} locks of {messages} messages"
            );
            if let Some((fewer, of_fewer)) = before.replace((messages, locks)) {
                ensure!(
                    locks * fewer * 100 <= of_fewer * messages * MOST_OF_TWICE,
                    "{case}: {locks} locks of {messages} on {cpus} processors, {of_fewer} of {fewer} on half as many"
                );
            }
            of(count::SPINS)?;
        }
    }
    Ok(())
}
