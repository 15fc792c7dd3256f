//! Work that waits at other processors: who has less to do takes some.

use super::{Level, had};
use board::{Position, Why};
use musubi::Error;
use musubi::rt::sched::{self, Limit, Seat};
use musubi::rt::time;

/// How long a processor without work waits before it looks at the others' queues again.
const LOOK: Limit = Limit::Ns(2_000_000);
/// How many of another processor's threads it tries to have: turns that are past may stand first there.
const TRIES: usize = 4;

impl Level {
    /// Where all processors are busy nobody looks for work elsewhere, and one may have ten threads while another has one: who has fewer takes
    /// one each time that a quantum ends. Who has agreed on something that is counted on one processor stays there.
    pub(super) fn share(&self) {
        if let Some(ready) = self.board.spare_for(self.processor, self.processors) {
            self.queue.put(ready, self.order.position(ready.thread, Why::Came));
        }
    }

    /// This processor has something to run: what it was told of elsewhere somebody else may have.
    pub(super) fn passes_on(&mut self) {
        if self.looks {
            self.tell_others();
        }
    }

    fn tell_others(&mut self) {
        self.looks = false;
        if let Some(helper) = self.order.helper_of_others(self.processors) {
            let _ = sched::look(helper as u64);
        }
    }

    pub(super) fn may_have(&self, thread: u64) -> bool {
        self.order.elsewhere(thread).is_none()
    }

    /// Work that waits elsewhere: who names it first has it.
    pub(super) fn steal(&mut self, seat: &mut Seat) -> Result<(), Error> {
        let (mut any, mut has_told) = (false, false);
        // First it says so, then it looks; who has more than it runs first queues that, then reads who rests.
        self.order.rests(true);
        // Nobody loses a turn by it where turns go by weights: it goes home for the next one.
        let shares = self.board.weight() != 0;
        let (own, all) = (self.processor, self.processors);
        for other in (1..all).map(|step| (own + step) % all) {
            let queue = self.board.queue(other);
            any |= !queue.is_empty();
            for offer in queue.first_of::<TRIES>(|thread| shares || self.may_have(thread)).into_iter().flatten() {
                if !queue.claim(&offer) {
                    continue;
                }
                let first = offer.ready;
                // While that one runs nobody is to be roused here.
                self.order.rests(false);
                self.running = first.thread;
                self.quanta.taken(first.thread, Position::default());
                let level = self.board.priorities().of(first.thread);
                if !core::mem::replace(&mut has_told, true) {
                    self.tell_others();
                }
                let quantum = Limit::Ns(self.quanta.begin(first.thread, level, time::now_ns()));
                match self.name(seat, first, 0, quantum) {
                    Err(Error::Busy) => {
                        // It may be told of here next, and then it does not go on, but begins.
                        self.running = 0;
                        queue.leave(&offer);
                        return Ok(());
                    }
                    answer if had(answer)? => return Ok(()),
                    _ => {
                        // One that was put aside may only not be to be had yet.
                        if first.turn == 0 {
                            queue.leave(&offer);
                        }
                        // Who is queued meanwhile where it has looked already rouses nobody here: it looks again soon.
                        any = true;
                        self.order.rests(true);
                    }
                }
            }
        }
        self.running = 0;
        match seat.next(0, 0, if any { LOOK } else { Limit::Never }) {
            Err(Error::Busy) => Ok(()),
            answer => answer,
        }
    }
}
