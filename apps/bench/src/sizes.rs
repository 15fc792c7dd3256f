//! The paper's four patterns over sizes of data (CUBIX-25, 29): what is passed by address costs the same however long it is.

use crate::report::{Case, Report};
use crate::rounds::{Plan, Rounds};
use crate::server;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use musubi::abi::gate::grade;
use musubi::abi::rights::principal;
use musubi::abi::section::kind;
use musubi::interfaces::measure::MeasureClient;
use musubi::rt::{Copied, Section, section, thread};
use musubi::{AclEntry, Error, Rights};

pub const SIZES: [usize; 5] = [64, 2 << 10, 4 << 10, PAPERS, LONGEST];
/// Of the paper's the longest.
const PAPERS: usize = 8 << 10;
pub const LONGEST: usize = 1 << 20;
const ROUNDS: usize = 300;

/// What is called, beside NullProc.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    ArgNoRtn,
    ArgRtnNoCopy,
    ArgRtnCopy,
}

pub use Pattern::{ArgNoRtn, ArgRtnCopy, ArgRtnNoCopy};

impl Pattern {
    pub fn name(self) -> &'static str {
        match self {
            ArgNoRtn => "ArgNoRtn",
            ArgRtnNoCopy => "ArgRtn_NoCopy",
            ArgRtnCopy => "ArgRtn_Copy",
        }
    }

    /// Whether that is the result that it gives for these data.
    pub fn is_right(self, data: &[u8], result: &[u8]) -> bool {
        match self {
            ArgNoRtn => true,
            ArgRtnNoCopy => result.iter().all(|byte| *byte == server::PREPARED),
            ArgRtnCopy => result == data,
        }
    }
}

/// Data that are passed.
pub fn fill(data: &mut [u8]) {
    data.iter_mut().zip(0..).for_each(|(byte, n): (&mut u8, u64)| *byte = n.to_le_bytes()[0] ^ n.to_le_bytes()[1]);
}

pub fn run(report: &Report) -> Result<(), String> {
    for (grade, way, copying) in [(grade::EPC_H, "epc-h", "epc-h-copied"), (grade::EPC_S, "epc-s", "epc-s-copied")] {
        server::with(|gate| lent(report, gate, grade, way).map_err(|e| format!("{way}: {e}")))?;
        server::with(|gate| copied(report, gate, grade, copying).map_err(|e| format!("{copying}: {e}")))?;
    }
    server::with(|gate| shared(report, gate).map_err(|e| format!("plain: {e}")))
}

/// A client of a grade, where the machine has it.
fn bind(gate: u64, grade: u64) -> Result<Option<MeasureClient>, Error> {
    match MeasureClient::bind_as(gate, 2 * LONGEST as u64, grade) {
        Err(Error::NotSupported) => Ok(None),
        bound => bound.map(Some),
    }
}

/// A bound call, and data in the section of the binding.
fn lent(report: &Report, gate: u64, grade: u64, way: &str) -> Result<(), Error> {
    let Some(client) = bind(gate, grade)? else { return Ok(()) };
    let (mut data, mut result) = (client.alloc(LONGEST)?, client.alloc(LONGEST)?);
    let bench = Way { report, way, client: &client, asked: &client, rounds: ROUNDS };
    bench.null()?;
    bench.patterns(&[ArgNoRtn, ArgRtnNoCopy, ArgRtnCopy], &mut data, &mut result)
}

/// A bound call, and data that lie elsewhere: the stub copies them there and back.
fn copied(report: &Report, gate: u64, grade: u64, way: &str) -> Result<(), Error> {
    let Some(client) = bind(gate, grade)? else { return Ok(()) };
    let (mut data, mut result) = (vec![0; LONGEST], vec![0; LONGEST]);
    let bench = Way { report, way, client: &client, asked: &client, rounds: ROUNDS };
    bench.patterns(&[ArgNoRtn, ArgRtnCopy], &mut data, &mut result)
}

/// A plain call, and data in sections that the server was given the right to.
fn shared(report: &Report, gate: u64) -> Result<(), Error> {
    let (mut data, mut result) = (share(gate, LONGEST)?, share(gate, LONGEST)?);
    let client = MeasureClient::plain(gate);
    let bench = Way { report, way: "plain", client: &client, asked: &client, rounds: ROUNDS };
    bench.null()?;
    bench.patterns(&[ArgNoRtn, ArgRtnNoCopy, ArgRtnCopy], data.bytes_mut(), result.bytes_mut())?;
    data.delete()?;
    result.delete()
}

