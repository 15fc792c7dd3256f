//! The ready threads of one processor, by level and within it by key. One writer, its fast scheduler; others may look, and what they see of a
//! thread is one consistent pair or nothing.

use crate::sync::{AtomicU64, Ordering};
use crate::terms::Position;
use crate::{LEVELS, THREADS};
use alloc::vec::Vec;

// Words: count, free, clock, map of levels; head and tail of each level, and who was linked in between there last; then the nodes. Nodes are numbered from 1 on.
const COUNT: usize = 0;
const FREE: usize = 1;
const FRESH: usize = 2;
const CLOCK: usize = 3;
const MAP: usize = 4;
/// The key of whoever ran last: how far the queue has come.
const PLACE: usize = 5;
const HEADS: usize = 8;
const HINTS: usize = HEADS + 2 * (LEVELS + 1);
const NODES: usize = HINTS + LEVELS + 1;
/// Where threads are while they are filed anew.
const TRAY: usize = LEVELS;
const NODE: usize = 8;
pub(crate) const WORDS: usize = NODES + (THREADS + 1) * NODE;

// Of a node. The version is odd while thread and turn are being changed.
const THREAD: usize = 0;
const TURN: usize = 1;
const NEXT: usize = 2;
const SINCE: usize = 3;
const VERSION: usize = 4;
const KEY: usize = 5;
/// The version at which another processor claimed it.
const CLAIMED: usize = 6;

/// Of a node's SINCE: above it is the level that the thread was raised to, plus one.
const LIFTED: u64 = 1 << 56;

/// A thread that is ready, and the turn that it is ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    pub thread: u64,
    pub turn: u64,
}

/// A turn in a queue of another processor's, as it stood there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    pub ready: Ready,
    node: u64,
    version: u64,
}

/// Threads that have ended lately, by number: for all processors of a scheduler, since who ends here may have left turns anywhere. A number is never
/// another's, so it does not matter when that is seen.
#[derive(Debug)]
pub struct Over([AtomicU64; Latest::PLACES]);

impl Over {
    #[must_use]
    pub const fn new() -> Over {
        Over([const { AtomicU64::new(0) }; Latest::PLACES])
    }

    /// This one has.
    pub fn note(&self, thread: u64) {
        self.0[thread as usize % Latest::PLACES].store(thread, Ordering::Relaxed);
    }

    fn has(&self, thread: u64) -> bool {
        self.0[thread as usize % Latest::PLACES].load(Ordering::Relaxed) == thread
    }
}

/// The latest turns that a queue holds, by thread, and those that are over: what [`Queue::purge`] works with.
#[derive(Clone, Debug)]
pub struct Latest {
    /// And which of [`HAS_LATEST`] and [`HAS_AWAKE`] has been come by.
    here: Vec<(Ready, u8)>,
    /// Turns that began elsewhere than at the head of the queue.
    over: Vec<Ready>,
    ended: &'static Over,
}

const HAS_LATEST: u8 = 1;
const HAS_AWAKE: u8 = 2;
const NOBODY: Ready = Ready { thread: 0, turn: 0 };

impl Latest {
    const PLACES: usize = 2 * THREADS;

    /// `ended`: of all threads of this scheduler.
    #[must_use]
    pub fn new(ended: &'static Over) -> Latest {
        let (here, over) = (alloc::vec![(NOBODY, 0); Latest::PLACES], alloc::vec![NOBODY; Latest::PLACES]);
        Latest { here, over, ended }
    }

    /// This turn was had without being taken out of the queue, where it may stay behind.
    pub fn is_over(&mut self, ready: Ready) {
        self.over[ready.thread as usize % Latest::PLACES] = ready;
    }

    /// This turn is told of: it is not over, whatever was thought.
    pub fn is_told(&mut self, ready: Ready) {
        let over = &mut self.over[ready.thread as usize % Latest::PLACES];
        if over.thread == ready.thread && over.turn >= ready.turn && ready.turn != 0 {
            over.turn = ready.turn - 1;
        }
    }

    fn note(&mut self, ready: Ready) {
        let (place, _) = &mut self.here[ready.thread as usize % Latest::PLACES];
        if place.thread == 0 || place.thread == ready.thread && place.turn < ready.turn {
            *place = ready;
        }
    }

