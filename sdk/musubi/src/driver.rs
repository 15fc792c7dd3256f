//! Drivers in two parts (CUBIX-U10, SSS-28, 29): what must be done at once runs on the scheduler's own thread, by EPC and without
//! a switch; the rest on a thread of the driver's. Where no scheduler sits, or it does not call, that thread does both.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use interfaces::interrupt::{Interrupt, interrupt_serve};
use rt::abi::rights::{ANY_TEXT, principal};
use rt::abi::task::USER_SYSTEM;
use rt::gate::ANYBODY;
use rt::post::Post;
use rt::section::Ports;
use rt::{AclEntry, Error};

/// Interrupts get lost, on some chips: after this time it is looked anyway.
const LOOK_NS: u64 = 1_000_000_000;
/// After this time it is bound again.
const AGAIN_NS: u64 = 10_000_000_000;
/// If the interrupt cannot be waited for.
const POLL_NS: u64 = 50_000_000;

/// In ticks of the processor. A call of the scheduler's has ended by then, one way or the other: the kernel ends it after 9 ms at
/// the latest.
const CALL_TICKS: u64 = 1 << 30;
/// Until it is looked again while it may be under way.
const SOON_NS: u64 = 10_000_000;

/// The first part of a driver. Whether its thread is to do the second.
type First = dyn Fn() -> bool + Send + Sync;

/// Who does the first part just now: 0 nobody, [`OWN`] the driver's thread, else the scheduler, since that tick.
struct Turn(AtomicU64);

const OWN: u64 = u64::MAX;

impl Turn {
    /// Whether nobody else is at it, as far as is known: a call that began so long ago was ended in the middle.
    fn take(&self, mine: u64, now: u64) -> bool {
        let seen = self.0.load(Ordering::Relaxed);
        let free = seen == 0 || seen != OWN && now > seen.saturating_add(CALL_TICKS);
        free && self.0.compare_exchange(seen, mine, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn done(&self) {
        self.0.store(0, Ordering::Release);
    }
}

/// Bytes from the first part of a driver to the second. Whole at every instant: the first part may be ended anywhere.
#[derive(Debug)]
pub struct Bytes<const N: usize> {
    bytes: [AtomicU8; N],
    put: AtomicUsize,
    taken: AtomicUsize,
}

impl<const N: usize> Bytes<N> {
    #[must_use]
    pub const fn new() -> Bytes<N> {
        Bytes { bytes: [const { AtomicU8::new(0) }; N], put: AtomicUsize::new(0), taken: AtomicUsize::new(0) }
    }

    /// First part: whether there is room.
    pub fn has_room(&self) -> bool {
        self.put.load(Ordering::Relaxed).wrapping_sub(self.taken.load(Ordering::Acquire)) < N
    }

    /// First part. What has no room is lost.
    pub fn put(&self, byte: u8) {
        if self.has_room() {
            let at = self.put.load(Ordering::Relaxed);
            self.bytes[at % N].store(byte, Ordering::Relaxed);
            self.put.store(at.wrapping_add(1), Ordering::Release);
        }
    }

    /// Second part: the oldest byte.
    pub fn take(&self) -> Option<u8> {
        let at = self.taken.load(Ordering::Relaxed);
        if at == self.put.load(Ordering::Acquire) {
            return None;
        }
        let byte = self.bytes[at % N].load(Ordering::Relaxed);
        self.taken.store(at.wrapping_add(1), Ordering::Release);
        Some(byte)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.taken.load(Ordering::Relaxed) == self.put.load(Ordering::Acquire)
    }
}

impl<const N: usize> Default for Bytes<N> {
    fn default() -> Self {
        Bytes::new()
    }
}

/// Operation of the message that an interrupt is.
pub const ARRIVED: u32 = 1;

/// A device's interrupts as messages, at a post of their own.
#[derive(Clone, Copy, Debug)]
pub struct Arrivals(Post);

impl Arrivals {
    /// # Errors
    /// `Busy` while another program that lives has them; what the kernel answers.
    pub fn of(ports: Ports) -> Result<Arrivals, Error> {
        let post = Post::any()?;
        ports.interrupt_to(Some(post), ARRIVED).inspect_err(|_| {
            let _ = post.free(true);
        })?;
        Ok(Arrivals(post))
    }

    /// How many have come since the last time, waiting at most so long for one; 0: none has.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn wait(self, timeout_ns: u64) -> Result<u64, Error> {
        match self.0.receive(timeout_ns) {
            Ok(message) => Ok(message.words[0]),
            Err(Error::TimedOut) => Ok(0),
            Err(error) => Err(error),
        }
    }
}

/// A device's interrupt, and what is done at once when it comes.
pub struct Driver {
    ports: Ports,
    first: Box<First>,
    turn: Turn,
    gate: AtomicU64,
    /// When it was last bound, in ns; 0: it is not to be.
    bound: AtomicU64,
    called: AtomicU64,
    woken: AtomicU64,
}

impl core::fmt::Debug for Driver {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Driver").field("ports", &self.ports).finish_non_exhaustive()
    }
}

