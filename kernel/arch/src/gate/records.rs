//! The records by which a thread makes its calls (abi::gate::Record), where the gate finds them.

use super::{Gate, NoRoom, PAGE, RECORD_LEN, RECORDS, SPAN, prot, set_word, word};
use abi::gate::Record;
use core::mem::offset_of;

impl Gate {
    /// Reads a record by its address.
    pub fn record(&self, address: u64) -> Option<Record> {
        let at = self.at(address).filter(|_| address >= RECORDS && address.is_multiple_of(RECORD_LEN))?;
        let words: [u64; RECORD_LEN as usize / 8] = core::array::from_fn(|i| word(at + 8 * i as u64));
        Some(zerocopy::transmute!(words))
    }

    /// Where the record at this address leads: the domain, and the key register's value there.
    #[inline]
    pub fn lead(&self, address: u64) -> Option<(u32, u32)> {
        let at = self.at(address).filter(|_| address >= RECORDS && address.is_multiple_of(RECORD_LEN))?;
        // Each is half of a word.
        let half = |offset: usize| (word(at + offset as u64 / 8 * 8) >> (offset % 8 * 8)) as u32;
        Some((half(offset_of!(Record, domain)), half(offset_of!(Record, register))))
    }

    /// Another number whenever a record may have changed: what was found of one holds as long as this is the same.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// What was found out by them is to be found out anew.
    pub fn are_changed(&mut self) {
        self.changes += 1;
    }

    /// Writes a record; its counts of gates last, so that it is never used half written.
    ///
    /// # Errors
    /// `NoRoom`.
    pub fn set_record(
        &mut self,
        address: u64,
        record: &Record,
        charge: &mut dyn FnMut() -> bool,
    ) -> Result<(), NoRoom> {
        assert!(address >= RECORDS && address.is_multiple_of(RECORD_LEN));
        let page = address / PAGE * PAGE;
        if !self.pages.contains_key(&page) {
            self.grow(page, prot(false, false), charge)?;
        }
        let at = self.pages[&page] + address % PAGE;
        self.changes += 1;
        let words: [u64; RECORD_LEN as usize / 8] = zerocopy::transmute!(*record);
        for (i, value) in words.iter().enumerate().skip(1) {
            set_word(at + 8 * i as u64, *value);
        }
        set_word(at, words[0]);
        Ok(())
    }

    /// Nobody makes calls by this record any more. Those that are under way go on.
    pub fn clear_record(&mut self, address: u64) {
        self.changes += 1;
        if let (Some(direct), Some(gates)) = (self.at(address), self.at(address + 80)) {
            set_word(direct, 0);
            set_word(gates, 0);
        }
    }

    /// The same of many, of which those that follow each other are found together.
    pub fn clear_records(&mut self, addresses: impl IntoIterator<Item = u64>) {
        self.changes += 1;
        let (mut page, mut frame) = (0, None);
        for address in addresses {
            if address / PAGE * PAGE != page {
                page = address / PAGE * PAGE;
                frame = self.at(page);
            }
            if let Some(frame) = frame {
                let at = frame + address % PAGE;
                set_word(at, 0);
                set_word(at + offset_of!(Record, gates) as u64, 0);
            }
        }
    }

    /// Makes sure that records of a domain can be read up to that of `binding`. Returns the length of what there is.
    ///
    /// # Errors
    /// `NoRoom`.
    pub fn reach(&mut self, domain: u32, binding: u64, charge: &mut dyn FnMut() -> bool) -> Result<u32, NoRoom> {
        let end = (binding + 1) * RECORD_LEN;
        for offset in (0..end).step_by(PAGE as usize) {
            if !self.pages.contains_key(&(records(domain) + offset)) {
                self.grow(records(domain) + offset, prot(false, false), charge)?;
            }
        }
        let mut len = end.next_multiple_of(PAGE);
        while len < SPAN && self.pages.contains_key(&(records(domain) + len)) {
            len += PAGE;
        }
        Ok(len as u32)
    }

    /// Whether a call that came by this record is under way.
    pub fn is_in_use(&self, record: u64) -> bool {
        (0..=self.depth()).any(|depth| self.frame(depth).record == record)
    }
}

/// Address of the records of a domain.
pub fn records(domain: u32) -> u64 {
    RECORDS + u64::from(domain) * SPAN
}

/// The domain that may call by the record at this address.
pub fn domain_of(record: u64) -> u32 {
    ((record - RECORDS) / SPAN) as u32
}

/// Whether a record belongs to no domain: the gate never calls by it.
pub fn is_loose(record: u64) -> bool {
    domain_of(record) == 0
}

/// The binding that the record at this address belongs to.
pub fn binding_of(record: u64) -> u64 {
    (record - RECORDS) % SPAN / RECORD_LEN
}