    /// Turn 0 is none: that thread was put aside and is awake, and nothing else says so.
    fn is_past(&mut self, ready: Ready) -> bool {
        let at = ready.thread as usize % Latest::PLACES;
        let (over, (latest, came)) = (self.over[at], &mut self.here[at]);
        let was_had = over.thread == ready.thread && ready.turn != 0 && ready.turn <= over.turn;
        if was_had || self.ended.has(ready.thread) {
            return true;
        }
        if latest.thread != ready.thread {
            return false;
        }
        let one = if ready.turn == 0 { HAS_AWAKE } else { HAS_LATEST };
        if ready.turn != 0 && ready.turn < latest.turn || *came & one != 0 {
            return true;
        }
        *came |= one;
        false
    }
}

/// The queues of a processor.
#[derive(Clone, Copy, Debug)]
pub struct Queue<'a>(pub(crate) &'a [AtomicU64; WORDS]);

impl Queue<'_> {
    #[inline]
    fn get(&self, at: usize) -> u64 {
        self.0[at].load(Ordering::Acquire)
    }

    #[inline]
    fn set(&self, at: usize, value: u64) {
        self.0[at].store(value, Ordering::Release);
    }

    #[inline]
    fn node(number: u64) -> usize {
        NODES + (number as usize).min(THREADS) * NODE
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> u64 {
        self.get(COUNT)
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Quanta that have ended here: the measure of how long a thread waits.
    pub fn clock(&self) -> u64 {
        self.get(CLOCK)
    }

    /// One more has.
    pub fn tick(&self) {
        self.set(CLOCK, self.clock() + 1);
    }

    #[inline]
    fn make(&self, ready: Ready, position: Position) -> Option<u64> {
        let free = self.get(FREE);
        let number = if free != 0 {
            self.set(FREE, self.get(Self::node(free) + NEXT));
            free
        } else {
            let fresh = self.get(FRESH) + 1;
            if fresh > THREADS as u64 {
                return None;
            }
            self.set(FRESH, fresh);
            fresh
        };
        let node = Self::node(number);
        let version = self.get(node + VERSION);
        self.0[node + VERSION].swap(version | 1, Ordering::AcqRel);
        self.set(node + THREAD, ready.thread);
        self.set(node + TURN, ready.turn);
        let lifted = if position.lifted { position.level + 1 } else { 0 };
        self.set(node + SINCE, self.clock() % LIFTED + lifted * LIFTED);
        self.set(node + NEXT, 0);
        self.set(node + KEY, position.key);
        self.set(node + VERSION, (version | 1) + 1);
        self.set(COUNT, self.len() + 1);
        Some(number)
    }

    #[inline]
    fn mark(&self, level: usize) {
        self.set(MAP, self.get(MAP) | 1 << level);
    }

    /// After all others of its level and key. Whether there was room.
    pub fn push(&self, ready: Ready, level: u64) -> bool {
        self.put(ready, Position { level, ..Position::default() })
    }

    /// Where it belongs. Whether there was room.
    #[inline]
    pub fn put(&self, ready: Ready, position: Position) -> bool {
        let level = position.level.min(LEVELS as u64 - 1);
        let Some(number) = self.make(ready, Position { level, ..position }) else { return false };
        self.link(number, level as usize, position.first);
        true
    }

    /// Links a node in, by its key: mostly as the last one. Where many come with one key, before somebody with a greater one, each goes behind the one before
    /// without a look at all others.
    #[inline]
    fn link(&self, number: u64, level: usize, first: bool) {
        let (head, tail) = (HEADS + 2 * level, HEADS + 2 * level + 1);
        let key_of = |number: u64| self.get(Self::node(number) + KEY);
        let key = key_of(number);
        let before = |other: u64| if first { key_of(other) < key } else { key_of(other) <= key };
        let mut last = self.get(tail);
        if last != 0 && !before(last) {
            let hint = self.get(HINTS + level);
            last = if hint != 0 && before(hint) { hint } else { 0 };
            let mut at = if last == 0 { self.get(head) } else { self.get(Self::node(last) + NEXT) };
            for _ in 0..THREADS {
                if at == 0 || !before(at) {
                    break;
                }
                (last, at) = (at, self.get(Self::node(at) + NEXT));
            }
        }
        let next = if last == 0 { self.get(head) } else { self.get(Self::node(last) + NEXT) };
        self.set(Self::node(number) + NEXT, next);
        if last == 0 {
            self.set(head, number);
        } else {
            self.set(Self::node(last) + NEXT, number);
        }
        if next == 0 {
            self.set(tail, number);
        } else {
            self.set(HINTS + level, number);
        }
        self.mark(level);
    }

    /// It is not in this level any more.
    #[inline]
    fn is_gone(&self, number: u64, level: usize) {
        if self.get(HINTS + level) == number {
            self.set(HINTS + level, 0);
        }
    }

    /// The key of whoever ran last.
    #[inline]
    pub fn place(&self) -> u64 {
        self.get(PLACE)
    }

    #[inline]
    pub(crate) fn set_place(&self, key: u64) {
        self.set(PLACE, self.place().max(key));
    }

    /// The key of the first one of the highest level; who is taken out next has it.
    #[inline]
    pub fn first_key(&self) -> u64 {
        self.highest().map_or(0, |level| self.get(Self::node(self.get(HEADS + 2 * level as usize)) + KEY))
    }

    /// The first one of the highest level.
    #[inline]
    pub fn first_of_all(&self) -> Option<Ready> {
        self.highest().and_then(|level| self.first(level as usize)).map(|(ready, _)| ready)
    }

    #[inline]
    fn unlink(&self, level: usize) -> Option<u64> {
        let (head, tail) = (HEADS + 2 * level, HEADS + 2 * level + 1);
        let first = self.get(head);
        if first == 0 {
            return None;
        }
        let next = self.get(Self::node(first) + NEXT);
        self.is_gone(first, level);
        self.set(head, next);
        if next == 0 {
            self.set(tail, 0);
            self.set(MAP, self.get(MAP) & !(1 << level));
        }
        Some(first)
    }

    /// The highest level with somebody in it.
    #[inline]
    pub fn highest(&self) -> Option<u64> {
        let map = self.get(MAP);
        (map != 0).then(|| u64::from(map.trailing_zeros()))
    }

    /// Takes out the first one of the highest level, and says where to put it back.
    #[inline]
    pub fn pop(&self) -> Option<(Ready, Position)> {
        let level = self.highest()?;
        let number = self.unlink(level as usize)?;
        let node = Self::node(number);
        let ready = Ready { thread: self.get(node + THREAD), turn: self.get(node + TURN) };
        let lifted = self.get(node + SINCE) >= LIFTED;
        let position = Position { level, key: self.get(node + KEY), first: true, lifted };
        self.set(node + NEXT, self.get(FREE));
        self.set(FREE, number);
        self.set(COUNT, self.len() - 1);
        Some((ready, position))
    }

    /// The first one of a level, and how many quanta it has waited: for whoever looks on. Nothing if it is changing.
    pub fn first(&self, level: usize) -> Option<(Ready, u64)> {
        let (Offer { ready, .. }, since) = self.look(self.get(HEADS + 2 * level))?;
        Some((ready, self.clock().saturating_sub(since)))
    }

    /// What stands there, and since when.
    fn look(&self, number: u64) -> Option<(Offer, u64)> {
        if number == 0 {
            return None;
        }
        let node = Self::node(number);
        let version = self.get(node + VERSION);
        let ready = Ready { thread: self.get(node + THREAD), turn: self.get(node + TURN) };
        let since = self.get(node + SINCE) % LIFTED;
        let same = version.is_multiple_of(2) && self.get(node + VERSION) == version;
        same.then_some((Offer { ready, node: number, version }, since))
    }

    /// Everybody of a level, in order: for people to see. At most as many as there can be, whatever the words say.
    pub fn all(&self, level: usize) -> impl Iterator<Item = Ready> {
        self.offers(level).map(|offer| offer.ready)
    }

    fn offers(&self, level: usize) -> impl Iterator<Item = Offer> {
        let mut number = self.get(HEADS + 2 * level);
        (0..THREADS).map_while(move |_| {
            let (offer, _) = self.look(number)?;
            number = self.get(Self::node(number) + NEXT);
            Some(offer)
        })
    }

    /// Another processor is about to name this one: it stays here, and nobody else tries to have it but the one whose queue this is. Whether nobody has before.
    pub fn claim(&self, offer: &Offer) -> bool {
        let claimed = &self.0[Self::node(offer.node) + CLAIMED];
        let before = claimed.load(Ordering::Acquire);
        before != offer.version
            && claimed.compare_exchange(before, offer.version, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// It has not tried.
    pub fn leave(&self, offer: &Offer) {
        let claimed = &self.0[Self::node(offer.node) + CLAIMED];
        let _ = claimed.compare_exchange(offer.version, 0, Ordering::AcqRel, Ordering::Acquire);
    }

    fn is_claimed(&self, offer: &Offer) -> bool {
        self.get(Self::node(offer.node) + CLAIMED) == offer.version
    }

    /// Who may as well wait elsewhere, for one that has `others` waiting and decides there: the last of the highest level, if more wait
    /// here. Its turn is farthest away, so it is still to be had when it comes up there; the first one would be named here before. Stays in
    /// this queue, too; whoever names it first has it. Not who was put aside: that is no turn, and says no more than that it may go on. Nor who
    /// may not: where all of a level stay it is the last of the next one.
    pub fn spare(&self, others: u64, may: impl Fn(u64) -> bool) -> Option<Ready> {
        if self.len() <= others {
            return None;
        }
        let is_spare = |offer: &Offer| offer.ready.turn != 0 && may(offer.ready.thread) && !self.is_claimed(offer);
        (self.highest()? as usize..LEVELS)
            .find_map(|level| self.offers(level).filter(is_spare).last())
            .map(|offer| offer.ready)
    }

    /// The first of those who may and are not claimed, by level, `N` at most: a turn that was taken elsewhere stays behind, and may be the very first.
    pub fn first_of<const N: usize>(&self, may: impl Fn(u64) -> bool) -> [Option<Offer>; N] {
        let levels = self.highest().map_or(LEVELS, |level| level as usize)..LEVELS;
        let all = levels
            .flat_map(|level| self.offers(level))
            .filter(|offer| may(offer.ready.thread) && !self.is_claimed(offer));
        let mut found = [None; N];
        found.iter_mut().zip(all).for_each(|(slot, offer)| *slot = Some(offer));
        found
    }

    /// Files everybody anew, by the level that `level_of` a thread says; the order within a level stays. Who was raised stays raised: or
    /// whoever asks for priorities often enough would keep the others waiting.
    pub fn file_anew(&self, level_of: impl Fn(u64) -> u64) {
        let relink = |number: u64, level: usize| {
            self.set(Self::node(number) + NEXT, 0);
            self.link(number, level, false);
        };
        for level in 0..LEVELS {
            while let Some(number) = self.unlink(level) {
                self.set(Self::node(number) + NEXT, 0);
                // By no key: each level is in order, and they come one after the other.
                match self.get(HEADS + 2 * TRAY + 1) {
                    0 => self.set(HEADS + 2 * TRAY, number),
                    last => self.set(Self::node(last) + NEXT, number),
                }
                self.set(HEADS + 2 * TRAY + 1, number);
            }
        }
        while let Some(number) = self.unlink(TRAY) {
            let node = Self::node(number);
            let level = (level_of(self.get(node + THREAD)) as usize).min(LEVELS - 1);
            let lifted = (self.get(node + SINCE) / LIFTED) as usize;
            relink(number, if lifted == 0 { level } else { level.min(lifted - 1) });
        }
    }

    /// Takes out the turns that are past: those of threads that are here for a later one, too, or once more, and those that are over. A turn
    /// that was taken elsewhere stays behind, and there may be many of those. How many there were.
    pub fn purge(&self, latest: &mut Latest) -> usize {
        latest.here.fill((NOBODY, 0));
        for level in 0..LEVELS {
            self.all(level).for_each(|ready| latest.note(ready));
        }
        self.take_out_all(|ready| latest.is_past(ready))
    }

    /// Takes out this turn, wherever it is. Whether it was here.
    pub fn take_out(&self, turn: Ready) -> bool {
        self.take_out_all(|ready| ready == turn) > 0
    }

    fn take_out_all(&self, mut is_out: impl FnMut(Ready) -> bool) -> usize {
        let ready = |number: u64| {
            let node = Self::node(number);
            Ready { thread: self.get(node + THREAD), turn: self.get(node + TURN) }
        };
        let mut out = 0;
        for level in 0..LEVELS {
            let (head, tail) = (HEADS + 2 * level, HEADS + 2 * level + 1);
            let (mut last, mut at) = (0, self.get(head));
            for _ in 0..THREADS {
                if at == 0 {
                    break;
                }
                let next = self.get(Self::node(at) + NEXT);
                if is_out(ready(at)) {
                    self.is_gone(at, level);
                    if last == 0 {
                        self.set(head, next)
                    } else {
                        self.set(Self::node(last) + NEXT, next)
                    }
                    if next == 0 {
                        self.set(tail, last);
                    }
                    self.set(Self::node(at) + NEXT, self.get(FREE));
                    self.set(FREE, at);
                    self.set(COUNT, self.len() - 1);
                    out += 1;
                } else {
                    last = at;
                }
                at = next;
            }
            if self.get(head) == 0 {
                self.set(MAP, self.get(MAP) & !(1 << level));
            }
        }
        out
    }

    /// Moves the first one of `level` to the end of the level `to`.
    pub fn raise(&self, level: usize, to: usize) {
        if let Some(number) = self.unlink(level) {
            let node = Self::node(number);
            self.set(node + NEXT, 0);
            self.set(node + SINCE, self.clock() % LIFTED + (to as u64 + 1) * LIFTED);
            self.link(number, to, false);
        }
    }
}