/// Nothing, and the copy of the paper's longest data, by a bound call.
pub fn shortly(report: &Report, gate: u64, grade: u64, way: &str) -> Result<(), Error> {
    let Some(client) = bind(gate, grade)? else { return Ok(()) };
    let (mut data, mut result) = (client.alloc(LONGEST)?, client.alloc(LONGEST)?);
    let bench = Way { report, way, client: &client, asked: &client, rounds: ROUNDS };
    bench.null()?;
    bench.pattern(ArgRtnCopy, &mut data[..PAPERS], &mut result[..PAPERS])
}

/// The same by a plain call.
pub fn plainly(report: &Report, gate: u64, way: &str) -> Result<(), Error> {
    let (mut data, mut result) = (share(gate, LONGEST)?, share(gate, LONGEST)?);
    let client = MeasureClient::plain(gate);
    let bench = Way { report, way, client: &client, asked: &client, rounds: ROUNDS };
    bench.null()?;
    bench.pattern(ArgRtnCopy, &mut data.bytes_mut()[..PAPERS], &mut result.bytes_mut()[..PAPERS])?;
    data.delete()?;
    result.delete()
}

/// A section that the text with this gate may read and write.
pub fn share(gate: u64, bytes: usize) -> Result<Section, Error> {
    let rights = Rights::READ | Rights::WRITE;
    let text = section::info(gate)?.base;
    let section = Section::create(bytes as u64, 0, kind::DATA, 0)?;
    section::grant(section.base(), &AclEntry { principal: principal::ANY, rights: rights.bits(), id: 0, text })?;
    Ok(section)
}

/// One way of calling.
pub struct Way<'a> {
    pub report: &'a Report,
    pub way: &'a str,
    pub client: &'a MeasureClient,
    /// Who is asked how much was copied: the same, or another client where asking would itself be counted.
    pub asked: &'a MeasureClient,
    pub rounds: usize,
}

impl Way<'_> {
    pub fn null(&self) -> Result<(), Error> {
        self.measure("NullProc", 0, || self.client.null())
    }

    pub fn patterns(&self, patterns: &[Pattern], data: &mut [u8], result: &mut [u8]) -> Result<(), Error> {
        for pattern in patterns {
            for bytes in SIZES {
                self.pattern(*pattern, &mut data[..bytes], &mut result[..bytes])?;
            }
        }
        Ok(())
    }

    fn pattern(&self, pattern: Pattern, data: &mut [u8], result: &mut [u8]) -> Result<(), Error> {
        let (client, name, bytes) = (self.client, pattern.name(), data.len());
        fill(data);
        result.fill(0);
        match pattern {
            ArgNoRtn => return self.measure(name, bytes, || client.take(data)),
            ArgRtnNoCopy => {
                client.prepare(result)?;
                self.measure(name, bytes, || client.answer(data, result).inspect(|()| server::look(result)))?;
            }
            ArgRtnCopy => {
                self.measure(name, bytes, || client.copy(data, result).inspect(|()| server::look(result)))?;
            }
        }
        if pattern.is_right(data, result) { Ok(()) } else { Err(Error::Changed) }
    }

    pub fn measure(&self, case: &str, bytes: usize, what: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
        let rounds = self.rounds(bytes, || (), what)?;
        self.report.case(Case { case, way: self.way, bytes }, &rounds, &[]);
        Ok(())
    }

    /// The same for `calls` calls that are under way together.
    pub fn measure_posted(
        &self,
        case: &str,
        bytes: usize,
        calls: u64,
        what: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        // By two levels of schedulers whoever serves them has begun to wait by then, or not, as it happens, and that for many rounds: here it has.
        let settle = || {
            if self.way == "itc-initial" {
                thread::yield_now()
            }
        };
        let rounds = self.rounds(bytes, settle, what)?;
        self.report.posted(Case { case: &format!("{case}-async"), way: self.way, bytes }, &rounds, calls);
        Ok(())
    }

    fn rounds(
        &self,
        bytes: usize,
        settle: impl Fn(),
        mut what: impl FnMut() -> Result<(), Error>,
    ) -> Result<Rounds, Error> {
        let copied = || {
            let Copied { times, bytes } = self.client.bound().copied();
            let [by_server, bytes_by_server] = [self.asked.copies(), self.asked.copied()].map(|n| n.unwrap_or(0));
            Copied { times: times + by_server, bytes: bytes + bytes_by_server }
        };
        let mut outcome = Ok(());
        let rounds = if bytes < LONGEST { self.rounds } else { self.report.enough(self.rounds / 10) };
        // One call that does not count: after the kernel was asked for its counters, a scheduler's short way begins with a long one.
        let first = || {
            let _ = self.client.null();
            settle();
        };
        let rounds = Plan::copying(rounds, &copied).first(&first).measure(|| {
            if let Err(error) = what() {
                outcome = Err(error);
            }
        });
        outcome.map(|()| rounds)
    }
}
