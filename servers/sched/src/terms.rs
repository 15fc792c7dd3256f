//! What applications propose to the policy: put on the board, and the high level called as for any change of priority.

use crate::Service;
use crate::levels::board_at;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;
use board::{Board, Terms};
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::task::USER_SYSTEM;
use musubi::rt::{Condition, Mutex, sched, task, thread, time};
use musubi::{Caller, Error};

/// How long the policy may take. A caller that is killed meanwhile ends within its grace.
const PATIENCE_NS: u64 = 800_000_000;
const LOOK_NS: u64 = 200_000;

impl Service {
    /// A scheduler that has failed is started again meanwhile: whoever proposes something to it waits for that.
    pub fn propose(&self, caller: &Caller, thread: u64, terms: Terms) -> Result<(), Error> {
        may_speak_for(caller, thread)?;
        let until = time::now_ns() + PATIENCE_NS;
        loop {
            match self.propose_to_levels(thread, (terms, false), until) {
                Err(Error::NotSupported) if self.is_to_come(terms) => wait(until)?,
                outcome => return outcome,
            }
        }
    }

    /// Whether a scheduler is wished for that may know such terms.
    fn is_to_come(&self, terms: Terms) -> bool {
        let state = self.state.lock();
        let refuses = state.levels.is_some()
            && board_at(state.board).is_some_and(|board| board.proposals().knows(terms) == Some(false));
        !state.wish.is_empty() && state.failed.is_none() && !refuses
    }

    /// `is_old`: the thread had them of a scheduler that has failed; it keeps what it has agreed on with the next one by itself.
    fn propose_to_levels(&self, thread: u64, (terms, is_old): (Terms, bool), until: u64) -> Result<(), Error> {
        let base = {
            let state = self.state.lock();
            state.levels.as_ref().ok_or(Error::NotSupported)?;
            state.board
        };
        let board = board_at(base).ok_or(Error::BadAddress)?;
        while board.proposals().knows(terms).is_none() {
            wait(until)?;
        }
        if board.proposals().knows(terms) != Some(true) {
            return Err(Error::NotSupported);
        }
        let _one = self.proposing.lock();
        if is_old && board.priorities().agreed(thread).is_some_and(|agreed| agreed.terms() != Terms::Usual) {
            return Ok(());
        }
        let number = board.proposals().propose(thread, terms);
        let mut asked = self.carrier.call(until);
        while asked.is_ok() && board.proposals().answer(number).is_none() {
            asked = wait(until);
        }
        match board.proposals().answer(number) {
            Some(0) => Ok(()),
            Some(why) => Err(Error::from_word(why).unwrap_or(Error::Refused)),
            None => {
                board.proposals().withdraw();
                asked
            }
        }
    }
}

/// What threads had of a scheduler that has failed, until the next one of its name has been asked for it: who was promised something does not
/// have to notice.
#[derive(Default)]
pub struct Left {
    terms: Vec<(u64, Terms)>,
    levels: Vec<(u64, u64)>,
}

impl Left {
    pub const fn nothing() -> Left {
        Left { terms: Vec::new(), levels: Vec::new() }
    }

    fn is_empty(&self) -> bool {
        self.terms.is_empty() && self.levels.is_empty()
    }

    /// What stands on the board is left, and of what was left before whatever does not stand there.
    pub fn gather(&mut self, board: Board) {
        let priorities = board.priorities();
        let terms = priorities.all().map(|(thread, _, agreed)| (thread, agreed.terms())).collect();
        let before = core::mem::replace(self, Left { terms, levels: priorities.levels().collect() });
        self.join(before);
    }

    /// And what was left earlier, of threads that nothing is known of by now.
    fn join(&mut self, before: Left) {
        let known: BTreeSet<u64> =
            self.terms.iter().map(|one| one.0).chain(self.levels.iter().map(|one| one.0)).collect();
        self.terms.extend(before.terms.into_iter().filter(|one| !known.contains(&one.0)));
        self.levels.extend(before.levels.into_iter().filter(|one| !known.contains(&one.0)));
    }
}

impl Service {
    /// What a thread of this server does: whatever threads had of a scheduler that has failed, they are to have of the next one of its name.
    pub fn renew(&self) -> ! {
        loop {
            let (mut left, name) = {
                let mut state = self.state.lock();
                while state.left.is_empty() || state.levels.is_none() {
                    let _ = self.changed.wait(&mut state, u64::MAX);
                }
                let name = state.levels.as_ref().map(|levels| levels.name.clone()).unwrap_or_default();
                (core::mem::take(&mut state.left), name)
            };
            let (all, until) = (left.terms.len(), time::now_ns() + PATIENCE_NS);
            let mut again = 0;
            if self.is_begun(&name, until) {
                self.wish_anew(&mut left);
                again = self.agree_anew(&name, &mut left, until);
            }
            let mut state = self.state.lock();
            if all > left.terms.len() {
                state.log.add(format!("{again} of {all} agreements with the one before hold again"));
            }
            if state.wish == name {
                state.left.join(left);
            }
        }
    }

