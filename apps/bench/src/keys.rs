//! Calls into more and more servers in turn, and what access lists cost (CUBIX-U1, U5): a server is a class of its own, and
//! a processor has 14 keys for classes. Who has none is called by the kernel, and earns one.

use crate::report::{Case, Report};
use crate::rounds::{Plan, Rounds};
use crate::server;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;
use musubi::abi::gate::grade;
use musubi::abi::layout::SPACE_END;
use musubi::abi::rights::{ACL_MAX, ANY_TEXT, principal};
use musubi::abi::section::kind;
use musubi::abi::task::KeyUse;
use musubi::interfaces::measure::MeasureClient;
use musubi::rt::{Section, section, task, time};
use musubi::{AclEntry, Error, Rights};

/// Servers, and rounds: each a call into every server.
const TURNS: [(usize, usize); 6] = [(1, 1000), (8, 500), (12, 300), (15, 200), (40, 100), (1000, 10)];
/// Entries of the list besides the one that gives the right.
const ENTRIES: [u64; 4] = [1, 10, 100, 1000];
const _: () = assert!(ENTRIES[ENTRIES.len() - 1] + 2 <= ACL_MAX as u64, "besides the one that changes and the owner's");
const ROUNDS: usize = 100;
/// Servers of which some have a key and some have none.
const SOME_HAVE: usize = 40;
/// So few rounds that nobody earns a key meanwhile.
const FEW: usize = 16;
/// Calls after which nobody waits for a key any more.
const LONG: usize = 5000;
/// Rounds at a stretch.
const STRETCH: usize = 64;
/// Calls before it is measured.
const EARNING: usize = 100_000;
/// Servers that are called all the time, of many; the others are called one by one in between.
const HOT: usize = 8;

pub fn run(report: &Report) -> Result<(), String> {
    for (servers, rounds) in TURNS {
        server::with_many(servers, |gates| {
            turns(report, gates, rounds).map_err(|e| format!("{servers} servers: {e}"))
        })?;
    }
    lists(report).map_err(|e| format!("access lists: {e}"))
}

/// One round is a call into each server.
fn turns(report: &Report, gates: &[u64], rounds: usize) -> Result<(), Error> {
    for (way, wanted) in [("epc-h", grade::EPC_H), ("epc-s", grade::EPC_S)] {
        let clients: Result<Vec<MeasureClient>, Error> =
            gates.iter().map(|gate| MeasureClient::bind_as(*gate, 0, wanted)).collect();
        let clients = match clients {
            Err(Error::NotSupported) => continue,
            clients => clients?,
        };
        // Until those who are called most have keys: a call without the kernel is earned by some hundreds by the kernel.
        for _ in 0..EARNING / gates.len() {
            clients.iter().try_for_each(MeasureClient::null)?;
        }
        let before = keys();
        let mut outcome = Ok(());
        let measured = Plan::new(rounds).measure(|| {
            for client in &clients {
                if let Err(error) = client.null() {
                    outcome = Err(error);
                }
            }
        });
        outcome?;
        // Rounds that nobody looks at one by one: what comes now and then belongs to them, as the search for keys does.
        let began = time::ticks();
        for _ in 0..STRETCH {
            clients.iter().try_for_each(MeasureClient::null)?;
        }
        let stretch = time::ticks() - began;
        let apart =
            if wanted == grade::EPC_H && gates.len() == SOME_HAVE { hit_and_miss(&clients)? } else { Vec::new() };
        let name = format!("in-turn-{}", gates.len());
        let case = Case { case: &name, way, bytes: 0 };
        report.case(case, &measured, &[]);
        report.per_call(case, &measured, gates.len() as u64);
        report.longest(case, &measured);
        report.average(case, stretch, (STRETCH * gates.len()) as u64);
        let after = keys();
        // A call by the kernel enters it twice, there and back; one by a key does not.
        let calls = (rounds * gates.len()) as u64;
        report.count(case, "hits-permille", 1000 - (1000 * measured.entries() / (2 * calls)).min(1000));
        let counts = [
            ("keys-missed", after.misses - before.misses),
            ("keys-given", after.given - before.given),
            ("keys-taken", after.evicted - before.evicted),
        ];
        counts.iter().for_each(|(unit, value)| report.count(case, unit, *value));
        for (case, measured) in apart {
            report.case(Case { case: &format!("{case}-of-{}", gates.len()), way, bytes: 0 }, &measured, &[]);
        }
        if gates.len() > 2 * SOME_HAVE {
            hot(report, &clients, Case { case: &format!("hot-{HOT}-of-{}", gates.len()), way, bytes: 0 })?;
        }
        if wanted == grade::EPC_H && gates.len() >= SOME_HAVE {
            earn(report, &clients, Case { case: &format!("-of-{}", gates.len()), way, bytes: 0 })?;
        }
        for client in clients {
            client.unbind()?;
        }
    }
    Ok(())
}

/// A round is a call to each of a few servers; before it, one of the others is called.
fn hot(report: &Report, clients: &[MeasureClient], case: Case) -> Result<(), Error> {
    let (hot, others) = clients.split_at(HOT);
    for _ in 0..EARNING / HOT {
        hot.iter().try_for_each(MeasureClient::null)?;
    }
    let (mut outcome, next, other) = (Ok(()), Cell::new(0), Cell::new(Ok(())));
    let another = || {
        let n = next.replace(next.get() + 1);
        other.set(other.get().and_then(|()| others[n % others.len()].null()));
    };
    let measured = Plan::new(ROUNDS).first(&another).measure(|| {
        outcome = outcome.and_then(|()| hot.iter().try_for_each(MeasureClient::null));
    });
    outcome.and(other.get())?;
    report.case(case, &measured, &[]);
    report.per_call(case, &measured, HOT as u64);
    report.longest(case, &measured);
    Ok(())
}

