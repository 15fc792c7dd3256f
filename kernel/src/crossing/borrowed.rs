//! Calls on the caller's stack: whose frames lie on whose, so that whoever is called back goes on below them.

use crate::claim;
use crate::crossing::{FEW, OWN};
use crate::domain::Domain;
use crate::keyed;
use crate::thread::{Inner, Thread};
use abi::Error;
use abi::gate::DOORSTEP;
use abi::layout::PAGE;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use abi::gate::slot;
use arch::gate::records;

/// Below a stack pointer a procedure of the C ABI may have words, too.
const RED_ZONE: u64 = 128;

/// A call under way in which the callee runs on its caller's stack.
struct Borrowed {
    /// Of its frame.
    depth: usize,
    lender: u32,
    borrower: u32,
}

/// The calls of a thread on callers' stacks.
#[derive(Default)]
pub struct Stacks {
    /// Those under way, by depth.
    lent: Vec<Borrowed>,
    /// Domains that have lent or borrowed one and are led to by more than a few records: all those go by the kernel from then on, in place of being found out anew
    /// with each such call and each return.
    aside: BTreeSet<u32>,
}

impl Stacks {
    pub fn is_empty(&self) -> bool {
        self.lent.is_empty()
    }

    /// No gate makes calls into the domain.
    pub fn keeps_out(&self, number: u32) -> bool {
        self.aside.contains(&number) || self.holds(number)
    }

    /// Whether the domain's stack is lent, or it runs on another one's.
    fn holds(&self, number: u32) -> bool {
        self.lent.iter().any(|one| [one.lender, one.borrower].contains(&number))
    }

    /// The domain is no more.
    pub fn forget(&mut self, number: u32) {
        self.aside.remove(&number);
    }
}

/// Before a call by this binding of the present domain on its stack; without locks. The doorstep lies below the stack pointer then: it can be written to without waiting for
/// anybody, if nothing changes.
pub fn ready_doorstep(thread: &Thread, binding: u64) -> Result<(), Error> {
    let (caller, rsp, new) = {
        let inner = &mut *thread.inner.lock();
        let callee = inner.gate.record(records(inner.domain.number) + slot(binding)).map_or(OWN, |record| record.domain);
        let both = [inner.domain.number, callee];
        (inner.domain.clone(), inner.area.registers().rsp, both.map(|number| inner.comes_aside(number).then_some(number)))
    };
    new.into_iter().flatten().for_each(|number| _ = keyed::refresh_leading_to(thread, number));
    claim::ready(&caller, doorstep(&caller, rsp)?, size_of_val(&DOORSTEP) as u64)
}

/// Where it lies: only on the caller's own stack, which one thread may write (pitfalls, H11).
pub fn doorstep(caller: &Domain, rsp: u64) -> Result<u64, Error> {
    let (base, top) = caller.stack;
    if (base + 3 * PAGE..=top).contains(&rsp) { Ok((rsp & !15) - 16) } else { Err(Error::BadAddress) }
}

impl Inner {
    /// Such a call is made, by the frame at `depth`. Until it is over both are called by the kernel's long way alone: where a gate would go on
    /// somebody's frames may lie.
    pub fn borrows(&mut self, depth: usize, lender: u32, borrower: u32) {
        let new = self.not_borrowed(lender, borrower);
        self.borrowed.lent.push(Borrowed { depth, lender, borrower });
        for number in new.into_iter().flatten() {
            // (All that lead there say it already, if they are many: `ready_doorstep`.)
            self.look_at_again(number);
        }
    }

    /// The frame at `depth` is off.
    pub(super) fn gives_back(&mut self, depth: usize) {
        while let Some(Borrowed { lender, borrower, .. }) = self.borrowed.lent.pop_if(|one| one.depth >= depth) {
            for number in self.not_borrowed(lender, borrower).into_iter().flatten() {
                // What has come since the call begun leads by the kernel already.
                self.comes_aside(number);
                self.look_at_again(number);
            }
        }
    }

    /// Those of the two of which no stack is lent and that run on their own: for them it changes how they are called, for others it stays.
    fn not_borrowed(&self, lender: u32, borrower: u32) -> [Option<u32>; 2] {
        let not = |number: u32| (!self.has_borrowed(number)).then_some(number);
        [not(lender), not(borrower).filter(|number| *number != lender)]
    }

    fn look_at_again(&mut self, number: u32) {
        self.forget_plains_to(number);
        if !self.borrowed.aside.contains(&number) {
            let leads: Vec<u64> = self.leads.get(&number).into_iter().flatten().copied().collect();
            self.refresh(&leads);
        }
        if let Ok(domain) = self.domain_number(number) {
            self.only_long_ways(&domain);
        }
    }

    /// Whether the domain is set aside now, and was not before.
    fn comes_aside(&mut self, number: u32) -> bool {
        self.leads.get(&number).is_some_and(|leads| leads.len() > FEW) && self.borrowed.aside.insert(number)
    }

    /// Plain calls to the domain go the long way again.
    pub fn forget_plains_to(&mut self, number: u32) {
        if let Some(leads) = self.leads.get(&number) {
            self.gate.forget_plains(|_, record| leads.contains(&record));
        }
    }

    /// Whether the domain's stack is lent, or it runs on another one's.
    pub fn has_borrowed(&self, number: u32) -> bool {
        self.borrowed.holds(number)
    }

    /// Where the domain's stack was left, which is not what runs now; 0: nowhere, where a borrower has called with a stack pointer of somewhere else.
    #[inline]
    pub fn left_of(&self, domain: &Domain) -> u64 {
        let left = self.gate.sp(domain.number);
        if self.borrowed.is_empty() { left } else { self.below_others(domain, left).unwrap_or(0) }
    }

    #[cold]
    fn below_others(&self, domain: &Domain, left: u64) -> Option<u64> {
        let (base, top) = domain.stack;
        let is_own = |sp: &u64| (base..=top).contains(sp);
        // What runs on its caller's stack goes on with its own where it was left.
        let as_borrower = self.borrowed.lent.iter().rev().filter(|one| one.borrower == domain.number);
        let mut sp = Some(left).filter(is_own).or_else(|| as_borrower.map(|one| self.gate.frame(one.depth).sp).find(is_own))?;
        // Each stack pointer that a borrower has called with since, from the innermost frame on: the lowest of each that is met.
        let (mut lowest, mut end) = (BTreeMap::<u32, u64>::new(), self.depth() + 1);
        for one in self.borrowed.lent.iter().rev().filter(|one| one.lender == domain.number) {
            for frame in (one.depth + 1..end).map(|depth| self.gate.frame(depth)).filter(|frame| is_own(&frame.sp)) {
                if let Some((by, _)) = self.gate.lead(frame.record) {
                    lowest.entry(by).and_modify(|sp| *sp = frame.sp.min(*sp)).or_insert(frame.sp);
                }
            }
            end = one.depth + 1;
            let now = (self.domain.number == one.borrower).then(|| self.area.registers().rsp);
            let last = now.unwrap_or_else(|| self.gate.sp(one.borrower));
            let lowest = lowest.get(&one.borrower).copied().into_iter().chain(Some(last).filter(is_own)).min()?;
            sp = sp.min(lowest.saturating_sub(RED_ZONE));
        }
        Some(sp)
    }
}
