//! The texts that the first task keeps, of which instances of the image's programs are clones. It is asked by a thread of this program's own, and by
//! messages: a caller that is ended in the middle leaves nothing half done there, and neither does this program.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use musubi::Error;
use musubi::rt::{Condition, Mutex};

#[derive(Default)]
struct State {
    /// By number of their files; an error until the first one who waits for it has heard it.
    known: BTreeMap<usize, Result<u64, Error>>,
    wanted: Vec<usize>,
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
    /// What the first task answers; `Killed`.
    pub fn of(&self, number: usize) -> Result<u64, Error> {
        let mut state = self.state.lock();
        loop {
            match state.known.get(&number).copied() {
                Some(Ok(text)) => return Ok(text),
                Some(Err(error)) => {
                    state.known.remove(&number);
                    return Err(error);
                }
                None if state.wanted.contains(&number) => {}
                None => {
                    state.wanted.push(number);
                    self.asked.notify_one();
                }
            }
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
        let mut state = self.state.lock();
        state.wanted.retain(|one| *one != number);
        state.known.insert(number, answer);
        drop(state);
        self.told.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_known_and_an_error_is_told_once() {
        let texts = Texts::default();
        texts.comes(3, Ok(7));
        texts.comes(4, Err(Error::NoMemory));
        assert_eq!([texts.of(3), texts.of(3), texts.of(4)], [Ok(7), Ok(7), Err(Error::NoMemory)]);
        let state = texts.state.lock();
        assert_eq!((state.known.len(), state.wanted.len()), (1, 0));
    }
}
