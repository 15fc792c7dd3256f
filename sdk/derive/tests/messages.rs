//! What a skeleton makes of messages, whatever stands in them.

use derive::interface;
use rt::gate::Skeleton;
use rt::request::{self, IDENTITIES, TAG_MAX, WATCH};
use rt::serve::served;
use rt::{Caller, Error, abi};
use std::sync::atomic::{AtomicU64, Ordering};

const METHODS: u64 = 6;

#[interface]
pub trait Every {
    fn words(&self, a: u64, b: i64, c: u32, d: i32, e: u16, f: u8) -> u64;
    fn truth(&self, yes: bool) -> bool;
    fn pair(&self, a: u64, b: i64) -> (u64, u64);
    fn bytes(&self, text: &str, read: &[u8], write: &mut [u8]) -> Result<(), Error>;
    fn arrays(&self, read: &[u8; 16], write: &mut [u8; 16]) -> Result<u64, Error>;
    fn who(&self, caller: &Caller) -> u64;
}

/// The same but for one type.
mod other {
    use rt::{Caller, Error};

    #[derive::interface]
    pub trait Every {
        fn words(&self, a: u64, b: i64, c: u32, d: i32, e: u16, f: u16) -> u64;
        fn truth(&self, yes: bool) -> bool;
        fn pair(&self, a: u64, b: i64) -> (u64, u64);
        fn bytes(&self, text: &str, read: &[u8], write: &mut [u8]) -> Result<(), Error>;
        fn arrays(&self, read: &[u8; 16], write: &mut [u8; 16]) -> Result<u64, Error>;
        fn who(&self, caller: &Caller) -> u64;
    }
}

/// Which bodies have run.
#[derive(Default)]
struct Server(AtomicU64);

impl Server {
    fn run(&self, method: u64) {
        self.0.fetch_or(1 << method, Ordering::Relaxed);
    }
}

impl Every for Server {
    fn words(&self, a: u64, b: i64, c: u32, d: i32, e: u16, f: u8) -> u64 {
        self.run(0);
        a ^ b.cast_unsigned() ^ u64::from(c) ^ i64::from(d).cast_unsigned() ^ u64::from(e) ^ u64::from(f)
    }
    fn truth(&self, yes: bool) -> bool {
        self.run(1);
        !yes
    }
    fn pair(&self, a: u64, b: i64) -> (u64, u64) {
        self.run(2);
        (b.cast_unsigned(), a)
    }
    fn bytes(&self, text: &str, read: &[u8], write: &mut [u8]) -> Result<(), Error> {
        self.run(3);
        // Nobody lends anything here: what comes through is empty.
        assert!(text.is_empty() && read.is_empty() && write.is_empty());
        Ok(())
    }
    fn arrays(&self, _: &[u8; 16], _: &mut [u8; 16]) -> Result<u64, Error> {
        unreachable!("there is no array that could be lent")
    }
    fn who(&self, caller: &Caller) -> u64 {
        self.run(5);
        caller.task
    }
}

static OBJECT: Server = Server(AtomicU64::new(0));
static SERVER: EverySkeleton<Server> = EverySkeleton(&OBJECT);

fn caller() -> Caller {
    let flags = abi::gate::record::BY_POST;
    Caller(abi::gate::Record { task: 7, flags, ..abi::gate::Record::default() })
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Of any length: most types are only parts of a word.
    fn word(&mut self) -> u64 {
        let word = self.next() >> (self.next() & 63);
        if self.next().is_multiple_of(4) { word.wrapping_neg() } else { word }
    }
}

/// What is answered, by the definition: `None` if nothing is.
fn expected(head: u32, w: &[u64; 6]) -> Option<[u64; 3]> {
    let identity = EverySkeleton::<Server>::IDENTITY;
    let (of, tag, method) = (head >> 20, head >> 8 & 0xfff, head & 0xff);
    if of != identity {
        return Some([Error::Refused.word(), 0, 0]);
    }
    if tag == WATCH {
        return None;
    }
    let refused = [0, Error::Refused.word(), 0];
    let signed = |word: u64| i64::from(word as u32 as i32).cast_unsigned() == word;
    Some(match method {
        0 if w[2] >> 32 == 0 && signed(w[3]) && w[4] >> 16 == 0 && w[5] >> 8 == 0 => {
            [0, 0, w.iter().fold(0, |all, word| all ^ word)]
        }
        1 if w[0] < 2 => [0, 0, 1 - w[0]],
        2 => [0, w[1], w[0]],
        3 if [w[1], w[3], w[5]] == [0; 3] => [0, 0, 0],
        0 | 1 | 3 | 4 => refused,
        5 => [0, 0, 7],
        _ => [Error::BadArgument.word(), 0, 0],
    })
}

#[test]
fn any_message_has_the_answer_that_it_should() {
    let identity = EverySkeleton::<Server>::IDENTITY;
    assert!((1..IDENTITIES).contains(&identity));
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let caller = caller();
    for round in 0..400_000u32 {
        let tag = if round % 50 == 0 { WATCH } else { random.next() as u32 & TAG_MAX };
        let head = match round % 4 {
            0 => random.next() as u32,
            1 => request::head(identity, tag, random.next()),
            _ => request::head(identity, tag, random.next() % (METHODS + 1)),
        };
        let mut words = [0; 6].map(|_| random.word());
        if round % 3 == 0 {
            // Empty slices, small words.
            words.iter_mut().for_each(|word| *word &= 1);
        }
        let answer = served(&SERVER, METHODS, &caller, head, &words).map(request::answer);
        assert_eq!(answer, expected(head, &words), "{head:#x} {words:x?}");
    }
    assert_eq!(OBJECT.0.load(Ordering::Relaxed), 0b10_1111, "all bodies have run but the one that cannot");
}

#[test]
fn every_head_of_32_bits_belongs_to_one_interface() {
    let identity = EverySkeleton::<Server>::IDENTITY;
    for of in 0..IDENTITIES {
        let answer = served(&SERVER, METHODS, &caller(), request::head(of, 1, 5), &[0; 6]);
        assert_eq!(answer.is_some_and(|outcome| outcome.is_ok()), of == identity, "{of:#x}");
    }
}

/// One type differs: it is another interface.
#[test]
fn what_is_declared_decides() {
    let answers = rt::Answers::new();
    assert_eq!(answers.err(), Some(Error::NotSupported), "no posts on this system");
    assert_ne!(EveryClient::IDENTITY, other::EveryClient::IDENTITY);
    assert_eq!(EveryClient::IDENTITY, EverySkeleton::<Server>::IDENTITY);
}
