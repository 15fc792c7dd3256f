//! Which class has which key.

use crate::class::Class;
use crate::misses::{EARN, Missed, Misses};
use crate::register::{CLASS_KEYS, DOMAIN, KEYS, Key};
use abi::info::layout::Key as Told;
use abi::rights::ANY_TEXT;
use acl::Subject;
use alloc::vec::Vec;

/// The answer to a class that wants a key.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Want {
    /// It has this one: pages of the class may be tagged with it, as long as the lock of the view is held.
    Has(Key),
    /// It has just got this one; registers that were computed before do not open it. If another class had to go, it may
    /// not be used before that one has left: see [`Keys::settle`].
    Take { key: Key, evicted: Option<Leaving> },
    /// It has none: call in a view of its own. The miss was counted.
    None,
}

/// The duty to clear a key that has left a class: until it is settled, processors may still have it open.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "until every processor has forgotten the key, nobody can have it: settle it then"]
pub struct Leaving {
    key: Key,
    class: Class,
}

impl Leaving {
    pub fn key(&self) -> Key {
        self.key
    }

    /// Whose pages are to be unmapped.
    pub fn class(&self) -> &Class {
        &self.class
    }
}

/// In the place of a number of uses: the key is on no page now, so nobody uses it.
pub const ON_NO_PAGE: u64 = u64::MAX;

/// By the number of a key.
pub type Uses = [u64; KEYS];

/// What a thread has to do with a text.
#[derive(Clone, Copy, Debug)]
pub enum Called {
    /// It has never been there.
    Never,
    /// It has started there.
    Starts,
    /// It has called it so often without the kernel.
    Times(u64),
}

/// What happened so far. (Hits are counted where they happen, which is not in the kernel.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// A class had no key, and no key was free.
    pub misses: u64,
    /// A class got a key.
    pub given: u64,
    /// A class lost its key to another.
    pub evicted: u64,
    /// A key that can go was looked for.
    pub looks: u64,
}

/// Most that a class is remembered to have been used. If it is idle then, it is cold after five others were refused.
const HEAT_MAX: u64 = 16 * EARN as u64;

/// A class that has a key.
#[derive(Debug)]
struct Holder {
    class: Class,
    /// The caller's count of uses, when it was last looked at since the class has the key.
    seen: Option<u64>,
    /// How many misses there had been when it was last found to have been used.
    used: u64,
    /// Uses. Those from before the last time that a class was refused count half, from before the last but one a quarter ...
    heat: u64,
    /// The number of keys given before.
    since: u64,
}

#[derive(Debug)]
enum Slot {
    Free,
    Held(Holder),
    /// Some processor may still have it open for a class that is gone. Nobody can use it, its next holder neither.
    Leaving(Option<Holder>),
}

impl Slot {
    /// Who has the key, or will have it.
    fn holder(&self) -> Option<&Holder> {
        match self {
            Slot::Held(holder) | Slot::Leaving(Some(holder)) => Some(holder),
            Slot::Free | Slot::Leaving(None) => None,
        }
    }
}

/// The keys of one view.
pub struct Keys {
    slots: [Slot; CLASS_KEYS],
    pub(crate) misses: Misses,
    stats: Stats,
    /// Counts changes of `slots`.
    changes: u64,
}

impl Default for Keys {
    fn default() -> Self {
        Keys::new()
    }
}

impl Keys {
    /// All keys are free.
    pub const fn new() -> Keys {
        let stats = Stats { misses: 0, given: 0, evicted: 0, looks: 0 };
        Keys { slots: [const { Slot::Free }; CLASS_KEYS], misses: Misses::new(), stats, changes: 0 }
    }

    /// A page of a class was touched: its key, or a free one.
    pub fn find(&mut self, class: &Class) -> Want {
        if class.is_public() {
            return Want::Has(Key::PUBLIC);
        }
        match self.slot_of(class) {
            Some(at) if matches!(self.slots[at], Slot::Held(_)) => return Want::Has(Key::at(at)),
            // Its key is on the way: it needs to earn no other.
            Some(_) => {
                self.stats.misses += 1;
                return Want::None;
            }
            None => {}
        }
        if let Some(at) = self.slots.iter().position(|slot| matches!(slot, Slot::Free)) {
            self.slots[at] = Slot::Held(self.next_holder(class, false));
            self.changes += 1;
            return Want::Take { key: Key::at(at), evicted: None };
        }
        self.stats.misses += 1;
        Want::None
    }

