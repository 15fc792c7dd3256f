//! A machine of one view: pages with keys, and processors that remember translations and the register they were given.
//! One page stands for each section.

use super::*;
use acl::Acl;
use std::collections::BTreeMap;

/// A duty that the machine can neglect, to see whether that is found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neglect {
    Nothing,
    /// The pages of a class stay mapped when its key goes.
    Pages,
    /// Processors keep their translations.
    Translations,
    /// Processors keep their register.
    Registers,
    /// Only the first processor is told.
    OtherProcessors,
    /// A key is used by its next class before the last one has left.
    Waiting,
    /// What is mapped for one thread stays mapped for the next on the processor.
    Stacks,
    /// A section's pages keep their key when its list changes.
    Retagging,
}

#[derive(Clone, Copy)]
struct Entry {
    key: Key,
    write: bool,
}

struct Processor {
    domain: Subject,
    register: u32,
    translations: BTreeMap<usize, Entry>,
    /// The class that the running domain used last.
    in_use: Option<Class>,
}

pub struct Section {
    pub acl: Acl,
    /// It is the stack of this thread.
    pub own: Option<u64>,
}

pub struct Machine {
    neglect: Neglect,
    pub keys: Keys,
    pub sections: Vec<Section>,
    entries: BTreeMap<usize, Entry>,
    processors: Vec<Processor>,
    uses: [u64; 16],
    /// Keys to be cleared, and how far that has come: the pages first, then one processor after the other.
    duties: Vec<(Leaving, usize)>,
}

impl Machine {
    pub fn new(neglect: Neglect, sections: Vec<Section>, domains: &[Subject]) -> Machine {
        let keys = Keys::new();
        let processor = |&domain: &Subject| Processor {
            domain,
            register: keys.register(&domain),
            translations: BTreeMap::new(),
            in_use: None,
        };
        let processors = domains.iter().map(processor).collect();
        let (entries, duties) = (BTreeMap::new(), Vec::new());
        Machine { neglect, keys, sections, entries, processors, uses: [0; 16], duties }
    }

    pub fn domain(&self, processor: usize) -> Subject {
        self.processors[processor].domain
    }

    pub fn switch(&mut self, processor: usize, domain: Subject) {
        let register = self.keys.register(&domain);
        let processor = &mut self.processors[processor];
        if processor.domain.thread != domain.thread && self.neglect != Neglect::Stacks {
            processor.translations.retain(|section, _| self.sections[*section].own.is_none());
        }
        processor.in_use = None;
        (processor.domain, processor.register) = (domain, register);
    }

    /// What the processor would do without a fault: loads, stores.
    pub fn lets(&self, processor: usize, section: usize) -> (bool, bool) {
        let processor = &self.processors[processor];
        let mapped_for = |own: Option<u64>| own.is_none_or(|own| own == processor.domain.thread);
        let walk = || self.entries.get(&section).filter(|_| mapped_for(self.sections[section].own));
        let Some(entry) = processor.translations.get(&section).or_else(walk) else { return (false, false) };
        let (read, write) = says(processor.register, entry.key.number());
        (read, write && entry.write)
    }

    /// An access of the domain that runs there, by whatever way; whether it happens.
    pub fn access(&mut self, at: usize, section: usize, write: bool) -> bool {
        if self.without_fault(at, section, write) {
            return true;
        }
        let domain = self.processors[at].domain;
        let Section { acl, own } = &self.sections[section];
        let needed = if write { Rights::READ | Rights::WRITE } else { Rights::READ };
        if !acl.rights(&domain).contains(needed) {
            return false;
        }
        if own.is_some_and(|own| own != domain.thread) {
            return true; // In a view of its own.
        }
        let class = Class::of(acl.entries(), &TASK, *own);
        let pinned = |other: &Class| self.processors[at].in_use.as_ref() == Some(other);
        let key = match self.keys.earn(&class, pinned, Some(&self.uses)) {
            Want::None => return true, // In a view of its own.
            Want::Has(key) | Want::Take { key, evicted: None } => key,
            Want::Take { key, evicted: Some(leaving) } => {
                self.duties.push((leaving, 0));
                if self.neglect != Neglect::Waiting {
                    return true;
                }
                key
            }
        };
        self.entries.insert(section, Entry { key, write: class.writable() });
        let register = self.keys.register(&domain);
        let processor = &mut self.processors[at];
        processor.translations.remove(&section);
        processor.register = register;
        processor.in_use = Some(class);
        // A machine that neglects nothing does not fault twice.
        self.without_fault(at, section, write) || self.neglect != Neglect::Nothing
    }

    /// An access by the hardware alone. The processor remembers the translation.
    fn without_fault(&mut self, at: usize, section: usize, write: bool) -> bool {
        let (loads, stores) = self.lets(at, section);
        let done = if write { stores } else { loads };
        if let Some(entry) = self.entries.get(&section).filter(|_| done) {
            let entry = *self.processors[at].translations.entry(section).or_insert(*entry);
            self.uses[usize::from(entry.key.number())] += 1;
        }
        done
    }

    /// Changes a list. When it has changed, no processor can use the page by what was cached.
    pub fn change(&mut self, section: usize, change: impl FnOnce(&mut Acl)) {
        change(&mut self.sections[section].acl);
        if self.neglect != Neglect::Retagging {
            self.entries.remove(&section);
            for processor in &mut self.processors {
                processor.translations.remove(&section);
            }
        }
    }

    /// A text ends: no list and no key names it any more.
    pub fn end(&mut self, text: u64) {
        for section in 0..self.sections.len() {
            if self.sections[section].acl.entries().iter().any(|entry| entry.text == text) {
                self.change(section, |acl| _ = acl.forget_text(text));
            }
        }
        self.duties.extend(self.keys.forget(text).into_iter().map(|leaving| (leaving, 0)));
    }

    /// Gives up the keys that are on no page.
    pub fn tidy(&mut self) {
        let unused = |key: Key| self.entries.values().all(|entry| entry.key != key);
        let classes: Vec<Class> =
            self.keys.classes().filter(|(key, _)| unused(*key)).map(|(_, class)| class.clone()).collect();
        self.duties.extend(classes.iter().filter_map(|class| self.keys.give_up(class)).map(|leaving| (leaving, 0)));
    }

    /// One step towards clearing a key. Several keys can be under way at once.
    pub fn progress(&mut self, nth: usize) {
        if self.duties.is_empty() {
            return;
        }
        let nth = nth % self.duties.len();
        let (leaving, step) = &mut self.duties[nth];
        match *step {
            0 if self.neglect != Neglect::Pages => self.entries.retain(|_, entry| entry.key != leaving.key()),
            0 => {}
            step if step == 1 || self.neglect != Neglect::OtherProcessors => {
                let processor = &mut self.processors[step - 1];
                if self.neglect != Neglect::Translations {
                    processor.translations.clear();
                }
                if self.neglect != Neglect::Registers {
                    processor.register = self.keys.register(&processor.domain);
                }
            }
            _ => {}
        }
        *step += 1;
        if *step > self.processors.len() {
            let (leaving, _) = self.duties.remove(nth);
            let _ = self.keys.settle(leaving);
        }
    }
}