impl Interrupt for Driver {
    fn arrived(&self, section: u64) -> Result<bool, Error> {
        self.called.fetch_add(1, Ordering::Relaxed);
        if section != self.ports.0 {
            return Err(Error::BadArgument);
        }
        let now = rt::time::ticks().max(1);
        if !self.turn.take(now, now) {
            return Err(Error::Busy);
        }
        let more = (self.first)();
        self.turn.done();
        Ok(more)
    }
}

impl Driver {
    /// `first` is done by one thread at a time, and perhaps though nothing has come. It must not wait, and takes no lock: it may be
    /// ended anywhere if it takes too long ([`Bytes`] bears that). Interrupts are heard by EPC from now on.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn begin(ports: Ports, first: impl Fn() -> bool + Send + Sync + 'static) -> Result<&'static Driver, Error> {
        let first = Box::new(first);
        let [gate, bound, called, woken] = [const { AtomicU64::new(0) }; 4];
        let driver: &'static Driver =
            Box::leak(Box::new(Driver { ports, first, turn: Turn(AtomicU64::new(0)), gate, bound, called, woken }));
        // Schedulers are the system's. (The text's list may let anybody call its other gates.)
        let gates = interrupt_serve(driver)?;
        gates.admit(&AclEntry { principal: principal::USER, id: USER_SYSTEM, text: ANY_TEXT, ..ANYBODY })?;
        driver.gate.store(gates.address(), Ordering::Relaxed);
        driver.hear(true)?;
        Ok(driver)
    }

    /// Whether the scheduler calls the first part, or only wakes the thread.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn hear(&self, by_call: bool) -> Result<(), Error> {
        self.bound.store(if by_call { rt::time::now_ns().max(1) } else { 0 }, Ordering::Relaxed);
        self.ports.bind_interrupt(if by_call { self.gate.load(Ordering::Relaxed) } else { 0 })
    }

    /// The thread's life: `rest` is done when there may be something to do.
    pub fn run(&self, mut rest: impl FnMut()) -> ! {
        let mut arrivals = Arrivals::of(self.ports);
        loop {
            self.woken.fetch_add(1, Ordering::Relaxed);
            let more = if self.turn.take(OWN, rt::time::ticks()) {
                let more = (self.first)();
                self.turn.done();
                more
            } else {
                // It is being called, or that has just ended in the middle.
                rt::time::sleep_ns(SOON_NS);
                true
            };
            rest();
            let bound = self.bound.load(Ordering::Relaxed);
            if bound != 0 && rt::time::now_ns() > bound.saturating_add(AGAIN_NS) {
                // A scheduler gives up a handler that takes too long; on a machine that was busy, that is over now.
                let _ = self.hear(true);
            }
            if more {
                // There may not have been room for everything, and no other interrupt comes for what is left.
                continue;
            }
            if arrivals.and_then(|arrivals| arrivals.wait(LOOK_NS)).is_err() {
                rt::time::sleep_ns(POLL_NS);
                arrivals = Arrivals::of(self.ports);
            }
        }
    }

    /// How often the scheduler has called, and how often the thread has looked.
    pub fn counts(&self) -> (u64, u64) {
        (self.called.load(Ordering::Relaxed), self.woken.load(Ordering::Relaxed))
    }
}
