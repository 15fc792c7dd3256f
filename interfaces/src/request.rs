//! What a program is started with, as bytes: numbers are eight bytes, little end first; a string is its length and its
//! bytes; a list is its length and its members.

use alloc::vec::Vec;
use rt::Error;
use rt::abi::start::StreamRef;
use rt::abi::task::Limits;

/// Longest encoded request.
pub const LEN_MAX: usize = 48 << 10;

// What `./musubi exec` takes can be handed to the shell, with its environment and all the rest.
const _: () = assert!(rt::abi::boot::EXEC_MAX + 4096 < LEN_MAX);

/// What a program is started with. Strings are bytes, as they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub path: Vec<u8>,
    /// The name that the program was called by comes first.
    pub args: Vec<Vec<u8>>,
    /// `NAME=value`.
    pub env: Vec<Vec<u8>>,
    pub streams: [StreamRef; 3],
    /// Limits that are 0 stand for the usual ones (`sdk/instance`).
    pub limits: Limits,
    /// Only user 0 may name another than its own.
    pub user: u64,
    /// The task that what the program uses counts for, too; 0: the calling thread's. Only user 0 may name one.
    pub payer: u64,
    /// Entry address of the name service.
    pub names: u64,
    /// Where its text is executed: 0: as whoever made the image says, else 1 + the class (`abi::section::class`).
    pub class: u64,
    /// NSys: the group of texts of which one thread runs at a time; 0: this one alone.
    pub exclusion: u64,
}

impl Request {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.encoded_len());
        self.write(&mut out);
        out
    }

    /// The same by who serves others, and may have little memory.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn try_encode(&self) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        out.try_reserve_exact(self.encoded_len()).map_err(|_| Error::NoMemory)?;
        self.write(&mut out);
        Ok(out)
    }

    fn encoded_len(&self) -> usize {
        let words = 5 + 4 + 2 * self.streams.len() + 2;
        let strings = [&self.path].into_iter().chain(&self.args).chain(&self.env);
        8 * words + strings.map(|s| 8 + s.len()).sum::<usize>()
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut word = |n: u64| out.extend_from_slice(&n.to_le_bytes());
        word(self.user);
        word(self.payer);
        word(self.names);
        word(self.class);
        word(self.exclusion);
        for limit in [self.limits.frames, self.limits.sections, self.limits.reserve, self.limits.threads] {
            word(limit);
        }
        for stream in self.streams {
            word(stream.gate);
            word(stream.id);
        }
        string(out, &self.path);
        for list in [&self.args, &self.env] {
            out.extend_from_slice(&(list.len() as u64).to_le_bytes());
            list.iter().for_each(|s| string(out, s));
        }
        debug_assert_eq!(out.len(), self.encoded_len());
    }

    /// # Errors
    /// `BadArgument` if the bytes are no request.
    pub fn decode(bytes: &[u8]) -> Result<Request, Error> {
        let mut rest = Reader(bytes);
        let mut request =
            Request { user: rest.word()?, payer: rest.word()?, names: rest.word()?, ..Request::default() };
        (request.class, request.exclusion) = (rest.word()?, rest.word()?);
        request.limits =
            Limits { frames: rest.word()?, sections: rest.word()?, reserve: rest.word()?, threads: rest.word()? };
        for stream in &mut request.streams {
            *stream = StreamRef { gate: rest.word()?, id: rest.word()? };
        }
        request.path = rest.string()?;
        request.args = rest.list()?;
        request.env = rest.list()?;
        if rest.0.is_empty() { Ok(request) } else { Err(Error::BadArgument) }
    }
}

fn string(out: &mut Vec<u8>, s: &[u8]) {
    out.extend_from_slice(&(s.len() as u64).to_le_bytes());
    out.extend_from_slice(s);
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn word(&mut self) -> Result<u64, Error> {
        let (word, rest) = self.0.split_first_chunk::<8>().ok_or(Error::BadArgument)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*word))
    }

    fn string(&mut self) -> Result<Vec<u8>, Error> {
        let len = usize::try_from(self.word()?).map_err(|_| Error::BadArgument)?;
        let (string, rest) = self.0.split_at_checked(len).ok_or(Error::BadArgument)?;
        self.0 = rest;
        // Whoever serves it may have little memory, and says so then.
        let mut copy = Vec::new();
        copy.try_reserve_exact(len).map_err(|_| Error::NoMemory)?;
        copy.extend_from_slice(string);
        Ok(copy)
    }

    fn list(&mut self) -> Result<Vec<Vec<u8>>, Error> {
        let count = self.word()?;
        // Every member takes eight bytes at least: a count that lies cannot make us allocate.
        if count > self.0.len() as u64 / 8 {
            return Err(Error::BadArgument);
        }
        let mut all = Vec::new();
        all.try_reserve_exact(count as usize).map_err(|_| Error::NoMemory)?;
        for _ in 0..count {
            all.push(self.string()?);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn sample() -> Request {
        Request {
            path: b"bin/hello".to_vec(),
            args: vec![b"hello".to_vec(), b"".to_vec(), vec![0xff, b' ']],
            env: vec![b"A=1".to_vec()],
            streams: [StreamRef { gate: 1, id: 2 }, StreamRef { gate: 3, id: 4 }, StreamRef { gate: 5, id: 6 }],
            limits: Limits { frames: 7, sections: 8, reserve: 9, threads: 10 },
            user: 11,
            payer: 13,
            names: 12,
            class: 2,
            exclusion: 14,
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        assert_eq!(Request::decode(&sample().encode()), Ok(sample()));
        assert_eq!(Request::decode(&Request::default().encode()), Ok(Request::default()));
    }

    #[test]
    fn no_prefix_and_no_extension_is_a_request() {
        let bytes = sample().encode();
        (0..bytes.len()).for_each(|n| assert_eq!(Request::decode(&bytes[..n]), Err(Error::BadArgument)));
        let mut longer = bytes;
        longer.push(0);
        assert_eq!(Request::decode(&longer), Err(Error::BadArgument));
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        let bytes = sample().encode();
        for at in (120..bytes.len() - 8).step_by(1) {
            let mut wrong = bytes.clone();
            wrong[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
            let _ = Request::decode(&wrong);
        }
    }
}
