//! A thread's side of the gate: the domains that it has been in, by number, and the records by which it calls
//! (abi::gate; docs/decisions/0006).

mod borrowed;
mod leads;

pub use borrowed::{Stacks, doorstep, ready_doorstep};
pub use leads::Leads;

use crate::domain::Domain;
use crate::epc::{Foreign, More};
use crate::machine::spare_heap_for;
use crate::processor::here;
use crate::section::Section;
use crate::section::valid::Lasts;
use crate::task::Task;
use crate::thread::{Inner, Thread};
use abi::gate::{BINDINGS_MAX, DEPTH_MAX, DONE, DOORSTEP, GATE_BASE, Record, slot};
use abi::{AclEntry, Error};
use alloc::sync::Arc;
use alloc::vec::Vec;
use abi::gate::record;
use arch::gate::{BY_KERNEL, DOMAINS_MAX, MORE, Frame, Gate, NoRoom, Stopped, binding_of, domain_of, records};
use quota::Resource;

/// Records that belong to no binding: of the first frame, of plain calls, of personalities. No domain has this number.
const LOOSE: u32 = 0;
/// Most records of a thread that lead to one domain: as many as two texts can have.
const LEADS_MAX: usize = 2 * BINDINGS_MAX as usize;
/// So many of them are found out anew at a stretch. Of more each is when the thread comes by it.
pub const FEW: usize = 64;
/// Of the first frame.
const FIRST: u64 = 0;
/// Loose records of one thread: more than it can be deep in calls, so that one is always free.
const LOOSE_MAX: u64 = 2 * DEPTH_MAX as u64;
/// As many as are kept though nobody is in a call by them.
const LOOSE_KEPT: u64 = 8;

/// The number of a thread's own domain.
pub const OWN: u32 = 1;

/// Frames of memory for a gate are charged to the thread's task.
fn charge(task: &Task) -> impl FnMut() -> bool {
    || task.charge(Resource::Frames, 1).is_ok()
}

/// Why it was not paid, or not there: it is asked for once more.
#[cold]
#[inline(never)]
fn no_room(task: &Task) -> Error {
    match task.charge(Resource::Frames, 1) {
        Ok(()) => {
            task.release(Resource::Frames, 1);
            Error::NoMemory
        }
        Err(why) => why,
    }
}

/// A gate for a new thread whose own domain it will first run in.
pub fn make_gate(task: &Arc<Task>, own: &Arc<Domain>) -> Result<Gate, Error> {
    spare_heap_for(task)?;
    let mut charged = 0;
    let made = Gate::new(&mut || {
        let is_paid = task.charge(Resource::Frames, 1).is_ok();
        charged += u64::from(is_paid);
        is_paid
    });
    let mut gate = made.map_err(|NoRoom| no_room(task)).inspect_err(|_| task.release(Resource::Frames, charged))?;
    match begin(&mut gate, task, own) {
        Ok(()) => Ok(gate),
        Err(error) => {
            task.release(Resource::Frames, gate.owned());
            Err(error)
        }
    }
}

fn begin(gate: &mut Gate, task: &Arc<Task>, own: &Arc<Domain>) -> Result<(), Error> {
    let address = records(LOOSE) + slot(FIRST);
    let record = Record { cell: arch::gate::cell(OWN), records: records(OWN), domain: OWN, register: arch::gate::REGISTER_PLAIN, ..Record::default() };
    gate.set_record(address, &record, &mut charge(task)).map_err(|NoRoom| no_room(task))?;
    gate.set_frame(0, Frame { rip: BY_KERNEL | MORE, sp: 0, record: address });
    gate.add_domain(OWN, own.stack.1.saturating_sub(16), own.root(), &mut charge(task)).map_err(|NoRoom| no_room(task))
}

impl Inner {
    /// The thread has entered the kernel. Where it was, if between two programs; it is brought to where it can go on.
    #[inline(always)]
    pub fn entered(&mut self) -> Stopped {
        let registers = self.area.registers_mut();
        self.vector = registers.vector;
        let at = registers.rip;
        let stopped = self.gate.rewind(registers);
        if stopped != Stopped::Outside {
            here().counters.stopped(at.wrapping_sub(GATE_BASE));
        }
        self.sync();
        stopped
    }

