//! The short ways from one thread to another: `post.S` (post.rs), and here that of the scheduler (`pass.S`, docs/decisions/0007): a thread that executes the scheduler's text is put
//! aside, and one that was put aside in the same way goes on. Only the processor itself does that, so it takes no lock; the
//! kernel proper *settles* on its next entry: it takes the cards that have moved out of the processor's *lap* and writes down
//! what has happened.

use crate::context::{Area, Registers};
use crate::cpu;
use crate::cpu::PROCESSORS_MAX;
use crate::gate::Gate;
use crate::percpu::{self, block, block_of};
use crate::shown::Page;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use spin::Mutex;

/// What the short way keeps of a thread. Layout known to `pass.S`. A card is never freed: a processor may still look at one
/// whose thread has ended, and sees another number there.
#[derive(Default)]
#[repr(C, align(64))]
pub struct Card {
    number: AtomicU64,
    /// 1 + the processor on which the thread was put aside; 0: it was not.
    parked: AtomicU64,
    /// The next one of the lap, or [`END`]; 0: in none.
    link: AtomicU64,
    pub(crate) context: AtomicU64,
    pub(crate) roots: AtomicU64,
    domain: AtomicU64,
    text: AtomicU64,
    sp: AtomicU64,
    rip: AtomicU64,
    kept: [AtomicU64; 6],
    pub(crate) ticks: AtomicU64,
    // Of its waits in posts (post.rs).
    pub(crate) rests: AtomicU64,
    pub(crate) rest_domain: AtomicU64,
    pub(crate) rest_rip: AtomicU64,
    pub(crate) rest_sp: AtomicU64,
    pub(crate) record: AtomicU64,
    id: AtomicU64,
    task: AtomicU64,
    /// Where it was let go of when it came to rest last.
    pub(crate) last: AtomicU64,
}

const _: () = assert!(size_of::<Card>() == 192 && core::mem::offset_of!(Card, rest_domain) == 136);

const LAP: usize = core::mem::offset_of!(percpu::Block, lap);
const LAPPED: usize = core::mem::offset_of!(percpu::Block, lapped);

/// Cards of a lap at most, but for one or two that a message adds in the same step: they are written down in one stretch with interrupts off.
pub(crate) const LAP_MAX: u64 = 64;

/// Of a lap.
pub(crate) const END: u64 = 1;
/// No section begins there, so nobody's text is there.
const NO_TEXT: u64 = 1;
/// Cards that are made at once.
const SLAB: usize = 64;
/// Slabs whose cards have numbers: more threads than there are in them do without.
const SLABS: usize = 1024;
/// Entries of a processor's table, by the low bits of the number.
const TABLE: usize = 64;

struct Table([[AtomicU64; 2]; TABLE]);

static TABLES: [Table; PROCESSORS_MAX] =
    [const { Table([const { [const { AtomicU64::new(0) }; 2] }; TABLE]) }; PROCESSORS_MAX];
static FREE: Mutex<Vec<&'static Card>> = Mutex::new(Vec::new());
/// Addresses of the slabs; 0: not made yet.
static ALL: [AtomicU64; SLABS] = [const { AtomicU64::new(0) }; SLABS];

/// Address of a processor's table.
pub(crate) fn cards(index: usize) -> u64 {
    // Nobody's number is 0, and nobody looks for 1 here.
    set(&TABLES[index].0[0][0], 1);
    &raw const TABLES[index] as u64
}

#[inline(always)]
pub(crate) fn get(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

#[inline(always)]
pub(crate) fn set(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::Relaxed);
}

