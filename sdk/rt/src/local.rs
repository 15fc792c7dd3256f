//! Statics of which each thread of a program has its own.

use abi::Error;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::any::Any;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::sync::{Mutex, me};
use crate::{start, task};

/// By the address of what they are a thread's values of.
type Values = BTreeMap<usize, Arc<dyn Any + Send + Sync>>;

/// By the granule of the thread's stack, which it has to itself.
static THREADS: Mutex<BTreeMap<u32, Values>> = Mutex::new(BTreeMap::new());
/// There have ever been any: who uses none takes no lock for them.
static ANY: AtomicBool = AtomicBool::new(false);

/// A static of which each thread of the program has its own.
///
/// ```ignore
/// static DEPTH: Local<AtomicU64> = Local::new(AtomicU64::default);
/// DEPTH.with(|depth| depth.fetch_add(1, Ordering::Relaxed))?;
/// ```
#[derive(Debug)]
pub struct Local<T: 'static> {
    begins: fn() -> T,
    /// So that each has an address of its own.
    _place: u8,
}

impl<T: Any + Send + Sync> Local<T> {
    /// With what it begins in each thread.
    #[must_use]
    pub const fn new(begins: fn() -> T) -> Local<T> {
        Local { begins, _place: 0 }
    }

    /// Uses the calling thread's value, which is made now if it has none yet. It is dropped when the thread ends by itself; not when it is
    /// killed.
    ///
    /// # Errors
    /// `NotSupported`: the thread is a caller's from another program, whose end this one does not hear of.
    pub fn with<R>(&'static self, what: impl FnOnce(&T) -> R) -> Result<R, Error> {
        let (me, key) = (me(), core::ptr::from_ref(self) as usize);
        let known = THREADS.lock().get(&me).and_then(|values| values.get(&key).cloned());
        let value = match known {
            Some(value) => value,
            None if task::identity().task != start().task() => return Err(Error::NotSupported),
            None => {
                let made: Arc<dyn Any + Send + Sync> = Arc::new((self.begins)());
                ANY.store(true, Ordering::Relaxed);
                THREADS.lock().entry(me).or_default().insert(key, made.clone());
                made
            }
        };
        Ok(what(value.downcast_ref().ok_or(Error::BadArgument)?))
    }
}

/// The calling thread ends: its values are dropped.
pub(crate) fn end() {
    if ANY.load(Ordering::Relaxed) {
        let values = THREADS.lock().remove(&me());
        // Not with the lock in hand.
        drop(values);
    }
}
