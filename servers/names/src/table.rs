//! Who has which name. `owner` tells the task that answers for a gate, and that it is still there.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::Error;
use musubi::abi::task::USER_SYSTEM;
use musubi::interfaces::names::NAME_MAX;
use musubi::rt::serve::Seldom;

/// More names than any system of programs needs, so that none can use up the memory.
const MAX: usize = 4096;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub gate: u64,
    pub task: u64,
    /// It stays while nobody answers there: whoever did is being restarted where he stood.
    pub stands: bool,
}

/// With fewer names than this nobody looks for dead ones among them.
const FEW: usize = 16;
/// So often dead ones are looked for at most because somebody is refused.
const LOOK_NS: u64 = 20_000_000;

pub struct Table {
    entries: BTreeMap<String, Entry>,
    /// With so many names the dead ones are thrown out before another is added.
    full: usize,
    /// Names that nobody has any more.
    gone: Vec<String>,
    /// When they were looked for last because somebody was refused.
    looked: Seldom,
}

impl Table {
    pub const fn new() -> Table {
        Table { entries: BTreeMap::new(), full: FEW, gone: Vec::new(), looked: Seldom::new(LOOK_NS) }
    }

    /// Throws the dead out. The next time is when there are twice as many names as now live, so that the dead are never
    /// more than that and each name is looked at a few times only.
    fn sweep(&mut self, owner: impl Fn(u64) -> Option<u64>) {
        let dead = self.entries.extract_if(.., |_, entry| !entry.alive(&owner));
        self.gone.extend(dead.map(|one| one.0));
        self.full = (2 * self.entries.len()).clamp(FEW, MAX);
    }

    /// Whether there is room for one more of this task's: a person's programs have no more names than they leave to others. (Below half of all
    /// they never have.)
    fn has_room(&self, task: u64, user: impl Fn(u64) -> Option<u64>) -> bool {
        // Those that are not forgotten yet take a place where all are kept.
        let left = MAX.saturating_sub(self.entries.len() + self.gone.len());
        if left > MAX / 2 {
            return true;
        }
        let own = user(task);
        if own == Some(USER_SYSTEM) {
            return left > 0;
        }
        let mut is_own = BTreeMap::new();
        let of_own = |one: &&Entry| *is_own.entry(one.task).or_insert_with(|| user(one.task) == own);
        self.entries.values().filter(of_own).count() < left
    }

    /// What `name` is to stand for if it is given to `gate` of `task`, unless another task that is still there has it. One of the system's gets
    /// it from a person's: or whoever is faster could keep the system from offering a service, and offer it himself. Nothing is given yet.
    pub fn entry_for(
        &mut self,
        name: &str,
        gate: u64,
        task: u64,
        owner: impl Fn(u64) -> Option<u64>,
        user: impl Fn(u64) -> Option<u64>,
    ) -> Result<Entry, Error> {
        let is_system = |task| user(task) == Some(USER_SYSTEM);
        let proper = !name.is_empty() && name.chars().all(|c| !c.is_control() && !c.is_whitespace());
        if !proper {
            return Err(Error::BadArgument);
        }
        if name.len() > NAME_MAX {
            return Err(Error::TooBig);
        }
        let mut stands = false;
        match self.entries.get(name) {
            // The next one where it stood is the only one that may have it.
            Some(entry) if entry.stands && entry.gate == gate && owner(gate) == Some(task) => stands = true,
            Some(entry) if entry.task != task && entry.alive(&owner) && (!is_system(task) || is_system(entry.task)) => {
                return Err(Error::Exists);
            }
            Some(_) => {}
            None => {
                if self.entries.len() >= self.full {
                    self.sweep(&owner);
                }
                if !self.has_room(task, &user) {
                    return Err(Error::Quota);
                }
            }
        }
        Ok(Entry { gate, task, stands })
    }

    /// From now on the name stands for that.
    pub fn enter(&mut self, name: String, entry: Entry) {
        self.is_forgotten(&name);
        self.entries.insert(name, entry);
    }