/// The card of a thread, for as long as there is the thread.
pub struct OwnCard(&'static Card);

impl OwnCard {
    pub fn new(number: u64, task: u64) -> OwnCard {
        let card = {
            let mut free = FREE.lock();
            if free.is_empty() {
                // They stay, so there are as many as there ever were threads at once.
                free.reserve(SLAB);
                let slab: &'static [Card] = Box::leak((0..SLAB).map(|_| Card::default()).collect());
                if let Some((number, place)) = ALL.iter().enumerate().find(|(_, place)| get(place) == 0) {
                    slab.iter().zip(number * SLAB..).for_each(|(card, id)| set(&card.id, id as u64 + 1));
                    place.store(slab.as_ptr() as u64, Ordering::Release);
                }
                free.extend(slab);
            }
            free.pop().expect("a slab is not empty")
        };
        set(&card.text, NO_TEXT);
        set(&card.rests, 0);
        set(&card.task, task);
        set(&card.number, number);
        OwnCard(card)
    }
}

impl Drop for OwnCard {
    fn drop(&mut self) {
        set(&self.0.number, 0);
        set(&self.0.record, 0);
        FREE.lock().push(self.0);
    }
}

impl core::ops::Deref for OwnCard {
    type Target = Card;
    fn deref(&self) -> &Card {
        self.0
    }
}

impl Card {
    /// Number of the thread; 0: of none any more.
    #[inline(always)]
    pub fn number(&self) -> u64 {
        get(&self.number)
    }

    /// Number of the thread's task.
    #[inline(always)]
    pub(crate) fn task(&self) -> u64 {
        get(&self.task)
    }

    /// Whether the thread was put aside on the short way, and nobody has written that down yet.
    pub fn is_parked(&self) -> bool {
        self.parked.load(Ordering::SeqCst) != 0
    }

    /// Whether the short way has met the thread, and nobody has written that down yet.
    pub fn has_moved(&self) -> bool {
        get(&self.link) != 0
    }

    /// Whether the thread has ever been put aside here or might be: it has a domain for a scheduler's text.
    pub fn is_known(&self) -> bool {
        get(&self.text) != NO_TEXT
    }

    /// The thread has no domain for the scheduler's text any more.
    pub fn leave(&self, domain: u32) {
        if get(&self.domain) == u64::from(domain) {
            set(&self.text, NO_TEXT);
        }
    }

    /// Puts the running thread, with these registers, aside as `pass.S` does: its call has succeeded, and it executes `text`
    /// in `domain`.
    pub fn park(&'static self, registers: &Registers, domain: u32, text: u64) {
        let Registers { rbx, rbp, r12, r13, r14, r15, rip, rsp, .. } = *registers;
        set(&self.domain, u64::from(domain));
        set(&self.text, text);
        set(&self.rip, rip);
        set(&self.sp, rsp);
        self.kept.iter().zip([rbx, rbp, r12, r13, r14, r15]).for_each(|(word, value)| set(word, value));
        link(self);
        set(&self.parked, percpu::index() as u64 + 1);
    }

    /// From now on it is the kernel proper that keeps the thread. Its registers, if it was put aside.
    pub fn take_parked(&self) -> Option<Registers> {
        if self.parked.swap(0, Ordering::SeqCst) == 0 {
            return None;
        }
        let [rbx, rbp, r12, r13, r14, r15] = [0, 1, 2, 3, 4, 5].map(|i| get(&self.kept[i]));
        Some(Registers { rbx, rbp, r12, r13, r14, r15, ..Registers::start(get(&self.rip), get(&self.sp)) })
    }

    /// Nanoseconds that the thread has run between two switches of the short way.
    pub fn take_time(&self) -> u64 {
        crate::time::ns(self.ticks.swap(0, Ordering::Relaxed))
    }

    /// This processor finds the card from now on.
    pub fn remember(&'static self) {
        let [number, card] = &TABLES[percpu::index()].0[self.number() as usize % TABLE];
        set(number, 0);
        set(card, self as *const Card as u64);
        set(number, self.number());
    }

    /// The thread leaves the kernel with this area and gate: where the short ways find them.
    #[inline]
    pub fn leaves(&self, area: &Area, gate: &Gate) {
        set(&self.context, area.place() as u64 + size_of::<Registers>() as u64);
        set(&self.roots, gate.roots());
    }

    /// The thread runs here from now on.
    pub fn bear(&'static self) {
        set(&block().bearer, self as *const Card as u64);
        set(&block().since, cpu::tsc());
    }

    /// Whether this is the one that runs here.
    pub fn is_bearer(&self) -> bool {
        get(&block().bearer) == core::ptr::from_ref(self) as u64
    }
}

impl OwnCard {
    /// Its number among all cards; 0: it has none.
    pub fn id(&self) -> u32 {
        get(&self.0.id) as u32
    }

    /// For as long as the system runs.
    pub fn card(&self) -> &'static Card {
        self.0
    }
}

/// The card of this number; 0 is no card's.
#[inline(always)]
pub fn card(id: u32) -> Option<&'static Card> {
    let at = (id as usize).wrapping_sub(1);
    let slab = ALL.get(at / SLAB)?.load(Ordering::Acquire);
    // SAFETY: a slab has SLAB cards and stays for ever; 0 is none.
    (slab != 0).then(|| unsafe { &*(slab as *const Card).add(at % SLAB) })
}

/// The kernel proper has something to write down of this one.
#[inline(always)]
pub(crate) fn link(card: &'static Card) {
    if get(&card.link) == 0 {
        set(&card.link, percpu::word::<LAP>());
        percpu::set_word::<LAP>(core::ptr::from_ref(card) as u64);
        let lapped = percpu::word::<LAPPED>() + 1;
        percpu::set_word::<LAPPED>(lapped);
        if lapped >= LAP_MAX {
            is_long();
        }
    }
}

/// What calls next enters the kernel proper, which settles: no short way goes on where there is something to look at.
#[cold]
#[inline(never)]
fn is_long() {
    percpu::attend(percpu::index());
}

/// Whoever is taken up next by a short way runs from now on: the processor has had nothing to do.
pub fn begins() {
    set(&block().since, cpu::tsc());
}

/// When the running thread was taken up, in nanoseconds since boot.
pub fn since() -> u64 {
    crate::time::at(get(&block().since))
}

/// The cards that have moved since the last time.
pub struct Lap(u64);

/// Empties this processor's lap; `None` if nothing has moved.
#[inline]
pub fn take_lap() -> Option<Lap> {
    let block = block();
    let first = get(&block.lap);
    if first == END {
        return None;
    }
    set(&block.lap, END);
    set(&block.lapped, 0);
    Some(Lap(first))
}

impl Iterator for Lap {
    type Item = &'static Card;
    fn next(&mut self) -> Option<&'static Card> {
        if self.0 == END {
            return None;
        }
        // SAFETY: what is linked are cards, which are never freed.
        let card = unsafe { &*(self.0 as *const Card) };
        self.0 = card.link.swap(0, Ordering::Relaxed);
        Some(card)
    }
}

/// On processor `index`, threads that execute this text may take the short way from now on; 0: none.
pub fn set_scheduler(index: usize, text: u64) {
    block_of(index).scheduler.store(text, Ordering::SeqCst);
}

/// The short way on processor `index` writes the number of the thread that runs to this word of a page from now on.
pub fn show_running(index: usize, page: &'static Page, word: usize) {
    block_of(index).running.store(core::ptr::from_ref(&page.0[word]) as u64, Ordering::Relaxed);
}
