//! What a physical frame is used for, over all its mappings and writers (invariants 12 and 13).
//!
//! A writer is whoever may change the bytes: a section whose mappings are writable, a copy or a clearing by the kernel, a
//! device. An executor is a text that the frame belongs to. Each says when it begins and when it has ended, and it has
//! ended only when no processor remembers the translation. Who stores the state repeats a transition that another
//! processor got ahead of (compare and swap); the transitions themselves only compute.

use crate::summary::Summary;
use core::fmt;

/// The state of one frame, in 32 bits of which all zero means plain.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Clearance(u32);

/// The same, spelled out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Neither written nor executed.
    Plain,
    /// Written by so many, one at least. Nobody may execute it.
    Writable {
        /// How many.
        writers: u32,
    },
    /// Executed by so many, one at least. Nobody may write it, so a scan stays true.
    Executable {
        /// How many.
        executors: u32,
        /// What the scan found, if there was one.
        scan: Option<Summary>,
    },
}

/// Why a transition is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It would be executable while so many may write it.
    Written(u32),
    /// It would be writable while so many may execute it.
    Executed(u32),
    /// Somebody ends what nobody has begun.
    NotBegun,
    /// It is scanned again and the bytes have changed: somebody writes without saying so.
    Changed,
    /// More than can be counted.
    TooMany,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Written(writers) => write!(f, "{writers} may write the page, so it cannot become executable"),
            Refusal::Executed(executors) => write!(f, "{executors} may execute the page, so it cannot become writable"),
            Refusal::NotBegun => f.write_str("the end of a use of the page that has not begun"),
            Refusal::Changed => f.write_str("an executable page has changed since it was scanned"),
            Refusal::TooMany => write!(f, "the page is in use {COUNT_MAX} times already"),
        }
    }
}

// Bits 0 to 21: the count. 22 to 29: the scan, with a bit that says that there was one. 30 and 31: the role.
const COUNT_MAX: u32 = (1 << 22) - 1;
const SCAN: u32 = 22;
const SCANNED: u32 = 1 << 7;
const ROLE: u32 = 30;
const WRITABLE: u32 = 1;
const EXECUTABLE: u32 = 2;

impl Clearance {
    /// Neither written nor executed.
    pub const PLAIN: Clearance = Clearance(0);

    /// What it is used for.
    pub fn state(self) -> State {
        let count = self.0 & COUNT_MAX;
        let scan = self.0 >> SCAN & 0xff;
        match self.0 >> ROLE {
            WRITABLE => State::Writable { writers: count },
            EXECUTABLE => {
                let scan = if scan & SCANNED == 0 { None } else { Summary::from_bits((scan & !SCANNED) as u8) };
                State::Executable { executors: count, scan }
            }
            _ => State::Plain,
        }
    }

    fn of(state: State) -> Result<Clearance, Refusal> {
        let (role, count, scan) = match state {
            State::Plain | State::Writable { writers: 0 } | State::Executable { executors: 0, .. } => (0, 0, None),
            State::Writable { writers } => (WRITABLE, writers, None),
            State::Executable { executors, scan } => (EXECUTABLE, executors, scan),
        };
        if count > COUNT_MAX {
            return Err(Refusal::TooMany);
        }
        let scan = scan.map_or(0, |scan| SCANNED | u32::from(scan.bits()));
        Ok(Clearance(role << ROLE | scan << SCAN | count))
    }

    /// For storing it.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// What [`bits`](Self::bits) gave; `None` of anything else.
    pub fn from_bits(bits: u32) -> Option<Clearance> {
        Clearance::of(Clearance(bits).state()).ok().filter(|known| known.0 == bits)
    }

    /// One more may write.
    ///
    /// # Errors
    /// Somebody executes it, or too many write.
    pub fn begin_write(self) -> Result<Clearance, Refusal> {
        match self.state() {
            State::Plain => Clearance::of(State::Writable { writers: 1 }),
            State::Writable { writers } => Clearance::of(State::Writable { writers: writers + 1 }),
            State::Executable { executors, .. } => Err(Refusal::Executed(executors)),
        }
    }

    /// One who might write cannot any more, on any processor.
    ///
    /// # Errors
    /// There was none.
    pub fn end_write(self) -> Result<Clearance, Refusal> {
        match self.state() {
            State::Writable { writers } => Clearance::of(State::Writable { writers: writers - 1 }),
            _ => Err(Refusal::NotBegun),
        }
    }

    /// One more executes. From now on the bytes do not change: now they can be scanned, if they are not yet.
    ///
    /// # Errors
    /// Somebody may write it, or too many execute it.
    pub fn begin_execute(self) -> Result<Clearance, Refusal> {
        match self.state() {
            State::Plain => Clearance::of(State::Executable { executors: 1, scan: None }),
            State::Writable { writers } => Err(Refusal::Written(writers)),
            State::Executable { executors, scan } => {
                Clearance::of(State::Executable { executors: executors + 1, scan })
            }
        }
    }

    /// What a scan found that was begun after [`begin_execute`](Self::begin_execute).
    ///
    /// # Errors
    /// Nobody executes it, so its bytes may have changed since; or they have.
    pub fn scanned(self, found: Summary) -> Result<Clearance, Refusal> {
        match self.state() {
            State::Executable { scan: Some(before), .. } if before != found => Err(Refusal::Changed),
            State::Executable { executors, .. } => Clearance::of(State::Executable { executors, scan: Some(found) }),
            _ => Err(Refusal::NotBegun),
        }
    }

    /// One who executed it does not any more, on any processor. The last one takes the scan along.
    ///
    /// # Errors
    /// There was none.
    pub fn end_execute(self) -> Result<Clearance, Refusal> {
        match self.state() {
            State::Executable { executors, scan } => {
                Clearance::of(State::Executable { executors: executors - 1, scan })
            }
            _ => Err(Refusal::NotBegun),
        }
    }

    /// Whether it is executable and a scan has found nothing inside it. (Its borders are a matter of where it is mapped.)
    pub fn is_clear(self) -> bool {
        matches!(self.state(), State::Executable { scan: Some(scan), .. } if scan.is_clear())
    }
}

impl fmt::Debug for Clearance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state().fmt(f)
    }
}

#[cfg(test)]
mod tests;
