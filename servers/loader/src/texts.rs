//! The texts that the first task keeps, of which instances of the image's programs are clones. It is asked by a thread of this program's own, and by
//! messages: a caller that is ended in the middle leaves nothing half done there, and neither does this program.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use musubi::Error;
use musubi::rt::{Condition, Mutex};

#[derive(Default)]
struct State {
    /// By number of their files, and which answer it was. An error is for those who have waited for it, and none before.
    known: BTreeMap<usize, (u64, Result<u64, Error>)>,
    wanted: Vec<usize>,
    /// Answers so far.
    answers: u64,
}

impl State {
    /// What is known for one who has come after so many answers; otherwise it is wanted from now on.
    fn look(&mut self, number: usize, after: u64) -> Option<Result<u64, Error>> {
        match self.known.get(&number) {
            Some((answer, known)) if known.is_ok() || *answer > after => return Some(*known),
            // Somebody else's, and perhaps of long ago.
            Some(_) => _ = self.known.remove(&number),
            None => {}
        }
        if !self.wanted.contains(&number) {
            self.wanted.push(number);
        }
        None
    }

    fn comes(&mut self, number: usize, answer: Result<u64, Error>) {
        self.wanted.retain(|one| *one != number);
        self.answers += 1;
        self.known.insert(number, (self.answers, answer));
    }
}

#[derive(Default)]
pub struct Texts {
    state: Mutex<State>,
    asked: Condition,
    told: Condition,
}

impl Texts {
    /// The text of the file with this number, which this program may read from then on; 0: it is no program for Musubi.
    ///
    /// # Errors
    /// What the first task answers; `Killed`, `Dead`.
    pub fn of(&self, number: usize) -> Result<u64, Error> {
        let mut state = self.state.lock();
        let after = state.answers;
        loop {
            if let Some(known) = state.look(number, after) {
                return known;
            }
            self.asked.notify_one();
            self.told.wait(&mut state, u64::MAX)?;
        }
    }

    /// Asks for what is wanted, one after the other, for ever. It is wanted until the answer is here.
    pub fn ask(&self, ask: impl Fn(usize) -> Result<u64, Error>) -> ! {
        loop {
            let number = self.next();
            self.comes(number, ask(number));
        }
    }

    fn next(&self) -> usize {
        let mut state = self.state.lock();
        loop {
            if let Some(number) = state.wanted.first() {
                return *number;
            }
            let _ = self.asked.wait(&mut state, u64::MAX);
        }
    }

    fn comes(&self, number: usize, answer: Result<u64, Error>) {
        self.state.lock().comes(number, answer);
        self.told.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_known_and_an_error_is_for_who_has_waited() {
        let mut state = State::default();
        assert_eq!([state.look(3, 0), state.look(4, 0), state.look(4, 0)], [None; 3]);
        assert_eq!(state.wanted, [3, 4]);
        state.comes(3, Ok(7));
        state.comes(4, Err(Error::NoMemory));
        assert_eq!([state.look(3, 0), state.look(3, 2)], [Some(Ok(7)); 2]);
        // Two have waited, and a third one comes later.
        assert_eq!([state.look(4, 0), state.look(4, 1)], [Some(Err(Error::NoMemory)); 2]);
        assert_eq!((state.look(4, 2), state.wanted.clone()), (None, Vec::from([4])));
        state.comes(4, Ok(8));
        assert_eq!((state.look(4, 2), state.wanted.len()), (Some(Ok(8)), 0));
    }
}
