//! Argument sections of those who send messages: where their pointers may lead. While a request is served that came with some, its
//! receiver holds the section: should its owner unbind meanwhile, nobody else comes to lie there (decision 13).

use super::deferred::desk;
use super::{Caller, Mutex, Ordering, Vec, section};

#[derive(Clone, Copy)]
struct Lent {
    task: u64,
    text: u64,
    base: u64,
    len: u64,
    /// Who owned it then: at an address that has gone round there may be somebody else's.
    owner: u64,
}

/// Of one program.
const EACH: usize = 16;

static ALL: Mutex<Vec<Lent>> = Mutex::new(Vec::new());

impl Lent {
    fn is_of(&self, caller: &Caller) -> bool {
        (self.task, self.text) == (caller.task, caller.text)
    }

    /// Where a longer one was there may be a shorter one by now, and behind that anybody's.
    fn is_there(&self) -> bool {
        section::owner_of(self.base, self.len) == Ok(self.owner)
    }
}

pub fn remember(caller: &Caller) {
    let (base, len) = (caller.args_base, caller.args_len);
    if len == 0 {
        return;
    }
    let Ok(owner) = section::owner(base) else { return };
    let one = Lent { task: caller.task, text: caller.text, base, len, owner };
    let mut all = ALL.lock();
    if let Some(known) = all.iter_mut().find(|other| other.is_of(caller) && other.base == base) {
        *known = one;
        return;
    }
    // Those that are gone make room, and then the oldest one of this program's.
    if all.len() == all.capacity() || all.iter().filter(|other| other.is_of(caller)).count() >= EACH {
        all.retain(Lent::is_there);
        if all.iter().filter(|other| other.is_of(caller)).count() >= EACH
            && let Some(oldest) = all.iter().position(|other| other.is_of(caller))
        {
            all.remove(oldest);
        }
    }
    all.push(one);
}

/// Whether all these ranges lie in one section that this caller has lent. Then this thread holds it, until the request is answered.
pub fn hold(caller: &Caller, ranges: impl Iterator<Item = (u64, u64)> + Clone) -> bool {
    let covers = |one: &&Lent| {
        ranges.clone().all(|(address, len)| {
            let offset = address.wrapping_sub(one.base);
            offset < one.len && len <= one.len - offset
        })
    };
    let found = ALL.lock().iter().find(|one| one.is_of(caller) && covers(one)).copied();
    let Some(one) = found else { return false };
    if let Ok(Some((_, work))) = desk() {
        work.owes.store(true, Ordering::Relaxed);
    }
    section::hold(one.base, one.len, one.owner).is_ok()
}