    /// Somebody was refused: the dead are thrown out, if that was not done just now. Whether it was, and he may find room.
    pub fn makes_room(&mut self, now: u64, owner: impl Fn(u64) -> Option<u64>) -> bool {
        let may = self.looked.may(now);
        if may {
            self.sweep(owner);
        }
        may
    }

    /// As it was known before.
    pub fn restore(&mut self, name: String, entry: Entry) {
        self.entries.insert(name, entry);
        self.full = self.full.max(self.entries.len()).min(MAX);
    }

    /// What a name is to stand for if it stands, or does not, from now on.
    pub fn standing(&self, name: &str, stands: bool) -> Result<Entry, Error> {
        self.entries.get(name).map(|entry| Entry { stands, ..*entry }).ok_or(Error::NotFound)
    }

    pub fn lookup(&mut self, name: &str, owner: impl Fn(u64) -> Option<u64>) -> Option<Entry> {
        let entry = *self.entries.get(name)?;
        if entry.alive(&owner) {
            return Some(entry);
        }
        self.remove(name);
        None
    }

    fn remove(&mut self, name: &str) {
        self.gone.extend(self.entries.remove_entry(name).map(|one| one.0));
    }

    /// A name that has gone, and is to be forgotten where it is kept.
    pub fn gone(&self) -> Option<String> {
        self.gone.last().cloned()
    }

    /// It is, or has come back.
    pub fn is_forgotten(&mut self, name: &str) {
        if self.gone.pop_if(|last| last == name).is_none() {
            self.gone.retain(|one| one != name);
        }
    }

    /// Whether this task may take a name back.
    pub fn may_withdraw(&self, name: &str, task: u64) -> Result<(), Error> {
        match self.entries.get(name) {
            None => Err(Error::NotFound),
            Some(entry) if entry.task != task => Err(Error::Denied),
            Some(_) => Ok(()),
        }
    }

    /// It is taken back, and forgotten where it was kept: before that the next server would know it.
    pub fn withdraw(&mut self, name: &str) {
        self.entries.remove(name);
        self.is_forgotten(name);
    }

    pub fn nth(&mut self, index: u64, owner: impl Fn(u64) -> Option<u64>) -> Option<String> {
        self.sweep(owner);
        self.entries.keys().nth(usize::try_from(index).ok()?).cloned()
    }
}