    /// Another number whenever a key has come or gone: what [`Keys::find`] said before holds as long as this is the same, if it was a key.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether a key may change hands when the class is missed next: then it matters how much all keys were used.
    pub fn is_due(&self, class: &Class) -> bool {
        self.misses.is_due(class)
    }

    /// A class is missed, and counts towards a key. `pinned`: the classes whose keys must stay. `uses`: how often each key was used
    /// so far ([`Keys::uses`]); without it, none changes hands.
    pub fn earn(&mut self, class: &Class, pinned: impl Fn(&Class) -> bool, uses: Option<&Uses>) -> Want {
        let found = self.find(class);
        if found != Want::None || self.slot_of(class).is_some() {
            return found;
        }
        let missed = self.misses.count(class, self.stats.misses);
        let Some(uses) = uses else { return Want::None };
        self.note(uses);
        let Some(evicted) = self.make_room(missed, pinned) else { return Want::None };
        self.stats.evicted += 1;
        let key = evicted.key;
        self.slots[key.place()] = Slot::Leaving(Some(self.next_holder(class, true)));
        self.changes += 1;
        Want::Take { key, evicted: Some(evicted) }
    }

    /// Every processor has forgotten the pages that a key was on and has computed its register since. The class that has
    /// the key now, if one has: it may have lost it meanwhile.
    pub fn settle(&mut self, leaving: Leaving) -> Option<&Class> {
        self.changes += 1;
        let slot = &mut self.slots[leaving.key.place()];
        if let Slot::Leaving(next) = slot {
            *slot = next.take().map_or(Slot::Free, Slot::Held);
        }
        slot.holder().map(|holder| &holder.class)
    }

    /// No page has this class any more.
    pub fn give_up(&mut self, class: &Class) -> Option<Leaving> {
        self.misses.remove(class);
        let at = self.slot_of(class)?;
        self.leave(at)
    }

    /// A text has ended: what was counted for it must not be found by the next one at its address.
    pub fn forget(&mut self, text: u64) -> Vec<Leaving> {
        self.misses.forget(text);
        let named = |slot: &Slot| slot.holder().is_some_and(|holder| holder.class.names(text));
        let places: Vec<usize> = (0..CLASS_KEYS).filter(|&at| named(&self.slots[at])).collect();
        places.into_iter().filter_map(|at| self.leave(at)).collect()
    }

    /// The value of the key register for a domain of this view.
    pub fn register(&self, subject: &Subject) -> u32 {
        self.classes().fold(DOMAIN, |register, (key, class)| key.open(register, class.rights(subject)))
    }

    /// How often each key was of use to a thread, of which `called` tells what it has to do with a text. A class that of its texts
    /// only the one may use where it has started, or all may, is of use all the time: nobody sees when. But one in steady use by calls is
    /// hotter. So is one that names more than `most` texts, which nobody looks through.
    pub fn uses(&self, most: usize, called: impl Fn(u64) -> Called) -> Uses {
        let steady = self.stats.misses;
        let mut uses = [0; KEYS];
        for (key, class) in self.classes() {
            if class.named().nth(most).is_some() {
                uses[usize::from(key.number())] = steady;
                continue;
            }
            let by_text = class.named().map(|text| if text == ANY_TEXT { Called::Starts } else { called(text) });
            let (starts, times) = by_text.fold((false, None), |(starts, times), called| match called {
                Called::Never => (starts, times),
                Called::Starts => (true, times),
                Called::Times(more) => (starts, Some(times.unwrap_or(0) + more)),
            });
            uses[usize::from(key.number())] = times.unwrap_or(if starts { steady } else { 0 });
        }
        uses
    }

    /// The keys in use, and whose they are.
    pub fn classes(&self) -> impl Iterator<Item = (Key, &Class)> {
        self.slots.iter().enumerate().filter_map(|(at, slot)| match slot {
            Slot::Held(holder) => Some((Key::at(at), &holder.class)),
            Slot::Free | Slot::Leaving(_) => None,
        })
    }

    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// What is told of each key that a class has (SSS-1).
    pub fn told(&self) -> [Told; CLASS_KEYS] {
        core::array::from_fn(|at| match &self.slots[at] {
            Slot::Held(Holder { class, seen, heat, .. }) => Told {
                text: class.named().find(|text| *text != ANY_TEXT).unwrap_or(ANY_TEXT),
                entries: class.named().count() as u64,
                uses: seen.unwrap_or(0),
                heat: *heat,
            },
            Slot::Free | Slot::Leaving(_) => Told::default(),
        })
    }