    /// Takes over what the gate has done since the kernel last looked.
    #[inline(always)]
    pub fn sync(&mut self) {
        if self.gate.is_at(self.seen.0, self.seen.1) {
            return;
        }
        let depth = self.gate.depth();
        let now = (depth, self.gate.frame(depth).record);
        if let Some((domain, register)) = self.gate.lead(now.1) {
            self.register = register;
            if let Some(Some(domain)) = self.domains.get(domain as usize) {
                self.domain = domain.clone();
            }
        }
        self.seen = now;
    }

    /// Calls that the thread is deep in.
    pub fn depth(&self) -> usize {
        self.gate.depth()
    }

    pub fn domain_number(&self, number: u32) -> Result<Arc<Domain>, Error> {
        self.domains.get(number as usize).cloned().flatten().ok_or(Error::NotFound)
    }

    /// The domain that called the present one.
    pub fn caller(&self) -> Option<Arc<Domain>> {
        let below = self.depth().checked_sub(1)?;
        let (domain, _) = self.gate.lead(self.gate.frame(below).record)?;
        self.domain_number(domain).ok()
    }

    /// What the frame on top does not hold.
    pub fn more(&self) -> Option<&Foreign> {
        self.more.last().filter(|(depth, _)| *depth == self.depth()).and_then(|(_, more)| more.foreign())
    }

    /// What let callees run on the thread's stacks in calls that it has left, to be taken back.
    pub fn take_stacks(&mut self) -> Vec<(usize, Arc<Section>, AclEntry)> {
        let depth = self.depth();
        match self.stacks.iter().position(|(at, ..)| *at > depth) {
            Some(first) => self.stacks.split_off(first),
            None => Vec::new(),
        }
    }

    /// Leaves the innermost call: its frame is gone, the caller's domain is the thread's.
    pub fn pop(&mut self) -> Option<(Frame, Option<More>)> {
        let depth = self.depth();
        if depth == 0 {
            return None;
        }
        let frame = self.gate.frame(depth);
        if let Some((domain, _)) = self.gate.lead(frame.record) {
            self.gate.set_sp(domain, frame.sp);
        }
        // What lies above it is over, too, and not to be taken for more than that.
        (depth..=DEPTH_MAX.min(depth + 1)).for_each(|at| self.gate.forget_frame(at));
        self.gate.set_top(depth - 1);
        self.gives_back(depth);
        self.forget_handled(depth - 1);
        let more = if self.more.last().is_some_and(|(at, _)| *at == depth) {
            self.more.pop().map(|(_, more)| more)
        } else {
            self.asked.take_if(|asked| asked.serves(depth)).and_then(|asked| asked.unfold()).map(More::Served)
        };
        self.sync();
        Some((frame, more))
    }

    /// The call there is left through the kernel only, and by its long way.
    pub fn leave_by_kernel(&mut self, depth: usize) {
        if depth > 0 {
            let frame = self.gate.frame(depth);
            self.gate.set_frame(depth, Frame { rip: frame.rip | BY_KERNEL | MORE, ..frame });
        }
    }

    /// From calls of this domain that are under way the thread comes back by the kernel's long way: it does not live any more where the gate would go on with it.
    pub fn comes_back_by_kernel(&mut self, number: u32) {
        for depth in 1..=self.depth() {
            let is_its = self.gate.lead(self.gate.frame(depth - 1).record).is_some_and(|(caller, _)| caller == number);
            if is_its {
                self.leave_by_kernel(depth);
            }
        }
    }

    /// Writes the record of a binding of the present domain.
    pub fn set_record(&mut self, thread: &Thread, address: u64, record: &Record) -> Result<(), Error> {
        spare_heap_for(&thread.task)?;
        // A call under way came by it: what its callee was told stays (abi::gate::Record), and by what the kernel deals with its faults.
        let told = |r: &Record| (r.domain, r.entry, r.cookie, r.args_base, r.args_len, r.flags);
        if let Some(old) = self.gate.record(address)
            && told(&old) != told(record)
            && self.gate.is_in_use(address)
        {
            return Err(Error::Busy);
        }
        let from = self.domain.number;
        let len = self.gate.reach(from, binding_of(address), &mut charge(&thread.task)).map_err(|NoRoom| no_room(&thread.task))?;
        self.lengthen(len);
        self.write(thread, address, record)
    }