/// Calls to one server that has no key, until it has one: how many, what the one takes in which the key changes hands, and the next, in
/// which pages come back; and the first call to who has lost it, which goes on in a view of its own.
fn earn(report: &Report, clients: &[MeasureClient], case: Case) -> Result<(), Error> {
    let timed = |client: &MeasureClient| {
        let began = time::ticks();
        client.null().map(|()| time::ticks() - began)
    };
    // Twice: a call may be the first one for some other reason.
    let all = |clients: &[MeasureClient]| -> Result<Vec<u64>, Error> {
        let once: Vec<u64> = clients.iter().map(timed).collect::<Result<_, _>>()?;
        clients.iter().zip(once).map(|(client, first)| timed(client).map(|next| next.min(first))).collect()
    };
    let took = all(clients)?;
    let usual = *took.iter().max().unwrap_or(&0);
    let wanted = took.iter().rposition(|ticks| *ticks == usual).unwrap_or_default();
    let before = keys().evicted;
    let mut calls = Vec::new();
    while keys().evicted == before && calls.len() < LONG {
        calls.push(timed(&clients[wanted])?);
    }
    let changed = calls.len() as u64;
    let change = calls.last().copied().unwrap_or_default();
    let next = timed(&clients[wanted])?;
    let lost: Vec<u64> = clients.iter().map(timed).collect::<Result<_, _>>()?;
    let longest = lost.iter().copied().max().unwrap_or_default();
    for (what, ticks) in [("change", change), ("next", next), ("lost", longest)] {
        let case = Case { case: &format!("{what}{}", case.case), ..case };
        report.average(case, ticks, 1);
        report.count(case, "rounds", changed);
    }
    Ok(())
}

/// One call to a server that has a key, and one to a server that has none. Nothing is printed before: that needs keys, too.
fn hit_and_miss(clients: &[MeasureClient]) -> Result<Vec<(&'static str, Rounds)>, Error> {
    let entries = || -> u64 { task::processors().map(|p| p.entries).sum() };
    // The first time may take more.
    let least = |what: &dyn Fn() -> bool| {
        let one = |_| {
            let before = entries();
            what().then(|| entries() - before)
        };
        (0..4).filter_map(one).min()
    };
    let looking = least(&|| true);
    let enters = |client: &&MeasureClient| least(&|| client.null().is_ok()) > looking;
    let with = clients.iter().find(|client| !enters(client)).ok_or(Error::NotFound)?;
    let without = clients.iter().rev().find(enters).ok_or(Error::NotFound)?;
    let measured = [("hit", with), ("miss", without)].map(|(case, client)| {
        let mut outcome = Ok(());
        let rounds = Plan::new(FEW).measure(|| outcome = outcome.and(client.null()));
        outcome.map(|()| (case, rounds))
    });
    measured.into_iter().collect()
}

/// How this program's view has used its keys.
fn keys() -> KeyUse {
    let me = musubi::start().task();
    task::list().find(|info| info.task == me).map(|info| info.keys).unwrap_or_default()
}

/// An entry of a list is changed, so that what was cached of it is void; then the page is touched.
fn lists(report: &Report) -> Result<(), Error> {
    // Strangers, whom a class of this task's does not know; and its own threads in so many texts, which all are of the class.
    list(report, "list", stranger)?;
    list(report, "class", own)
}

fn list(report: &Report, what: &str, entry: fn(u64, Rights) -> AclEntry) -> Result<(), Error> {
    for entries in ENTRIES {
        let mut section = Section::create(4096, 0, kind::DATA, 0)?;
        for id in 0..entries {
            section::grant(section.base(), &entry(id, Rights::READ))?;
        }
        section.bytes_mut().fill(1);
        let mut outcome = Ok(());
        let mut flip = Rights::READ;
        let rounds = Plan::new(ROUNDS).measure_steps(|| {
            flip = if flip == Rights::READ { Rights::empty() } else { Rights::READ };
            let began = time::ticks();
            if let Err(error) = section::grant(section.base(), &entry(1 << 20, flip)) {
                outcome = Err(error);
            }
            let changed = time::ticks();
            touch(section.bytes_mut());
            let touched = time::ticks();
            [changed - began, touched - changed, 0]
        });
        outcome?;
        let name = format!("{what}-of-{entries}");
        report.case(Case { case: &name, way: "kernel-call", bytes: 0 }, &rounds, &["change", "miss"]);
        section.delete()?;
    }
    Ok(())
}

fn touch(bytes: &mut [u8]) {
    let first = core::hint::black_box(bytes);
    first[0] = first[0].wrapping_add(1);
}

/// An entry for this task's threads in a text that was never there.
fn own(id: u64, rights: Rights) -> AclEntry {
    let text = SPACE_END - (id + 2) * (1 << 20);
    AclEntry { principal: principal::TASK, rights: rights.bits(), id: musubi::start().task(), text }
}

/// An entry for a task that does not exist.
fn stranger(id: u64, rights: Rights) -> AclEntry {
    AclEntry { principal: principal::TASK, rights: rights.bits(), id: (1 << 40) + id, text: ANY_TEXT }
}