    /// Whether the scheduler of that name decides, by then.
    fn is_begun(&self, name: &str, until: u64) -> bool {
        loop {
            {
                let state = self.state.lock();
                match &state.levels {
                    Some(levels) if levels.name != name || state.wish != name => return false,
                    Some(levels) if levels.decide() => return true,
                    Some(_) => {}
                    None => return false,
                }
            }
            if wait(until).is_err() {
                return false;
            }
        }
    }

    /// Asks for the priorities that there were, but of whom somebody has asked for another one since. (Who has ended has none.)
    fn wish_anew(&self, left: &mut Left) {
        let board = board_at(self.state.lock().board);
        let is_new = |thread| board.is_none_or(|board| board.priorities().of(thread) != board::USUAL);
        for (thread, level) in left.levels.drain(..).filter(|one| !is_new(one.0)) {
            let _ = sched::set_priority(thread, level);
        }
    }

    /// Proposes what was agreed on with the scheduler before, as far as this one answers; the rest stays. How many agreements there are again.
    fn agree_anew(&self, name: &str, left: &mut Left, until: u64) -> usize {
        let mut again = 0;
        while let Some(&(thread, terms)) = left.terms.last()
            && self.is_begun(name, until)
        {
            match self.propose_to_levels(thread, (terms, true), until) {
                Ok(()) => again += 1,
                // It has failed, too.
                Err(Error::NotSupported | Error::TimedOut) if self.is_to_come(terms) => break,
                // The thread has ended, or another one has what it had.
                Err(_) => {}
            }
            left.terms.pop();
        }
        again
    }
}

/// A thread of this server's for whose priority the fast level is asked, a change that changes nothing: so it calls the high one. Not for that of the thread
/// with the terms, which would be told late where it is not any more, and not for the caller's: a wish of its own may wait to be told, and this
/// one would take its place.
pub struct Carrier {
    /// What is asked for, and what has come of it.
    state: Mutex<Carried>,
    changed: Condition,
}

/// The thread in whose name the high level is called for terms.
static CARRIER: AtomicU64 = AtomicU64::new(0);

/// Whether a change of this thread's priority is about terms that others propose.
pub fn carries(thread: u64) -> bool {
    CARRIER.load(Ordering::Relaxed) == thread
}

enum Carried {
    Nothing,
    Wanted,
    Asked(Result<(), Error>),
}

impl Carrier {
    pub const fn new() -> Carrier {
        Carrier { state: Mutex::new(Carried::Nothing), changed: Condition::new() }
    }

    /// What its thread does.
    pub fn serve(&self) -> ! {
        let own = task::identity().thread;
        CARRIER.store(own, Ordering::Relaxed);
        let mut state = self.state.lock();
        loop {
            if let Carried::Wanted = *state {
                *state = Carried::Asked(sched::set_priority(own, board::USUAL));
                self.changed.notify_all();
            }
            let _ = self.changed.wait(&mut state, u64::MAX);
        }
    }

    /// Has the high level called. One at a time.
    fn call(&self, until: u64) -> Result<(), Error> {
        let mut state = self.state.lock();
        *state = Carried::Wanted;
        self.changed.notify_all();
        loop {
            if let Carried::Asked(outcome) = *state {
                return outcome;
            }
            let left = until.checked_sub(time::now_ns()).ok_or(Error::TimedOut)?;
            let _ = self.changed.wait(&mut state, left);
        }
    }
}

/// Who may end a thread's task may say how it runs. The kernel asks the same, but of the thread that executes this: by a message that is
/// one of this program's own.
fn may_speak_for(caller: &Caller, thread: u64) -> Result<(), Error> {
    let task = thread::info(thread).ok_or(Error::NotFound)?.task;
    let user = task::info(task).ok_or(Error::NotFound)?.user;
    if caller.user == USER_SYSTEM || caller.user == user { Ok(()) } else { Err(Error::Denied) }
}

fn wait(until: u64) -> Result<(), Error> {
    time::sleep_ns(LOOK_NS);
    if time::now_ns() < until { Ok(()) } else { Err(Error::TimedOut) }
}

/// Jobs of different users are different ones.
pub fn job_of(caller: &Caller, job: u64) -> u64 {
    caller.user << 32 | job & 0xffff_ffff
}

/// How many processors a job has.
pub fn processors(base: u64, job: u64) -> Result<u64, Error> {
    let board = board_at(base).ok_or(Error::BadAddress)?;
    let one = board.priorities().all().find(|(.., agreed)| agreed.terms() == Terms::Job { job });
    let homes = one.map(|(.., agreed)| agreed.homes()).ok_or(Error::NotFound)?;
    let all = sched::seats().count() as u64;
    Ok(if homes == 0 { all } else { u64::from(homes.count_ones()).min(all) })
}
