//! For Perfetto and chrome://tracing: a process for each task with a track for each of its threads, and one of the processors.

use crate::record::Record;
use crate::spans::spans;
use abi::trace::{Event, Handler, kind};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The process that has the processors as its threads. No task has this number.
const PROCESSORS: u64 = 0;

/// The whole record as a JSON object.
pub fn chrome(record: &Record) -> Value {
    let mut events: Vec<(u64, Value)> = Vec::new();
    let mut threads = BTreeSet::new();
    for span in spans(record).into_iter().filter(|span| span.thread != 0) {
        threads.insert((span.task, span.thread));
        let name = match span.handler {
            Some(handler) => Handler(handler).to_string(),
            None => record.name(span.task),
        };
        let slice = |name: &str, pid: u64, tid: u64| {
            let args = json!({ "thread": span.thread, "processor": span.processor });
            let (ts, dur) = (us(span.from), us(span.to - span.from));
            json!({ "name": name, "cat": if span.handler.is_some() { "kernel" } else { "runs" }, "ph": "X", "ts": ts, "dur": dur,
                "pid": pid, "tid": tid, "args": args })
        };
        events.push((span.from, slice(&name, PROCESSORS, span.processor as u64)));
        let on = if span.handler.is_some() { name.clone() } else { format!("on processor {}", span.processor) };
        events.push((span.from, slice(&on, span.task, span.thread)));
    }
    let moments = record.events.iter().filter(|(_, event)| !is_interval(event));
    for (processor, event) in moments {
        let (pid, tid) = match event {
            Event { thread: 0, .. } => (PROCESSORS, *processor as u64),
            Event { kind: kind::TASK, .. } => (PROCESSORS, *processor as u64),
            Event { thread, task, .. } => (*task, *thread),
        };
        if pid != PROCESSORS {
            threads.insert((pid, tid));
        }
        let args = json!({ "a": hex(event.a), "b": hex(event.b), "text": hex(event.text), "processor": processor });
        let moment = json!({ "name": event.name(), "cat": "event", "ph": "i", "s": "t", "ts": us(event.time), "pid": pid, "tid": tid,
            "args": args });
        events.push((event.time, moment));
    }
    events.sort_by_key(|(time, _)| *time);
    let mut all = names(record, &threads);
    all.extend(events.into_iter().map(|(_, event)| event));
    json!({ "traceEvents": all, "displayTimeUnit": "ns", "otherData": { "lost": record.lost } })
}

/// Told by slices.
fn is_interval(event: &Event) -> bool {
    [kind::ENTER, kind::LEAVE, kind::SWITCH, kind::IDLE].contains(&event.kind)
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

fn hex(n: u64) -> String {
    format!("{n:#x}")
}

fn names(record: &Record, threads: &BTreeSet<(u64, u64)>) -> Vec<Value> {
    let named = |what: &str, pid: u64, tid: u64, name: String| json!({ "name": what, "ph": "M", "ts": 0, "pid": pid, "tid": tid, "args": { "name": name } });
    let mut all = vec![named("process_name", PROCESSORS, 0, "processors".into())];
    all.extend((0..record.processors() as u64).map(|n| named("thread_name", PROCESSORS, n, format!("processor {n}"))));
    let tasks: BTreeSet<u64> = threads.iter().map(|(task, _)| *task).collect();
    all.extend(tasks.into_iter().map(|task| named("process_name", task, 0, format!("{} ({task})", record.name(task)))));
    all.extend(threads.iter().map(|(task, thread)| named("thread_name", *task, *thread, format!("thread {thread}"))));
    all
}
