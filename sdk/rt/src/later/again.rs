//! A request by message whose server ends with it. If the interface says that it may be repeated it is sent again, as soon as the next
//! server is there, and its sender does not notice; otherwise he hears `Dead`. What is passed by pointer is lent to the next one first: a
//! message that named what was lent to the one before is refused by the next, before anything is done, so that one is sent again whatever
//! the interface says.

use crate::service::{PAUSE_NS, Patience};
use abi::Error;

/// What has come of a request that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// An answer, and whose task's.
    Answer(Result<[u64; 2], Error>, u64),
    /// Whoever had received it has ended.
    Lost,
}

/// What is to be done then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It has come to this.
    Over(Result<[u64; 2], Error>),
    /// It is to be sent again.
    Again,
}

/// What sending it again needs.
pub(crate) trait Sender {
    /// Waits at most so long until the server is there.
    ///
    /// # Errors
    /// `TimedOut`; `Dead`: it will not be; `Killed`.
    fn is_back(&mut self, ns: u64) -> Result<(), Error>;

    /// Sends it. Value: its tag, and the task that what it names is lent to (0: it names nothing).
    ///
    /// # Errors
    /// What the kernel answers.
    fn send(&mut self) -> Result<(u32, u64), Error>;
}

/// What is known of a request for that.
#[derive(Debug)]
pub(crate) struct Again {
    /// Doing it twice is doing it once.
    repeat: bool,
    /// The task that what it names is lent to; 0: it names nothing.
    lent_to: u64,
    patience: Patience,
    /// When it was last looked whether it can be sent.
    looked: u64,
}

impl Again {
    pub fn new(repeat: bool, lent_to: u64) -> Again {
        Again { repeat, lent_to, patience: Patience::default(), looked: 0 }
    }

    /// `server`: the task that stands at the server's gate now.
    pub fn next(&self, came: Came, server: impl FnOnce() -> u64) -> Next {
        match came {
            Came::Lost if self.repeat => Next::Again,
            Came::Lost => Next::Over(Err(Error::Dead)),
            Came::Answer(Ok([status, _]), from) if status == Error::Refused.word() && self.is_moved(from, server) => {
                Next::Again
            }
            Came::Answer(outcome, _) => Next::Over(outcome),
        }
    }

    /// Whether somebody has answered to whom nothing is lent, and another one stands there now to whom something can be.
    fn is_moved(&self, from: u64, server: impl FnOnce() -> u64) -> bool {
        self.lent_to != 0 && from != self.lent_to && server() != self.lent_to
    }

    /// Whether there is to be another try at time `now` by who does not wait, however often he looks: patience is counted in tries.
    pub fn is_due(&mut self, now: u64) -> bool {
        let is_due = now.saturating_sub(self.looked) >= PAUSE_NS;
        if is_due {
            self.looked = now;
        }
        is_due
    }

