//! What there is one of: the tables in which every object of this machine is found.

use crate::processor::Processor;
use crate::promise;
use crate::section::Section;
use crate::task::Task;
use crate::thread::Thread;
use abi::Error;
use abi::layout::{COMMON_LEN, GRANULE, SLICE_LEN, STACKS_LEN, slice_base};
use abi::post::POSTS_LEN;
use abi::task::USER_SYSTEM;
use ::space::{Directory, Extent, Slice};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use arch::Heap;
use arch::percpu;
use core::sync::atomic::{AtomicU64, Ordering};
use quota::Resource;
use spin::{Mutex, Once};

/// Of the addresses of stacks one in so many is the system's.
const SYSTEMS_PART: u64 = 16;
/// Behind those for everybody.
pub const SYSTEMS_LEN: u64 = SLICE_LEN - STACKS_LEN - POSTS_LEN - COMMON_LEN;

/// Objects by number. Numbers are never used again. Sharded, so that no lock is everybody's.
pub struct Table<T> {
    shards: [Mutex<BTreeMap<u64, Arc<T>>>; 16],
    next: AtomicU64,
}

impl<T> Table<T> {
    pub const fn new() -> Table<T> {
        Table { shards: [const { Mutex::new(BTreeMap::new()) }; 16], next: AtomicU64::new(1) }
    }

    /// A number for a new object.
    pub fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether there has ever been one of this number.
    pub fn has_been(&self, number: u64) -> bool {
        number < self.next.load(Ordering::Relaxed)
    }

    fn shard(&self, number: u64) -> &Mutex<BTreeMap<u64, Arc<T>>> {
        &self.shards[number as usize % 16]
    }

    pub fn insert(&self, number: u64, object: Arc<T>) {
        self.shard(number).lock().insert(number, object);
    }

    pub fn remove(&self, number: u64) {
        let gone = self.shard(number).lock().remove(&number);
        drop(gone);
    }

    pub fn find(&self, number: u64) -> Option<Arc<T>> {
        self.shard(number).lock().get(&number).cloned()
    }

    /// Asks the one of this number something that takes no lock but by trying: with no hold on it, so that it does not end here.
    pub fn look<R>(&self, number: u64, asks: impl FnOnce(&T) -> R) -> Option<R> {
        self.shard(number).lock().get(&number).map(|one| asks(one))
    }

    /// Whether there is one of this number now.
    pub fn has(&self, number: u64) -> bool {
        self.shard(number).lock().contains_key(&number)
    }

    /// The first object with a number above `after`.
    pub fn after(&self, after: u64) -> Option<(u64, Arc<T>)> {
        let first = |shard: &Mutex<BTreeMap<u64, Arc<T>>>| {
            shard.lock().range(after.saturating_add(1)..).next().map(|(&n, o)| (n, o.clone()))
        };
        self.shards.iter().filter_map(first).min_by_key(|(number, _)| *number)
    }

    /// All objects, in no order: those that come or go meanwhile are among them or not. Nothing is locked in between.
    pub fn all(&self) -> impl Iterator<Item = Arc<T>> {
        let mut place = Reached::default();
        core::iter::from_fn(move || self.next(&mut place))
    }

    /// The next of them all.
    pub fn next(&self, place: &mut Reached) -> Option<Arc<T>> {
        loop {
            let shard = self.shards.get(place.shard)?;
            if let Some((number, object)) = shard.lock().range(place.after + 1..).next() {
                place.after = *number;
                return Some(object.clone());
            }
            *place = Reached { shard: place.shard + 1, after: 0 };
        }
    }
}

/// How far somebody has gone through a table.
#[derive(Clone, Copy, Default)]
pub struct Reached {
    shard: usize,
    after: u64,
}

pub struct Machine {
    pub node: u64,
    /// Addresses not in use.
    pub common: Mutex<Slice>,
    /// Those that are for the system alone, and that it takes when there is no room among the others.
    pub systems: Mutex<Slice>,
    /// The same, for stacks.
    pub stacks: Mutex<Slice>,
    pub sections: Directory<Arc<Section>>,
    pub tasks: Table<Task>,
    /// Tasks that have ended and were not forgotten, by the same numbers.
    pub ended: Table<Task>,
    pub threads: Table<Thread>,
    pub processors: Vec<Processor>,
    /// Seconds since 1970 at boot.
    pub boot_time: u64,
}

static MACHINE: Once<Machine> = Once::new();

/// The machine, once [`crate::boot`] has made it.
pub fn machine() -> &'static Machine {
    MACHINE.get().expect("the machine is made before anything runs")
}

/// Refuses what makes a new object for a task when little is left of the kernel's heap: an allocation that fails stops the kernel, and
/// the rest is for what cannot be refused. The system's own tasks may take more: a server whose heap cannot grow ends, and is to begin
/// anew whatever persons' programs have taken (K1-41); and a person's what he was promised (K1-U12), for what his ledger counts.
#[inline]
pub fn spare_heap_for(owner: &Task) -> Result<(), Error> {
    if arch::heap_is_plenty() { Ok(()) } else { promise::look_for_heap(owner, Heap::Object, true) }
}

/// The same of what no ledger counts: nobody was promised that.
#[inline]
pub fn spare_heap_beside(owner: &Task) -> Result<(), Error> {
    if arch::heap_is_plenty() { Ok(()) } else { promise::look_for_heap(owner, Heap::Object, false) }
}