impl Entry {
    /// Addresses are not soon used again, and if one is, another task owns it.
    pub fn alive(&self, owner: impl Fn(u64) -> Option<u64>) -> bool {
        self.stands || owner(self.gate) == Some(self.task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERSON: u64 = USER_SYSTEM + 1;

    fn entry(gate: u64, task: u64) -> Entry {
        Entry { gate, task, stands: false }
    }

    impl Table {
        fn publish(
            &mut self,
            name: String,
            gate: u64,
            task: u64,
            owner: impl Fn(u64) -> Option<u64>,
            user: impl Fn(u64) -> Option<u64>,
        ) -> Result<Entry, Error> {
            let entry = self.entry_for(&name, gate, task, owner, user)?;
            self.enter(name, entry);
            Ok(entry)
        }

        fn gate(&mut self, name: &str, owner: impl Fn(u64) -> Option<u64>) -> Option<u64> {
            self.lookup(name, owner).map(|entry| entry.gate)
        }

        fn take_back(&mut self, name: &str, task: u64) -> Result<(), Error> {
            self.may_withdraw(name, task)?;
            self.withdraw(name);
            Ok(())
        }

        /// As far as `forget` does it.
        fn forget_gone(&mut self, forget: impl Fn(&str) -> bool) {
            while let Some(name) = self.gone().filter(|name| forget(name)) {
                self.is_forgotten(&name);
            }
        }

        fn stand(&mut self, name: &str, stands: bool) -> Result<Entry, Error> {
            let entry = self.standing(name, stands)?;
            self.enter(name.into(), entry);
            Ok(entry)
        }
    }

    /// By tasks of whom none is the system's.
    fn publish(
        table: &mut Table,
        name: String,
        gate: u64,
        task: u64,
        owner: impl Fn(u64) -> Option<u64>,
    ) -> Result<Entry, Error> {
        table.publish(name, gate, task, owner, |_| Some(PERSON))
    }

    #[test]
    fn the_system_gets_a_name_from_a_person() {
        let mut table = Table::new();
        let alive = |gate: u64| Some(gate / 100);
        let mut by = |task: u64| {
            table.publish("passing".into(), 100 * task, task, alive, |task| {
                Some(if task < 10 { USER_SYSTEM } else { PERSON })
            })
        };
        assert_eq!(by(20), Ok(entry(2000, 20)));
        assert_eq!(by(21), Err(Error::Exists), "a person's program from another's");
        assert_eq!(by(3), Ok(entry(300, 3)));
        assert_eq!(by(20), Err(Error::Exists));
        assert_eq!(by(4), Err(Error::Exists), "the system's among themselves");
        assert_eq!(table.gate("passing", alive), Some(300));
    }

    #[test]
    fn a_name_that_stands_waits_for_the_next_one_there() {
        let mut table = Table::new();
        let nobody = |_: u64| None;
        assert_eq!(table.stand("pipes", true), Err(Error::NotFound));
        assert_eq!(publish(&mut table, "pipes".into(), 100, 1, |_| Some(1)), Ok(entry(100, 1)));
        assert_eq!(table.stand("pipes", true), Ok(Entry { stands: true, ..entry(100, 1) }));
        assert_eq!(table.gate("pipes", nobody), Some(100));
        assert_eq!(table.nth(0, nobody).as_deref(), Some("pipes"));
        let stranger = |gate: u64| (gate == 200).then_some(9);
        assert_eq!(publish(&mut table, "pipes".into(), 200, 9, stranger), Err(Error::Exists));
        assert_eq!(publish(&mut table, "pipes".into(), 100, 9, stranger), Err(Error::Exists), "a gate of nobody's");
        assert_eq!(
            publish(&mut table, "pipes".into(), 100, 2, |_| Some(2)),
            Ok(Entry { stands: true, ..entry(100, 2) })
        );
        assert_eq!(table.take_back("pipes", 1), Err(Error::Denied));
        assert_eq!(table.stand("pipes", false), Ok(entry(100, 2)));
        assert_eq!(table.gate("pipes", nobody), None);
        table.restore("pipes".into(), Entry { stands: true, ..entry(100, 3) });
        assert_eq!(table.gate("pipes", nobody), Some(100));
    }

    #[test]
    fn a_name_belongs_to_its_task_while_that_lives() {
        let alive = |gate: u64| Some(gate / 100);
        let mut table = Table::new();
        assert_eq!(publish(&mut table, "counter".into(), 100, 1, alive), Ok(entry(100, 1)));
        assert_eq!(publish(&mut table, "counter".into(), 200, 2, alive), Err(Error::Exists));
        assert_eq!(publish(&mut table, "counter".into(), 101, 1, alive), Ok(entry(101, 1)), "the owner may change it");
        assert_eq!(table.gate("counter", alive), Some(101));
        assert_eq!(table.take_back("counter", 2), Err(Error::Denied));
        let one_is_dead = |gate: u64| (gate / 100 != 1).then_some(gate / 100);
        assert_eq!(publish(&mut table, "counter".into(), 200, 2, one_is_dead), Ok(entry(200, 2)));
        assert_eq!(table.gate("counter", alive), Some(200));
        assert_eq!(table.gate("counter", |_| None), None);
        assert_eq!(table.nth(0, alive), None, "a dead name is forgotten");
    }

    #[test]
    fn who_may_not_withdraws_nothing() {
        let mut table = Table::new();
        assert_eq!(table.take_back("counter", 1), Err(Error::NotFound));
        assert_eq!(publish(&mut table, "counter".into(), 100, 1, |_| Some(1)), Ok(entry(100, 1)));
        assert_eq!(table.take_back("counter", 2), Err(Error::Denied));
        assert_eq!(table.gate("counter", |_| Some(1)), Some(100));
        // Somebody finds it dead while it is being forgotten: it is not asked for once more.
        assert_eq!(table.may_withdraw("counter", 1), Ok(()));
        assert_eq!(table.gate("counter", |_| None), None);
        table.withdraw("counter");
        table.forget_gone(|name| panic!("{name} is forgotten already"));
    }

    #[test]
    fn the_dead_do_not_gather() {
        let mut table = Table::new();
        for n in 0..1000u64 {
            // Of the tasks that published, the last three live.
            let alive = |gate: u64| (gate + 3 > n).then_some(gate);
            assert_eq!(publish(&mut table, alloc::format!("peer-{n}"), n, n, alive), Ok(entry(n, n)));
            assert!(table.entries.len() <= FEW, "{n}");
        }
        assert_eq!(table.gate("peer-999", Some), Some(999));
        let gone = core::cell::RefCell::new(Vec::new());
        let left = table.entries.len();
        table.forget_gone(|_| false);
        table.forget_gone(|name| {
            gone.borrow_mut().push(String::from(name));
            gone.borrow().len() < 10
        });
        assert_eq!(gone.borrow().len(), 10, "whoever refuses is not asked for more");
        // One that comes back is not to be forgotten.
        let back = gone.borrow_mut().pop().unwrap();
        table.enter(back.clone(), entry(1, 1));
        table.forget_gone(|name| {
            gone.borrow_mut().push(String::from(name));
            true
        });
        assert_eq!(gone.borrow().len() + 1 + left, 1000, "each is told of once");
        assert!(!gone.borrow().contains(&back) && table.entries.remove(&back).is_some());
        assert!(gone.borrow().iter().all(|name| !table.entries.contains_key(name)));
    }

    #[test]
    fn names_are_limited() {
        let mut table = Table::new();
        let mut asked = core::cell::Cell::new(0);
        for n in 0..MAX as u64 {
            let alive = |gate: u64| {
                asked.set(asked.get() + 1);
                Some(gate)
            };
            let system = |_| Some(USER_SYSTEM);
            assert_eq!(table.publish(alloc::format!("{n}"), n, n, alive, system), Ok(entry(n, n)));
        }
        assert!(*asked.get_mut() < 2 * MAX, "each name is looked at a few times");
        assert_eq!(publish(&mut table, "more".into(), 1, 1, Some), Err(Error::Quota));
        let one = |gate| (gate == 1).then_some(1);
        assert_eq!(
            publish(&mut table, "more".into(), 1, 1, one),
            Err(Error::Quota),
            "not forgotten where all are kept"
        );
        table.forget_gone(|_| true);
        assert_eq!(publish(&mut table, "more".into(), 1, 1, one), Ok(entry(1, 1)));
    }

    #[test]
    fn a_person_leaves_names_to_others() {
        let mut table = Table::new();
        let mut most = |task: u64, user: u64| {
            let user = |of: u64| Some(if of == task { user } else { PERSON });
            (0..MAX).take_while(|n| table.publish(alloc::format!("{task}-{n}"), task, task, Some, user).is_ok()).count()
        };
        assert_eq!([most(10, PERSON), most(11, PERSON)], [MAX / 2, 0]);
        assert_eq!(most(12, PERSON + 1), MAX / 4);
        assert_eq!(most(13, USER_SYSTEM), MAX / 4);
    }

    #[test]
    fn odd_names_are_refused() {
        let mut table = Table::new();
        for name in ["", "a b", "a\n", "\u{1b}[2J"] {
            assert_eq!(publish(&mut table, name.into(), 1, 0, |_| Some(0)), Err(Error::BadArgument), "{name:?}");
        }
        assert_eq!(publish(&mut table, "x".repeat(65), 1, 0, |_| Some(0)), Err(Error::TooBig));
    }
}