    fn slot_of(&self, class: &Class) -> Option<usize> {
        self.slots.iter().position(|slot| slot.holder().is_some_and(|holder| holder.class == *class))
    }

    /// A class that gets a key waits no longer. By the heat that it starts with, two others must be refused before it can
    /// be thrown out. One that has earned it counts as used for [`EARN`] misses: who needs two does not get them by turns.
    fn next_holder(&mut self, class: &Class, earned: bool) -> Holder {
        self.misses.remove(class);
        self.stats.given += 1;
        Holder {
            class: class.clone(),
            seen: None,
            used: self.stats.misses + if earned { u64::from(EARN) } else { 0 },
            heat: 2 * u64::from(EARN),
            since: self.stats.given,
        }
    }

    fn holders(&mut self) -> impl Iterator<Item = (Key, &mut Holder)> {
        self.slots.iter_mut().enumerate().filter_map(|(at, slot)| match slot {
            Slot::Held(holder) | Slot::Leaving(Some(holder)) => Some((Key::at(at), holder)),
            Slot::Free | Slot::Leaving(None) => None,
        })
    }

    /// Takes note of what was used since the last time.
    fn note(&mut self, uses: &Uses) {
        let misses = self.stats.misses;
        for (key, holder) in self.holders() {
            let now = uses[usize::from(key.number())];
            if now == ON_NO_PAGE {
                continue;
            }
            let more = now.saturating_sub(holder.seen.unwrap_or(now));
            if more > 0 {
                holder.heat = holder.heat.saturating_add(more).min(HEAT_MAX);
                holder.used = holder.used.max(misses);
            }
            holder.seen = Some(now);
        }
    }

    /// A key for a class that was missed so often, if it has earned one.
    fn make_room(&mut self, missed: Missed, pinned: impl Fn(&Class) -> bool) -> Option<Leaving> {
        if let Some(since) = missed.stretch {
            self.stats.looks += 1;
            if let Some(at) = self.idle(since, &pinned) {
                return self.leave(at);
            }
        }
        if missed.misses < EARN {
            return None;
        }
        self.stats.looks += 1;
        let coldest = self.coldest(pinned);
        if coldest.is_none() {
            self.age();
        }
        coldest.and_then(|at| self.leave(at))
    }

    /// Nobody was colder than who has earned a key: uses and misses of before count half from now on.
    fn age(&mut self) {
        self.misses.age();
        for (_, holder) in self.holders() {
            holder.heat /= 2;
        }
    }

    /// The key that nobody has used for longest, if nobody has since a miss.
    fn idle(&self, since: u64, pinned: impl Fn(&Class) -> bool) -> Option<usize> {
        let held = self.slots.iter().enumerate().filter_map(|(at, slot)| match slot {
            Slot::Held(holder) if holder.used <= since && !pinned(&holder.class) => Some((at, holder)),
            _ => None,
        });
        held.min_by_key(|(_, holder)| (holder.used, holder.since)).map(|(at, _)| at)
    }

    /// The key that is missed least by its class, if any is missed less than by who has earned one.
    fn coldest(&self, pinned: impl Fn(&Class) -> bool) -> Option<usize> {
        let held = self.slots.iter().enumerate().filter_map(|(at, slot)| match slot {
            Slot::Held(holder) if holder.heat < u64::from(EARN) && !pinned(&holder.class) => Some((at, holder)),
            _ => None,
        });
        held.min_by_key(|(_, holder)| (holder.heat, holder.since)).map(|(at, _)| at)
    }

    /// Takes a key from its class. If it has not come to it yet, who waits for the processors settles it all the same.
    fn leave(&mut self, at: usize) -> Option<Leaving> {
        self.changes += 1;
        match core::mem::replace(&mut self.slots[at], Slot::Leaving(None)) {
            Slot::Held(holder) => Some(Leaving { key: Key::at(at), class: holder.class }),
            Slot::Leaving(_) => None,
            Slot::Free => {
                self.slots[at] = Slot::Free;
                None
            }
        }
    }
}
