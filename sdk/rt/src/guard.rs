//! Doing what may fault, and getting an error if it does: the body runs as a call into this program's own text, and a
//! fault in a call ends the call (invariant 21). For memory that somebody else may take away at any time.

use abi::rights::principal;
use abi::{AclEntry, Error, Rights};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::gate::{Skeleton, Values};
use crate::sync::Once;
use crate::{Bound, Caller, Gates};

static BOUND: Once<Bound> = Once::new();
/// Where its gate lies.
static GATE: AtomicU64 = AtomicU64::new(0);
/// What a job is sealed with. Others may have this program itself call its own gates, where they say what it calls: they do not know this.
static SECRET: Once<u64> = Once::new();

fn secret() -> u64 {
    let drawn = || {
        let mut bytes = [0; 8];
        crate::random::fill(&mut bytes);
        Ok::<u64, Error>(u64::from_le_bytes(bytes))
    };
    SECRET.get_or_try(drawn).copied().unwrap_or_default()
}

struct Guard;

impl Skeleton for Guard {
    fn dispatch(&self, caller: &Caller, _: u64, words: &[u64; 6]) -> Values {
        let at = words[0];
        if caller.text != crate::start().text() || at == 0 || !at.is_multiple_of(align_of::<Head>() as u64) {
            return Values::of(Err(Error::Denied));
        }
        // SAFETY: a word is read, whatever lies there: if nothing does, this call ends. What has the seal is a head that `run` has made, in a call that
        // is under way; the seal goes with the first one who comes.
        let head = unsafe { &*(at as *const Head) };
        let sealed = at ^ secret();
        let is_taken = || head.seal.compare_exchange(sealed, 0, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        if head.seal.load(Ordering::SeqCst) != sealed || !is_taken() {
            return Values::of(Err(Error::Denied));
        }
        // SAFETY: it stands at the beginning of the job that `run` has made it for, borrowed until the call has returned.
        unsafe { (head.enter)(at as *mut ()) };
        Values(0, 0)
    }
}

/// Makes the gate, on a thread of this program's own task. [`run`] does so, too, when it is called first.
///
/// # Errors
/// What the kernel answers.
pub fn prepare() -> Result<(), Error> {
    BOUND.get_or_try(bind).map(drop)
}

/// Where its gate lies; 0: there is none yet. Who calls there is refused.
#[must_use]
pub fn gate() -> u64 {
    GATE.load(Ordering::SeqCst)
}

fn bind() -> Result<Bound, Error> {
    let text = crate::start().text();
    let gates = Gates::export(Guard, 1)?;
    GATE.store(gates.address(), Ordering::SeqCst);
    // On whatever thread, as the text's other rights on itself: an entry of these words replaces theirs.
    let own = AclEntry { principal: principal::ANY, rights: 0, id: 0, text };
    let is_own = |entry: &AclEntry| (entry.principal, entry.id, entry.text) == (own.principal, own.id, own.text);
    let had = crate::section::acl(text)?.into_iter().find(is_own).map_or(0, |entry| entry.rights);
    gates.admit(&AclEntry { rights: had | Rights::CALL.bits(), ..own })?;
    Bound::bind_as(gates.address(), 0, abi::gate::grade::EPC_S)
}

/// What a job begins with.
#[repr(C)]
struct Head {
    seal: AtomicU64,
    enter: unsafe fn(*mut ()),
}

/// A body and the room for its value.
#[repr(C)]
struct Job<F, T> {
    head: Head,
    body: MaybeUninit<F>,
    value: MaybeUninit<T>,
}

/// # Safety
/// `job` is a `Job<F, T>` with a body, and nobody else uses it.
unsafe fn enter<F: FnOnce() -> T, T>(job: *mut ()) {
    // SAFETY: the caller says so.
    unsafe {
        let job = &mut *job.cast::<Job<F, T>>();
        let body = job.body.assume_init_read();
        job.value.write(body());
    }
}

/// Runs `body`; if it faults, what it had begun stays as it is (locks stay locked, nothing is dropped).
///
/// # Errors
/// `Faulted`; `NoMemory`, also where there is none for a page that it stores to; what the kernel answers to the call.
pub fn run<F: FnOnce() -> T, T>(body: F) -> Result<T, Error> {
    let bound = BOUND.get_or_try(bind)?;
    let head = Head { seal: AtomicU64::new(0), enter: enter::<F, T> };
    let mut job = Job { head, body: MaybeUninit::new(body), value: MaybeUninit::<T>::uninit() };
    let at = core::ptr::from_mut(&mut job) as u64;
    // SAFETY: nobody else has it yet.
    unsafe { (*(at as *const Head)).seal.store(at ^ secret(), Ordering::SeqCst) };
    // A call that is not made leaves the body undropped: leaking is safe.
    let made = bound.call(0, [at, 0, 0, 0, 0, 0]);
    // SAFETY: the job is still there, and nobody uses it any more.
    unsafe { (*(at as *const Head)).seal.store(0, Ordering::SeqCst) };
    crate::bound::result_of(made?)?;
    // SAFETY: the call has gone well, so `enter` has come to its end and has written the value.
    Ok(unsafe { job.value.assume_init() })
}
