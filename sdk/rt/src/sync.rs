//! Locks that many threads in one text share. A waiter spins for a moment and then gives up the processor: whoever
//! holds the lock may be running now, or may not run before somebody else stops.

use abi::Error;
use abi::calls::stub;
use abi::layout::GRANULE;
use abi::sched::op;
use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::Trap;

const FREE: u32 = 0;
/// Somebody may be waiting.
const AWAITED: u32 = 1 << 31;
const SPINS: u32 = 100;
/// After so long a waiter looks again for what the holder does, and each time after twice as long up to the second.
const LOOK_NS: u64 = 2_000_000;
const LOOK_MAX_NS: u64 = 500_000_000;

/// The lock under [`Mutex`], a word that names its holder (pitfall H13): by the granule in which the thread has its stack for this
/// text, which it has to itself and which goes with it.
#[derive(Debug)]
pub struct RawLock(AtomicU32);

const _: () = assert!(abi::layout::SPACE_END / GRANULE < AWAITED as u64 && abi::task::STACK_MAX == GRANULE);

/// Who executes this.
#[inline(always)]
pub(crate) fn me() -> u32 {
    let sp: u64;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a register.
    unsafe {
        core::arch::asm!("mov {}, rsp", out(reg) sp, options(pure, nomem, nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        sp = ptr::from_ref(&FREE) as u64;
    }
    (sp / GRANULE) as u32
}

// SAFETY: only the thread that changed the word from FREE to another value holds the lock, and only `unlock` makes it
// FREE again.
unsafe impl lock_api::RawMutex for RawLock {
    const INIT: RawLock = RawLock(AtomicU32::new(FREE));
    /// The word names the thread that has taken it.
    type GuardMarker = lock_api::GuardNoSend;

    #[inline]
    fn lock(&self) {
        let me = me();
        if self.0.compare_exchange(FREE, me, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.lock_slowly(me);
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.0.compare_exchange(FREE, me(), Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// # Safety
    /// The calling thread holds the lock.
    #[inline]
    unsafe fn unlock(&self) {
        if self.0.swap(FREE, Ordering::Release) & AWAITED != 0 && stub::wake(&Trap, self.0.as_ptr() as u64, 1) == Ok(0)
        {
            // Whoever waits has lent its turn, and is ready: without this its holder could take the lock again and again.
            let _ = stub::yield_now(&Trap);
        }
    }
}

impl RawLock {
    #[cold]
    fn lock_slowly(&self, me: u32) {
        for _ in 0..SPINS {
            if self.0.load(Ordering::Relaxed) == FREE
                && self.0.compare_exchange(FREE, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return;
            }
            core::hint::spin_loop();
        }
        // Who has waited does not know whether others do.
        let (mut taken, mut patience) = (me, LOOK_NS);
        loop {
            let now = self.0.load(Ordering::Relaxed);
            if now == FREE {
                if self.0.compare_exchange(FREE, taken, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return;
                }
                continue;
            }
            let wanted = now | AWAITED;
            if now != wanted && self.0.compare_exchange(now, wanted, Ordering::Relaxed, Ordering::Relaxed).is_err() {
                continue;
            }
            taken = me | AWAITED;
            if self.lend(wanted, me) {
                patience = LOOK_NS;
                continue;
            }
            match wait(&self.0, wanted, patience) {
                Err(Error::TimedOut) => patience = (2 * patience).min(LOOK_MAX_NS),
                // A killed thread is not put to sleep any more but must still get its lock, to leave the data whole.
                Err(Error::Killed) => {
                    let _ = stub::yield_now(&Trap);
                }
                _ => {}
            }
        }
    }

    /// The holder runs on this thread's turn (pitfall H13), if it could run and does not. Whether that was so. A thread that was killed, or
    /// whose call was unwound, gives its lock to nobody, and what the lock guards may be half done: better no program than one that
    /// stands still, or goes on with that.
    fn lend(&self, held: u32, me: u32) -> bool {
        let holder = held & !AWAITED;
        assert!(holder != me, "this thread holds that lock already, or has left in the middle of what the lock guards");
        let answer = stub::call_scheduler(&Trap, op::LEND, u64::from(holder) * GRANULE, 0);
        // Its last act may have been to let go.
        if answer == Err(Error::NotFound) && self.0.load(Ordering::Relaxed) == held {
            panic!("who held a lock has left in the middle (killed?): what the lock guards may be torn");
        }
        answer == Ok(1)
    }
}

/// Mutual exclusion of threads in one text. Who takes it lets go of it, on the same thread and in the same call.
pub type Mutex<T> = lock_api::Mutex<RawLock, T>;
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawLock, T>;

/// Sleeps while `word` holds `expected`, until somebody wakes it or the time is over.
///
/// # Errors
/// `Changed` if it held something else, `TimedOut`; `Killed` and `Dead` as of [`Condition::wait`].
pub fn wait(word: &AtomicU32, expected: u32, timeout_ns: u64) -> Result<(), Error> {
    stub::wait(&Trap, word.as_ptr() as u64, u64::from(expected), timeout_ns).map(|_| ())
}

/// Wakes up to `count` threads that wait on `word`.
pub fn wake(word: &AtomicU32, count: u64) {
    let _ = stub::wake(&Trap, word.as_ptr() as u64, count);
}

/// Something to wait for that a [`Mutex`] guards.
#[derive(Debug, Default)]
pub struct Condition(AtomicU32);

impl Condition {
    #[must_use]
    pub const fn new() -> Condition {
        Condition(AtomicU32::new(0))
    }

    /// Lets go of the lock, waits for a notification, takes the lock again. May return without a notification: check
    /// again what is waited for.
    ///
    /// # Errors
    /// `TimedOut`; `Killed` when the thread is to end, and `Dead` when nobody waits any more for the call that it is in: leave what it was
    /// doing.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, timeout_ns: u64) -> Result<(), Error> {
        let seen = self.0.load(Ordering::Acquire);
        let outcome = MutexGuard::unlocked(guard, || wait(&self.0, seen, timeout_ns));
        match outcome {
            Err(e @ (Error::TimedOut | Error::Killed | Error::Dead)) => Err(e),
            _ => Ok(()),
        }
    }

    pub fn notify_one(&self) {
        self.0.fetch_add(1, Ordering::Release);
        wake(&self.0, 1);
    }

    pub fn notify_all(&self) {
        self.0.fetch_add(1, Ordering::Release);
        wake(&self.0, u64::MAX);
    }
}

/// A wish that somebody ends, shared with whoever it is wished of: who sees it puts his things in order and returns.
#[derive(Debug, Default)]
pub struct Cancel(AtomicU32);

impl Cancel {
    #[must_use]
    pub const fn new() -> Cancel {
        Cancel(AtomicU32::new(0))
    }

    /// From now on it is wished.
    pub fn cancel(&self) {
        self.0.store(1, Ordering::Release);
        wake(&self.0, u64::MAX);
    }

    #[must_use]
    pub fn is_wished(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    /// Sleeps for `ns` nanoseconds, or until it is wished. Whether it is.
    ///
    /// # Errors
    /// `Killed`, `Dead`.
    pub fn rest(&self, ns: u64) -> Result<bool, Error> {
        match wait(&self.0, 0, ns) {
            Err(e @ (Error::Killed | Error::Dead)) => Err(e),
            _ => Ok(self.is_wished()),
        }
    }
}

/// Where so many threads wait for each other, round after round.
#[derive(Debug)]
pub struct Barrier {
    count: u32,
    /// Who waits in this round, and which one it is.
    state: Mutex<(u32, u32)>,
    all: Condition,
}

impl Barrier {
    /// For `count` threads (0 counts as 1).
    #[must_use]
    pub const fn new(count: u32) -> Barrier {
        Barrier { count, state: Mutex::new((0, 0)), all: Condition::new() }
    }

    /// Waits until as many have come. One of them in each round gets `true`.
    ///
    /// # Errors
    /// `Killed`, `Dead` as of [`Condition::wait`]: it does not count as having come.
    pub fn wait(&self) -> Result<bool, Error> {
        let mut state = self.state.lock();
        let round = state.1;
        state.0 += 1;
        if state.0 >= self.count {
            *state = (0, round.wrapping_add(1));
            self.all.notify_all();
            return Ok(true);
        }
        while state.1 == round {
            if let Err(error) = self.all.wait(&mut state, u64::MAX)
                && state.1 == round
            {
                state.0 -= 1;
                return Err(error);
            }
        }
        Ok(false)
    }
}

/// A place for a value that lives for ever, and may be exchanged for another one: looked at without a lock.
pub struct Place<T: 'static>(AtomicPtr<T>, PhantomData<&'static T>);

impl<T: 'static> Default for Place<T> {
    fn default() -> Self {
        Place::new()
    }
}

impl<T: 'static> Place<T> {
    #[must_use]
    pub const fn new() -> Place<T> {
        Place(AtomicPtr::new(ptr::null_mut()), PhantomData)
    }

    #[inline]
    pub fn get(&self) -> Option<&'static T> {
        // SAFETY: null, or made from a reference that lives for ever (`set`).
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    pub fn set(&self, value: Option<&'static T>) {
        self.0.store(value.map_or(ptr::null_mut(), |value| ptr::from_ref(value).cast_mut()), Ordering::Release);
    }
}

/// A value made by the first who asks.
pub struct Once<T: 'static> {
    value: Place<T>,
    making: Mutex<()>,
}

impl<T: 'static> Default for Once<T> {
    fn default() -> Self {
        Once::new()
    }
}

impl<T: 'static> Once<T> {
    #[must_use]
    pub const fn new() -> Once<T> {
        Once { value: Place::new(), making: Mutex::new(()) }
    }

    /// The value, if it was made.
    #[inline]
    pub fn get(&self) -> Option<&'static T> {
        self.value.get()
    }

    /// The value; `make` is called, at most once with success, if there is none.
    ///
    /// # Errors
    /// What `make` fails with; the next call tries again.
    #[inline]
    pub fn get_or_try<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&'static T, E> {
        match self.get() {
            Some(made) => Ok(made),
            None => self.make(make),
        }
    }

    #[cold]
    fn make<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&'static T, E> {
        let _making = self.making.lock();
        if let Some(made) = self.get() {
            return Ok(made);
        }
        let made: &'static T = alloc::boxed::Box::leak(alloc::boxed::Box::new(make()?));
        self.value.set(Some(made));
        Ok(made)
    }
}