    /// Makes room for what plain calls keep.
    pub fn make_plain(&mut self, thread: &Thread) -> Result<(), Error> {
        spare_heap_for(&thread.task)?;
        self.gate.make_plain(&mut charge(&thread.task)).map_err(|NoRoom| no_room(&thread.task))
    }

    /// A record for a call without a binding, that no other call under way came by.
    pub fn loose_record(&mut self, thread: &Thread, record: &Record) -> Result<u64, Error> {
        let full = self.complete(records(LOOSE), record);
        let all = || (FIRST + 1..LOOSE_MAX).map(|number| records(LOOSE) + slot(number));
        let mut empty = None;
        for address in all() {
            match self.gate.record(address).filter(|old| old.domain != 0) {
                Some(old) if old == full => {
                    // Where the one before it of this number has ended, nobody knows any more that it leads there.
                    self.leads.insert(&thread.task, record.domain, address);
                    return Ok(address);
                }
                Some(_) => {}
                None => {
                    empty = Some(address);
                    break;
                }
            }
        }
        // Some are kept, so that what is called in turn is found again.
        let at_hand = empty.filter(|address| *address < records(LOOSE) + slot(FIRST + 1 + LOOSE_KEPT));
        // Not always the same one goes, or two that are called in turn would take each other's place.
        let first = self.gate.changes() % LOOSE_KEPT;
        let kept = (0..LOOSE_KEPT).map(|n| records(LOOSE) + slot(FIRST + 1 + (first + n) % LOOSE_KEPT));
        let written = all().skip(LOOSE_KEPT as usize).take_while(|address| Some(*address) != empty);
        let unused = || kept.chain(written).find(|address| !self.gate.is_in_use(*address));
        let address = at_hand.or_else(unused).or(empty).ok_or(Error::TooBig)?;
        self.gate.forget_plain(LOOSE, address);
        self.write(thread, address, record)?;
        Ok(address)
    }

    fn write(&mut self, thread: &Thread, address: u64, record: &Record) -> Result<(), Error> {
        // What becomes of a domain is written into all records that lead to it. (Loose ones have a limit of their own.)
        let is_full = |leads: &Leads| leads.get(&record.domain).is_some_and(|all| all.len() >= LEADS_MAX && !all.contains(&address));
        if is_full(&self.leads) {
            let gate = &self.gate;
            self.leads.retain(record.domain, |at| gate.record(at).is_some_and(|one| one.domain == record.domain));
            if is_full(&self.leads) && !arch::gate::is_loose(address) {
                return Err(Error::TooBig);
            }
        }
        let full = self.complete(address, record);
        self.gate.set_record(address, &full, &mut charge(&thread.task)).map_err(|NoRoom| no_room(&thread.task))?;
        self.leads.insert(&thread.task, record.domain, address);
        Ok(())
    }

    /// What follows from the domains that a record leads from and to.
    pub fn complete(&self, address: u64, record: &Record) -> Record {
        self.complete_with(address, record, self.register_of(record.domain))
    }

    /// The key register in a domain.
    pub fn register_of(&self, number: u32) -> u32 {
        let domain = self.domains.get(number as usize).and_then(Option::as_ref).filter(|domain| domain.is_keyed());
        let register = domain.and_then(|domain| domain.task_view.as_ref().map(|keys| keys.register(domain)));
        register.unwrap_or(arch::gate::REGISTER_PLAIN)
    }

    /// The same where that is known.
    pub fn complete_with(&self, address: u64, record: &Record, register: u32) -> Record {
        let to = self.domains.get(record.domain as usize).and_then(Option::as_ref);
        let from = self.domains.get(domain_of(address) as usize).and_then(Option::as_ref);
        let keyed = |domain: Option<&Arc<Domain>>| domain.is_some_and(|domain| domain.is_keyed());
        let direct = record.flags & record::BY_KERNEL == 0 && keyed(from) && keyed(to) && !self.borrowed.keeps_out(record.domain);
        Record {
            cell: arch::gate::cell(record.domain),
            records: records(record.domain),
            records_len: self.reach.get(&record.domain).copied().unwrap_or(0),
            register,
            direct: if direct { record.gates } else { 0 },
            back: if direct { DONE } else { DOORSTEP },
            ..*record
        }
    }

