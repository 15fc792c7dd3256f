//! Doing what may fault, and getting an error if it does: the body runs as a call into this program's own text, and a
//! fault in a call ends the call (invariant 21). For memory that somebody else may take away at any time.

use abi::rights::principal;
use abi::{AclEntry, Error, Rights};
use core::mem::MaybeUninit;

use crate::gate::{Skeleton, Values};
use crate::sync::Once;
use crate::{Bound, Caller, Gates};

static BOUND: Once<Bound> = Once::new();

struct Guard;

impl Skeleton for Guard {
    fn dispatch(&self, caller: &Caller, _: u64, words: &[u64; 6]) -> Values {
        // Others may call this text's gates, too; what they say is no address to go to.
        if caller.text != crate::start().text() || words[0] == 0 {
            return Values::of(Err(Error::Denied));
        }
        // SAFETY: this text has called, and the only place where it does so is `run`, which gives a function and what that
        // expects, borrowed until the call has returned.
        unsafe {
            let enter: unsafe fn(*mut ()) = core::mem::transmute(words[0] as usize);
            enter(words[1] as *mut ());
        }
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

fn bind() -> Result<Bound, Error> {
    let text = crate::start().text();
    let gates = Gates::export(Guard, 1)?;
    // On whatever thread, as the text's other rights on itself: an entry of these words replaces theirs.
    let own = AclEntry { principal: principal::ANY, rights: 0, id: 0, text };
    let is_own = |entry: &AclEntry| (entry.principal, entry.id, entry.text) == (own.principal, own.id, own.text);
    let had = crate::section::acl(text)?.into_iter().find(is_own).map_or(0, |entry| entry.rights);
    gates.admit(&AclEntry { rights: had | Rights::CALL.bits(), ..own })?;
    Bound::bind_as(gates.address(), 0, abi::gate::grade::EPC_S)
}

/// A body and the room for its value.
struct Job<F, T> {
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
    let mut job = Job { body: MaybeUninit::new(body), value: MaybeUninit::<T>::uninit() };
    let words = [enter::<F, T> as *const () as u64, core::ptr::from_mut(&mut job) as u64, 0, 0, 0, 0];
    // A call that is not made leaves the body undropped: leaking is safe.
    crate::bound::result_of(bound.call(0, words)?)?;
    // SAFETY: the call has gone well, so `enter` has come to its end and has written the value.
    Ok(unsafe { job.value.assume_init() })
}
