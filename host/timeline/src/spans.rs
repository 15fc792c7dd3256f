//! From moments to intervals.

use crate::record::Record;
use abi::trace::kind;

/// Who is on a processor from one moment to another (ns since boot).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub processor: usize,
    pub from: u64,
    pub to: u64,
    pub thread: u64,
    pub task: u64,
    /// In the kernel, by this way (`abi::trace::handler`); or, by none, at all.
    pub handler: Option<u64>,
}

/// For each processor in turn: who ran there (0: nobody), and when the kernel did for whom; each of the two in the order of time, without
/// overlaps.
pub fn spans(record: &Record) -> Vec<Span> {
    let (first, last) = record.range();
    let mut all = Vec::new();
    for processor in 0..record.processors() {
        let mut on = Open::default();
        let mut inside = Open::default();
        for (_, event) in record.events.iter().filter(|one| one.0 == processor) {
            let who = (event.thread, event.task);
            if !on.is_open() {
                // Whoever is met first was there from the beginning, unless it has just come.
                on.open(first, if event.kind == kind::SWITCH { (event.a, 0) } else { who }, None);
            }
            match event.kind {
                kind::SWITCH => {
                    all.extend(on.close(processor, event.time));
                    on.open(event.time, who, None);
                    let by = inside.handler;
                    all.extend(inside.close(processor, event.time));
                    if event.thread != 0 {
                        inside.open(event.time, who, by.or(Some(event.handler)));
                    }
                }
                kind::ENTER => {
                    all.extend(inside.close(processor, event.time));
                    inside.open(event.time, who, Some(event.handler));
                }
                kind::LEAVE | kind::IDLE => all.extend(inside.close(processor, event.time)),
                _ => {}
            }
        }
        all.extend(on.close(processor, last));
        all.extend(inside.close(processor, last));
    }
    all
}

#[derive(Default)]
struct Open {
    from: Option<u64>,
    thread: u64,
    task: u64,
    handler: Option<u64>,
}

impl Open {
    fn is_open(&self) -> bool {
        self.from.is_some()
    }

    fn open(&mut self, from: u64, (thread, task): (u64, u64), handler: Option<u64>) {
        *self = Open { from: Some(from), thread, task, handler };
    }

    fn close(&mut self, processor: usize, to: u64) -> Option<Span> {
        let from = self.from.take()?;
        let Open { thread, task, handler, .. } = *self;
        self.handler = None;
        Some(Span { processor, from, to, thread, task, handler })
    }
}