    /// The records of the present domain go further now: all that lead to it say so. Of many only the one says it that the thread has come by, and each other one
    /// when it comes by that ([`Inner::reaches`]).
    fn lengthen(&mut self, len: u32) {
        let domain = self.domain.number;
        if self.reach.insert(domain, len) == Some(len) {
            return;
        }
        let leads = self.leads.get(&domain).filter(|leads| leads.len() <= FEW);
        for address in leads.into_iter().flatten() {
            if let Some(record) = self.gate.record(*address) {
                let longer = Record { records_len: len, ..record };
                let _ = self.gate.set_record(*address, &longer, &mut || false);
            }
        }
        self.reaches();
    }

    /// The record that the present domain was entered by says how far its own go. (Beyond that the kernel makes its calls, by the long way.)
    pub fn reaches(&mut self) {
        let Some(&len) = self.reach.get(&self.domain.number) else { return };
        let address = self.gate.frame(self.depth()).record;
        if let Some(record) = self.gate.record(address).filter(|record| record.domain == self.domain.number && record.records_len != len) {
            let _ = self.gate.set_record(address, &Record { records_len: len, ..record }, &mut || false);
        }
    }

    /// Whether calls into a domain may ever do without the kernel: by the record that one is about to go by, or one of a few others. (It is asked anew by each
    /// that goes the long way.)
    pub fn may_be_called_directly(&self, by: &Record) -> bool {
        let may = |record: &Record| record.gates > 0 && record.flags & record::BY_KERNEL == 0;
        let leads = self.leads.get(&by.domain).into_iter().flatten().take(FEW);
        self.domain.task_view.is_some() && (may(by) || leads.copied().any(|at| self.gate.record(at).as_ref().is_some_and(may)))
    }

    /// Gives a new domain its number, cell and root.
    pub fn add_domain(&mut self, thread: &Thread, number: u32, domain: Arc<Domain>) -> Result<(), Error> {
        let sp = domain.stack.1.saturating_sub(16);
        self.gate.add_domain(number, sp, domain.root(), &mut charge(&thread.task)).map_err(|NoRoom| no_room(&thread.task))?;
        while self.domains.len() <= number as usize {
            self.domains.push(None);
        }
        self.domains[number as usize] = Some(domain);
        Ok(())
    }

    /// A number for a new domain.
    pub fn free_number(&self) -> Result<u32, Error> {
        let number = (OWN as usize..self.domains.len()).find(|&n| self.domains[n].is_none()).unwrap_or(self.domains.len().max(1));
        if number < DOMAINS_MAX as usize { Ok(number as u32) } else { Err(Error::TooBig) }
    }

    /// Whether a call into this domain is under way, or it is the thread's own.
    pub fn is_inside(&self, number: u32) -> bool {
        (0..=self.depth()).any(|depth| self.gate.lead(self.gate.frame(depth).record).is_some_and(|(to, _)| to == number))
    }

    /// How many records of its own calls a domain may have had.
    pub fn records_of(&self, number: u32) -> u64 {
        self.reach.get(&number).map_or(0, |len| u64::from(*len).div_ceil(slot(1)))
    }

    /// Forgets a domain that the thread is not inside of.
    pub fn drop_domain(&mut self, number: u32) -> Option<Arc<Domain>> {
        self.gate.clear_records(self.leads.remove(number));
        self.gate.forget_plain(number, 0);
        // Its own calls: nobody can make them, and the next domain of this number finds none.
        self.gate.clear_records((0..self.records_of(number)).map(|binding| records(number) + slot(binding)));
        self.reach.remove(&number);
        self.borrowed.forget(number);
        // What it was found to be allowed the next one of this number may not be.
        (self.last, self.passed) = (Lasts::new(), None);
        self.asked.take_if(|asked| asked.level().is_none());
        self.domains[number as usize].take()
    }
}
