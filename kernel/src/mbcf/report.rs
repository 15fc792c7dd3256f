//! What an issuer wants to be told of an operation, at an address of its choice (SSS-46, 47, 89).

use super::Done;
use super::pair::{Range, TRIES, prepare, put_words, settle};
use crate::domain::Domain;
use abi::mbcf::{self, option, status};
use abi::{Error, Rights};

pub struct Report {
    range: Option<Range>,
    options: u64,
}

const LEN: u64 = size_of::<mbcf::Report>() as u64;

impl Report {
    /// Looks whether it could be written. Nothing is asked of the address if no report is wanted.
    pub fn open(d: &Domain, options: u64, address: u64) -> Result<Report, Error> {
        if options & (option::STATUS | option::ERROR) == 0 {
            return Ok(Report { range: None, options });
        }
        if !address.is_multiple_of(LEN) {
            return Err(Error::BadAddress);
        }
        let report = Report { range: Some(Range::new(d, address, LEN)?), options };
        report.put(d, &[])?;
        Ok(report)
    }

    fn put(&self, d: &Domain, words: &[(u64, u64)]) -> Result<(), Error> {
        let Some(range) = &self.range else { return Ok(()) };
        for _ in 0..TRIES {
            let mut state = range.section().state.lock();
            range.check(d, &state, Rights::WRITE)?;
            if let Some(stale) = prepare(&mut state, range.offset(), LEN)? {
                settle(range.section(), state, stale);
                continue;
            }
            return words.iter().try_for_each(|(at, word)| put_words(&mut state, range.offset() + at, &[*word]));
        }
        Err(Error::Busy)
    }

    /// Writes what was asked for; the status last, and once. Whoever has taken the right away meanwhile hears nothing.
    pub fn write(&self, d: &Domain, done: &Result<Done, Error>) {
        let (outcome, error, packet) = match done {
            Ok(done) => (done.status, 0, done.packet),
            Err(error) => (status::FAILED, error.word(), 0),
        };
        let error = (self.options & option::ERROR != 0 && error != 0).then_some((8, error));
        let asked = self.options & option::STATUS != 0;
        let packet = (asked && packet != 0).then_some((16, packet));
        let words = [error, packet, asked.then_some((0, outcome))];
        let mut kept = [(0, 0); 3];
        let mut count = 0;
        for word in words.into_iter().flatten() {
            kept[count] = word;
            count += 1;
        }
        if count > 0 {
            let _ = self.put(d, &kept[..count]);
        }
    }
}
