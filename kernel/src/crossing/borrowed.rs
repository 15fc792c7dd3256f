//! Calls on the caller's stack: whose frames lie on whose, so that whoever is called back goes on below them.

use crate::claim;
use crate::crossing::FEW;
use crate::domain::Domain;
use crate::thread::{Inner, Thread};
use abi::Error;
use abi::gate::DOORSTEP;
use abi::layout::PAGE;

/// Below a stack pointer a procedure of the C ABI may have words, too.
const RED_ZONE: u64 = 128;

/// A call under way in which the callee runs on its caller's stack.
pub struct Borrowed {
    /// Of its frame.
    pub depth: usize,
    pub lender: u32,
    pub borrower: u32,
}

/// On the caller's stack the doorstep lies below its stack pointer: it can be written to without waiting for anybody, if nothing changes.
pub fn ready_doorstep(thread: &Thread) -> Result<(), Error> {
    let (caller, rsp) = {
        let inner = thread.inner.lock();
        (inner.domain.clone(), inner.area.registers().rsp)
    };
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
        self.borrowed.push(Borrowed { depth, lender, borrower });
        self.look_at_again([lender, borrower]);
    }

    /// The frame at `depth` is off.
    pub(super) fn gives_back(&mut self, depth: usize) {
        while let Some(Borrowed { lender, borrower, .. }) = self.borrowed.pop_if(|one| one.depth >= depth) {
            self.look_at_again([lender, borrower]);
        }
    }

    fn look_at_again(&mut self, domains: [u32; 2]) {
        let leads = domains.iter().filter_map(|number| self.leads.get(number)).flatten().copied().collect::<alloc::vec::Vec<u64>>();
        leads.iter().for_each(|record| self.gate.forget_plain(0, *record));
        if leads.len() > FEW {
            // Each is found out when it is called by next.
            self.gate.clear_records(leads);
        } else {
            self.refresh(&leads);
        }
        for number in domains {
            let Ok(domain) = self.domain_number(number) else { continue };
            self.only_long_ways(&domain);
        }
    }

    /// Whether the domain's stack is lent, or it runs on another one's.
    pub fn has_borrowed(&self, number: u32) -> bool {
        self.borrowed.iter().any(|one| [one.lender, one.borrower].contains(&number))
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
        let as_borrower = self.borrowed.iter().rev().filter(|one| one.borrower == domain.number);
        let mut sp = Some(left).filter(is_own).or_else(|| as_borrower.map(|one| self.gate.frame(one.depth).sp).find(is_own))?;
        for one in self.borrowed.iter().filter(|one| one.lender == domain.number) {
            // Each stack pointer that the borrower has called with since.
            let again = (one.depth + 1..=self.depth()).map(|depth| self.gate.frame(depth));
            let again = again.filter(|frame| self.gate.lead(frame.record).is_some_and(|(to, _)| to == one.borrower));
            let now = (self.domain.number == one.borrower).then(|| self.area.registers().rsp);
            let last = now.unwrap_or_else(|| self.gate.sp(one.borrower));
            let lowest = again.map(|frame| frame.sp).chain([last]).filter(is_own).min()?;
            sp = sp.min(lowest.saturating_sub(RED_ZONE));
        }
        Some(sp)
    }
}