    /// One try, waiting at most so long for the server. Value: the tag, or none if there is to be another try.
    ///
    /// # Errors
    /// That there is to be none.
    pub fn try_once(&mut self, sender: &mut impl Sender, ns: u64) -> Result<Option<u32>, Error> {
        match sender.is_back(ns) {
            Err(Error::TimedOut) => return Ok(None),
            there => there?,
        }
        let error = match sender.send() {
            Ok((tag, lent_to)) => {
                *self = Again::new(self.repeat, lent_to);
                return Ok(Some(tag));
            }
            Err(error) => error,
        };
        // Room for it comes with the answers to others.
        let is_full = matches!(error, Error::Busy | Error::MessageQuota);
        let tried = self.patience.bears(if is_full { Error::NotFound } else { error }, false);
        tried.map(|()| None).map_err(|_| error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::TRIES;
    use std::vec::Vec;

    /// The tasks of a server, one after the other.
    const FIRST: u64 = 7;
    const NEXT: u64 = 8;
    const REFUSED: Result<[u64; 2], Error> = Ok([Error::Refused.word(), 0]);

    /// What the world answers, the next one last; and how long it was waited for.
    #[derive(Default)]
    struct World {
        back: Vec<Result<(), Error>>,
        sends: Vec<Result<(u32, u64), Error>>,
        waits: Vec<u64>,
        sent: u32,
    }

    impl Sender for World {
        fn is_back(&mut self, ns: u64) -> Result<(), Error> {
            self.waits.push(ns);
            self.back.pop().unwrap_or(Ok(()))
        }

        fn send(&mut self) -> Result<(u32, u64), Error> {
            self.sent += 1;
            self.sends.pop().unwrap_or(Ok((self.sent, 0)))
        }
    }

    fn at(task: u64) -> impl FnOnce() -> u64 {
        move || task
    }

    #[test]
    fn who_may_be_repeated_is_sent_again_and_who_may_not_is_told() {
        assert_eq!(Again::new(true, 0).next(Came::Lost, at(NEXT)), Next::Again);
        assert_eq!(Again::new(false, 0).next(Came::Lost, at(NEXT)), Next::Over(Err(Error::Dead)));
    }

    /// `Dead` that a server says is an answer: its method has ended its thread, and would again.
    #[test]
    fn an_answer_is_one_whatever_it_says() {
        for outcome in [Ok([0, 5]), Ok([5, 0]), Err(Error::Dead), Err(Error::Faulted), Err(Error::Refused), REFUSED] {
            let came = Came::Answer(outcome, NEXT);
            assert_eq!(Again::new(true, 0).next(came, at(NEXT)), Next::Over(outcome));
        }
    }

    #[test]
    fn what_was_lent_to_the_one_before_is_lent_to_the_next() {
        for repeat in [true, false] {
            let request = Again::new(repeat, FIRST);
            assert_eq!(request.next(Came::Answer(REFUSED, NEXT), at(NEXT)), Next::Again, "nothing was done");
            // The one to whom it was lent refuses for a reason of its own; or nobody else stands there who could be lent something.
            assert_eq!(request.next(Came::Answer(REFUSED, FIRST), at(NEXT)), Next::Over(REFUSED));
            assert_eq!(request.next(Came::Answer(REFUSED, NEXT), at(FIRST)), Next::Over(REFUSED));
            assert_eq!(request.next(Came::Answer(Ok([0, 1]), NEXT), at(NEXT)), Next::Over(Ok([0, 1])));
        }
    }

    #[test]
    fn it_is_sent_when_the_server_is_there_and_not_before() {
        let mut world = World { back: [Ok(()), Err(Error::TimedOut)].into(), ..World::default() };
        let mut request = Again::new(true, 0);
        assert_eq!(request.try_once(&mut world, 5), Ok(None));
        assert_eq!(world.sent, 0, "it is not there yet");
        assert_eq!(request.try_once(&mut world, 9), Ok(Some(1)));
        assert_eq!((world.waits, world.sent), ([5, 9].into(), 1));
    }

    #[test]
    fn who_will_not_come_back_is_not_waited_for() {
        for error in [Error::Dead, Error::Killed] {
            let mut world = World { back: [Err(error)].into(), ..World::default() };
            assert_eq!(Again::new(true, 0).try_once(&mut world, 5), Err(error));
            assert_eq!(world.sent, 0);
        }
    }

    /// As often as by the gate.
    #[test]
    fn patience_is_that_of_the_gate_and_begins_anew_with_each_server() {
        for error in [Error::NotFound, Error::Dead, Error::Busy, Error::MessageQuota] {
            let mut request = Again::new(true, 0);
            for _ in 0..2 {
                let mut world = World { sends: std::vec![Err(error); TRIES as usize], ..World::default() };
                for _ in 0..TRIES {
                    assert_eq!(request.try_once(&mut world, 0), Ok(None));
                }
                assert_eq!(request.try_once(&mut world, 0), Ok(Some(TRIES + 1)));
            }
            let mut world = World { sends: std::vec![Err(error); TRIES as usize + 1], ..World::default() };
            let last = (0..=TRIES).map(|_| request.try_once(&mut world, 0)).last();
            assert_eq!(last, Some(Err(error)));
        }
        let mut world = World { sends: [Err(Error::TooBig)].into(), ..World::default() };
        assert_eq!(Again::new(true, 0).try_once(&mut world, 0), Err(Error::TooBig));
    }

    /// Ten thousand looks in a millisecond are one try.
    #[test]
    fn who_looks_all_the_time_has_no_less_patience() {
        let mut request = Again::new(true, 0);
        let tries = (0..100 * PAUSE_NS).step_by(100).filter(|ns| request.is_due(5 + PAUSE_NS + ns)).count();
        assert_eq!(tries, 100);
    }

    /// What it names is lent to whom it was sent last.
    #[test]
    fn a_request_outlives_any_number_of_servers() {
        let mut request = Again::new(true, FIRST);
        for server in NEXT..NEXT + 100 {
            assert_eq!(request.next(Came::Lost, at(server)), Next::Again);
            let mut world = World { sends: [Ok((3, server))].into(), ..World::default() };
            assert_eq!(request.try_once(&mut world, 0), Ok(Some(3)));
            assert_eq!(request.next(Came::Answer(REFUSED, server), at(server + 1)), Next::Over(REFUSED));
            assert_eq!(request.next(Came::Answer(REFUSED, server + 1), at(server + 1)), Next::Again);
        }
    }
}