/// The same of what comes to an object that is there, and is refused in the middle of something: an access, a question to a pager, a call that goes to and fro. As long
/// as anything else is to be had it is; then the program is told, which may be one of the system's own, for whom more is kept.
#[inline(always)]
pub fn spare_heap_at_all(whose: &Section) -> Result<(), Error> {
    if arch::heap_is_plenty() { Ok(()) } else { look_for_the_rest(&whose.owner()) }
}

/// The same of a task's own.
#[inline]
pub fn spare_heap_at_all_for(task: &Task) -> Result<(), Error> {
    if arch::heap_is_plenty() { Ok(()) } else { look_for_the_rest(task) }
}

#[cold]
#[inline(never)]
fn look_for_the_rest(task: &Task) -> Result<(), Error> {
    let what = if task.user == USER_SYSTEM { Heap::SystemsNeeded } else { Heap::Needed };
    if arch::heap_has_room(what, 0) { Ok(()) } else { Err(Error::NoMemory) }
}

/// Makes the machine. Boot only.
pub fn make(machine: impl FnOnce() -> Machine) {
    let machine = MACHINE.call_once(machine);
    machine.processors.iter().for_each(|processor| percpu::set_own(processor.index, processor));
}

/// A range of the single space, given back when the last section in it is gone, and nobody has it in hand any more.
pub struct Hold {
    pub extent: Extent,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    /// Sections that are there: each pays for the whole.
    living: usize,
    /// Whose was there last if none is, and what he pays until it is free.
    payer: Option<(Arc<Task>, u64)>,
}

impl Hold {
    /// The place of a post, which nobody else has (core/post).
    pub fn post(base: u64) -> Arc<Hold> {
        Arc::new(Hold::new(Extent { base, len: GRANULE }))
    }

    /// Takes `len` bytes (rounded up to granules) from this node's slice. A part of it is for the system alone, or nobody's programs could be started, or call, when
    /// one has reserved all.
    pub fn take(len: u64, stack: bool, for_system: bool) -> Option<Arc<Hold>> {
        let Machine { common, systems, stacks, .. } = machine();
        let take = |slice: &Mutex<Slice>| slice.lock().take(len);
        let extent = match (stack, for_system) {
            (true, true) => take(stacks),
            // (They are all of a length.)
            (true, false) => stacks.lock().take_beside(len, SYSTEMS_PART),
            (false, true) => take(common).or_else(|| take(systems)),
            (false, false) => take(common),
        };
        extent.map(|extent| Arc::new(Hold::new(extent)))
    }

    /// The room beside a section of the owner that `[at, at + reserve)` lies in.
    pub fn beside(owner: &Arc<Task>, at: u64, reserve: u64) -> Result<Arc<Hold>, Error> {
        if !at.is_multiple_of(GRANULE) {
            return Err(Error::BadAddress);
        }
        if is_kept(at) {
            return Err(Error::Exists);
        }
        let sibling = owner.sections.lock().range(..at).next_back().copied().ok_or(Error::NotFound)?;
        let sibling = Section::named(sibling)?;
        let extent = sibling.hold.extent;
        let end = at.checked_add(reserve).ok_or(Error::BadAddress)?;
        if at < sibling.base + sibling.reserve || end > extent.base + extent.len {
            return Err(Error::BadAddress);
        }
        Ok(sibling.hold.clone())
    }

    fn new(extent: Extent) -> Hold {
        Hold { extent, inside: Mutex::default() }
    }

    /// One more section is there, whose owner pays.
    pub fn begins(&self) {
        let before = {
            let mut inside = self.inside.lock();
            inside.living += 1;
            inside.payer.take()
        };
        release(before);
    }

    /// A section of the task's has ended. Its addresses may stay taken, for whoever calls by a binding to a text that was there has it in hand: the
    /// last one's reserve is free when the range is.
    pub fn was(&self, owner: &Arc<Task>, reserve: u64) {
        let before = {
            let Inside { living, payer } = &mut *self.inside.lock();
            *living -= 1;
            let its = Some((owner.clone(), reserve));
            if *living > 0 { its } else { core::mem::replace(payer, its) }
        };
        release(before);
    }
}

fn release(paid: Option<(Arc<Task>, u64)>) {
    paid.into_iter().for_each(|(payer, reserve)| payer.release(Resource::Reserve, reserve));
}

/// An address of a text that clones of it are named by: no other section begins there as long as there are any. They pay for what they reserve
/// themselves, which is more.
pub struct Kept(u64);

impl Kept {
    /// Call under the lock of a section that is there or is a clone of what was, so that nobody else can have got there yet.
    pub fn at(base: u64) -> Kept {
        slice_of(base).lock().keep(base);
        Kept(base)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        slice_of(self.0).lock().let_go(self.0);
    }
}

/// Where the stacks of a node begin.
pub fn stacks_base(node: u64) -> u64 {
    slice_base(node) + SLICE_LEN - STACKS_LEN
}

/// To which addresses one belongs, of a section that is no post.
fn slice_of(base: u64) -> &'static Mutex<Slice> {
    let machine = machine();
    if base >= stacks_base(machine.node) {
        &machine.stacks
    } else if base >= slice_base(machine.node) + COMMON_LEN {
        &machine.systems
    } else {
        &machine.common
    }
}

/// Whether clones are named by this address, where a text was.
pub fn is_kept(base: u64) -> bool {
    slice_of(base).lock().is_kept(base)
}

impl Drop for Hold {
    fn drop(&mut self) {
        release(self.inside.get_mut().payer.take());
        let extent = self.extent;
        if abi::post::number(machine().node, extent.base).is_none() {
            slice_of(extent.base).lock().give(extent);
        }
    }
}
