//! Recording what happens on all processors (`abi::trace`) while something runs.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use interfaces::devices::{DevicesClient, ask};
use rt::abi::section;
use rt::abi::trace::{Event, kind};
use rt::trace::Trace;
use rt::{Error, Mutex, info, task, thread, time};

/// How often what was recorded is fetched: before a ring is full, as a rule.
const EVERY_NS: u64 = 1_000_000;

fn client<T>(ask: impl FnOnce(&DevicesClient) -> Result<T, Error>) -> Result<T, Error> {
    let devices = DevicesClient::bind_with_args(crate::names::lookup("devices")?, 4096)?;
    let answer = ask(&devices);
    let _ = devices.unbind();
    answer
}

/// Switches the trace on, and lets this program read it.
///
/// # Errors
/// `Denied`: neither the system nor the person at the machine; what the kernel answers.
pub fn on() -> Result<Trace, Error> {
    client(|devices| devices.trace(ask::ON))?;
    look()
}

/// Switches it off. If this program may read it, it still may.
///
/// # Errors
/// As [`on`].
pub fn pause() -> Result<(), Error> {
    client(|devices| devices.trace(ask::PAUSE))
}

/// Switches it off. This program may not read it any more.
///
/// # Errors
/// As [`on`].
pub fn off() -> Result<(), Error> {
    client(|devices| devices.trace(ask::OFF))
}

/// The trace as it is, to be read. Nobody is asked: the info section says where it is.
///
/// # Errors
/// `NotFound`: nobody has switched it on since boot; `Denied`: this program has not ([`on`]), or has given the right back.
pub fn look() -> Result<Trace, Error> {
    Trace::look()
}

/// What was recorded.
#[derive(Debug, Default)]
pub struct Record {
    /// With the processor on which it happened, in the order of time.
    pub events: Vec<(usize, Event)>,
    /// Events that were overwritten before anybody read them.
    pub lost: u64,
    /// Names of tasks.
    pub tasks: Vec<(u64, String)>,
    /// Bases and names of texts.
    pub texts: Vec<(u64, String)>,
}

impl Record {
    /// What is still there of the past.
    #[must_use]
    pub fn of(trace: &Trace) -> Record {
        let mut record = Record::default();
        record.learns_names();
        for (processor, mut reader) in trace.from_oldest().into_iter().enumerate() {
            record.events.extend(core::iter::from_fn(|| reader.take()).map(|event| (processor, event)));
        }
        record.sorts();
        record
    }

    fn learns_names(&mut self) {
        // Those of the system, and those that this program's person may see by name.
        let all = info::all().into_iter().flat_map(|all| all.tasks().map(|one| (one.number, one.name)));
        let own = info::of_users(task::identity().user).into_iter();
        let own = own.flat_map(|own| own.own_tasks().map(|one| (one.number, one.name)));
        for (task, name) in all.chain(own) {
            self.knows(task, crate::ended::text(&name));
        }
        let own = info::of_users(task::identity().user).into_iter();
        let texts = own.flat_map(|own| own.sections()).filter(|one| one.kind & 0xff == section::kind::TEXT);
        for one in texts {
            if !self.texts.iter().any(|(known, _)| *known == one.base) {
                self.texts.push((one.base, crate::ended::text(&one.name)));
            }
        }
    }

    fn knows(&mut self, task: u64, name: String) {
        if !name.is_empty() && !self.tasks.iter().any(|(known, _)| *known == task) {
            self.tasks.push((task, name));
        }
    }

    fn sorts(&mut self) {
        self.events.sort_by_key(|(processor, event)| (event.time, *processor));
        let told: Vec<(u64, String)> = self
            .events
            .iter()
            .filter(|(_, event)| event.kind == kind::TASK)
            .map(|(_, event)| (event.task, name(event)))
            .collect();
        told.into_iter().for_each(|(task, name)| self.knows(task, name));
    }

    /// The name of a task, or its number.
    #[must_use]
    pub fn name(&self, task: u64) -> String {
        let known = self.tasks.iter().find(|(known, _)| *known == task);
        known.map_or_else(|| task.to_string(), |(_, name)| name.clone())
    }

    /// The name of the text with this base, or the base.
    #[must_use]
    pub fn text(&self, base: u64) -> String {
        let known = self.texts.iter().find(|(known, name)| *known == base && !name.is_empty());
        known.map_or_else(|| format!("{base:#x}"), |(_, name)| name.clone())
    }
}

/// The beginning of a task's name, as its beginning tells it.
fn name(event: &Event) -> String {
    let bytes = [event.a.to_le_bytes(), event.b.to_le_bytes()].concat();
    String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_string()
}

/// Records while `what` is done, with a thread of this program that fetches what was recorded.
///
/// # Errors
/// As [`on`].
pub fn during<T>(what: impl FnOnce() -> T) -> Result<(T, Record, Trace), Error> {
    let trace = on()?;
    let mut readers = trace.from_now();
    let mut record = Record::default();
    record.learns_names();
    let kept: &'static Mutex<Record> = Box::leak(Box::new(Mutex::new(record)));
    let over = Arc::new(AtomicBool::new(false));
    let is_over = over.clone();
    let fetches = thread::spawn(
        move || loop {
            let last = is_over.load(Ordering::SeqCst);
            for (processor, reader) in readers.iter_mut().enumerate() {
                let head = core::iter::from_fn(|| reader.take());
                // No more than there is room for: this one writes, too.
                kept.lock().events.extend(head.take(rt::abi::trace::RECORDS as usize).map(|event| (processor, event)));
            }
            if last {
                kept.lock().lost = readers.iter().map(|reader| reader.lost()).sum();
                return;
            }
            time::sleep_ns(EVERY_NS);
        },
        0,
    );
    let done = what();
    // What is in the rings can still be read.
    let stopped = pause();
    over.store(true, Ordering::SeqCst);
    fetches?.join()?;
    stopped?;
    let mut record = core::mem::take(&mut *kept.lock());
    // And of those that were made meanwhile, and are still there.
    record.learns_names();
    record.sorts();
    Ok((done, record, trace))
}
