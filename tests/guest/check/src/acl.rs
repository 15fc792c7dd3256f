//! ACLs: every right with every kind of principal and of text, and the calls that change entries.

use crate::memory::{CODE_42, data};
use crate::peer::{Peer, op};
use crate::refusals::lacks;
use crate::report::{Check, Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::layout::PAGE;
use musubi::abi::rights::{ACL_MAX, ANY_TEXT, principal};
use musubi::rt::gate::{Skeleton, Values};
use musubi::rt::{Gates, Section, Trap, fault, section, task, thread, time};
use musubi::{AclEntry, Caller, Error, Rights};

pub const CHECKS: &[Check] = &[
    ("read_by_every_principal", || every_principal(Rights::READ)),
    ("write_by_every_principal", || every_principal(Rights::WRITE)),
    ("execute_by_every_principal", || every_principal(Rights::EXECUTE)),
    ("call_by_every_principal", || every_principal(Rights::CALL)),
    ("change_acl_by_every_principal", || every_principal(Rights::CHANGE_ACL)),
    ("two_threads_two_texts", two_threads_two_texts),
    ("original_matches_its_clones", original_matches_its_clones),
    ("rights_add_up", rights_add_up),
    ("set_read_remove", set_read_remove),
    ("set_refuses", set_refuses),
    ("new_section_is_its_makers", new_section_is_its_makers),
    ("stack_is_one_threads", stack_is_one_threads),
    ("rights_end_in_many_views", rights_end_in_many_views),
];

struct Nothing;

impl Skeleton for Nothing {
    fn dispatch(&self, _: &Caller, _: u64, _: &[u64; 6]) -> Values {
        Values(0, 42)
    }
}

/// What an entry is set on, and what tries the right.
struct Try {
    right: Rights,
    target: u64,
    gate: u64,
}

impl Try {
    fn new(right: Rights) -> Result<Try, String> {
        let mut tried = Try { right, target: 0, gate: 0 };
        if right == Rights::CALL {
            tried.target = musubi::start().text();
            tried.gate = Gates::export(Nothing, 1).map_err(doing("gate"))?.address();
            return Ok(tried);
        }
        let kind = musubi::abi::section::kind::DATA;
        let mut section = Section::create(PAGE, 2 * PAGE, kind, 0).map_err(doing("create"))?;
        section.bytes_mut()[..CODE_42.len()].copy_from_slice(&CODE_42);
        tried.target = section.base();
        if right == Rights::EXECUTE {
            section.seal().map_err(doing("seal"))?;
        }
        Ok(tried)
    }

    /// The rights that an entry must hold so that the access is possible: nothing goes without reading.
    fn rights(&self) -> Rights {
        match self.right {
            Rights::WRITE | Rights::EXECUTE => self.right | Rights::READ,
            right => right,
        }
    }

    /// Whether the peer, on this thread, can.
    fn can(&self, peer: &Peer) -> Result<bool, String> {
        let (outcome, refused) = match self.right {
            Rights::READ => (peer.call(op::PEEK, &[self.target]), Error::Faulted),
            Rights::WRITE => (peer.call(op::POKE, &[self.target + 64, 1]), Error::Faulted),
            Rights::EXECUTE => (peer.call(op::RUN, &[self.target]), Error::Faulted),
            // A plain call that is not allowed is a fault of the text that makes it.
            Rights::CALL => (peer.call(op::RELAY, &[self.gate]), Error::Faulted),
            _ => (peer.call(op::CHANGE, &[self.target]), Error::Denied),
        };
        match outcome {
            Ok(_) => Ok(true),
            Err(e) if e == refused => Ok(false),
            Err(e) => Err(alloc::format!("{}: {e}", self.right)),
        }
    }
}

/// Every kind of principal, right and wrong, in every kind of text, right and wrong: the access is possible exactly
/// when both match, and not any more when the entry is gone.
fn every_principal(right: Rights) -> Outcome {
    let (peer, other) = (Peer::start()?, Peer::start()?);
    let tried = Try::new(right)?;
    let who = task::identity();
    let principals = [
        (principal::ANY, 0, true),
        (principal::THREAD, who.thread, true),
        (principal::THREAD, who.thread + 1, false),
        (principal::THREAD, who.task, who.task == who.thread),
        (principal::TASK, who.task, true),
        (principal::TASK, peer.child.task, false),
        (principal::USER, who.user, true),
        (principal::USER, who.user + 1, false),
        (principal::NODE, who.node, true),
        (principal::NODE, who.node + 1, false),
    ];
    let texts = [(peer.text, true), (other.text, false), (who.text, false), (ANY_TEXT, true)];
    let there = section::acl(tried.target).map_err(doing("acl"))?;
    holds!(!tried.can(&peer)?, "possible without an entry");
    for (kind, id, is_me) in principals {
        for (text, is_here) in texts {
            // What is there already is by what this program itself works.
            if there.iter().any(|e| (e.principal, e.id, e.text) == (kind, id, text)) {
                continue;
            }
            let entry = AclEntry { principal: kind, rights: tried.rights().bits(), id, text };
            let what = alloc::format!("principal {kind} {id} in text {text:#x}");
            section::grant(tried.target, &entry).map_err(doing(&what))?;
            same!(tried.can(&peer)?, is_me && is_here, "{what}");
            // The entry of any other right is not enough.
            let less = AclEntry { rights: (Rights::READ.bits() | 31) & !right.bits(), ..entry };
            if is_me && is_here && tried.target != who.text {
                section::grant(tried.target, &less).map_err(doing(&what))?;
                same!(tried.can(&peer)?, false, "{what}, all rights but this one");
            }
            section::grant(tried.target, &AclEntry { rights: 0, ..entry }).map_err(doing(&what))?;
            same!(tried.can(&peer)?, false, "{what}, removed");
        }
    }
    peer.end()?;
    other.end()
}

/// Two threads, two texts, one entry: one of the four can.
fn two_threads_two_texts() -> Outcome {
    let peers: &'static [Peer; 2] = Box::leak(Box::new([Peer::start()?, Peer::start()?]));
    let section = data(PAGE).map_err(doing("create"))?;
    let base = section.base();
    let run = |entry: AclEntry| -> Result<[bool; 4], String> {
        section::grant(base, &entry).map_err(doing("grant"))?;
        let here = [0, 1].map(|i| peers[i].call(op::PEEK, &[base]).is_ok());
        let found: &'static [AtomicU64; 2] = Box::leak(Box::new([const { AtomicU64::new(9) }; 2]));
        let body = move || {
            for i in 0..2 {
                found[i].store(u64::from(peers[i].call(op::PEEK, &[base]).is_ok()), Ordering::SeqCst);
            }
        };
        let other = thread::spawn(body, 0).map_err(doing("thread"))?;
        other.join().map_err(doing("join"))?;
        section::grant(base, &AclEntry { rights: 0, ..entry }).map_err(doing("remove"))?;
        let there = [0, 1].map(|i: usize| found[i].load(Ordering::SeqCst) == 1);
        Ok([here[0], here[1], there[0], there[1]])
    };
    let me = task::identity().thread;
    for (i, peer) in peers.iter().enumerate() {
        let entry = AclEntry { principal: principal::THREAD, rights: 1, id: me, text: peer.text };
        let mut wanted = [false; 4];
        wanted[i] = true;
        same!(run(entry)?, wanted, "this thread in text {i}");
    }
    same!(run(everybody(Rights::READ))?, [true; 4], "everybody");
    let task = AclEntry { principal: principal::TASK, rights: 1, id: musubi::start().task(), text: peers[0].text };
    same!(run(task)?, [true, false, true, false], "this task in text 0");
    let thread = AclEntry { principal: principal::THREAD, rights: 1, id: me, text: ANY_TEXT };
    same!(run(thread)?, [true, true, false, false], "this thread in any text");
    Ok(())
}

/// All instances of a program are clones of one text: an entry that names that means them all, one that names an
/// instance means it alone.
fn original_matches_its_clones() -> Outcome {
    let (peer, other) = (Peer::start()?, Peer::start()?);
    let original = section::info(peer.text).map_err(doing("info"))?.original;
    holds!(original != peer.text, "the peer is no clone");
    same!(section::info(other.text).map_err(doing("info"))?.original, original, "the other's original");
    let section = data(PAGE).map_err(doing("create"))?;
    let can = || [peer.call(op::PEEK, &[section.base()]).is_ok(), other.call(op::PEEK, &[section.base()]).is_ok()];
    let entry = |text| AclEntry { principal: principal::ANY, rights: 1, id: 0, text };
    section::grant(section.base(), &entry(original)).map_err(doing("grant"))?;
    same!(can(), [true, true], "the original");
    section::grant(section.base(), &AclEntry { rights: 0, ..entry(original) }).map_err(doing("remove"))?;
    section::grant(section.base(), &entry(other.text)).map_err(doing("grant"))?;
    same!(can(), [false, true], "one clone");
    // Who may only read a text gets a clone that counts as another program.
    let text = section::list().find(|i| i.kind == 1 && i.rights & 17 == 1 && i.base != musubi::start().text());
    if let Some(text) = text {
        let mine = Section::clone_of(text.base, 0, 0, 0).map_err(doing("clone of a readable text"))?;
        same!(section::info(mine.base()).map_err(doing("info"))?.original, mine.base(), "its original");
    }
    peer.end()?;
    other.end()
}

fn rights_add_up() -> Outcome {
    let peer = Peer::start()?;
    let section = data(PAGE).map_err(doing("create"))?;
    let base = section.base();
    let who = task::identity();
    let set = |kind, id, rights: Rights| {
        let entry = AclEntry { principal: kind, rights: rights.bits(), id, text: peer.text };
        section::grant(base, &entry).map_err(doing("grant"))
    };
    set(principal::THREAD, who.thread, Rights::READ)?;
    set(principal::USER, who.user, Rights::WRITE)?;
    same!(peer.call(op::POKE, &[base, 3]), Ok(0), "read by one entry, write by another");
    set(principal::ANY, 0, Rights::READ)?;
    set(principal::THREAD, who.thread, Rights::empty())?;
    same!(peer.call(op::POKE, &[base, 4]), Ok(0), "read by a third entry");
    set(principal::ANY, 0, Rights::empty())?;
    same!(peer.call(op::POKE, &[base, 4]), Err(Error::Faulted), "write without read");
    peer.end()
}

fn set_read_remove() -> Outcome {
    let section = data(PAGE).map_err(doing("create"))?;
    let base = section.base();
    let entries = || section::acl(base).map_err(doing("acl"));
    same!(entries()?.len(), 1, "entries of a new section");
    for n in 1..100u64 {
        let entry = AclEntry { principal: principal::TASK, rights: 1, id: n << 32, text: ANY_TEXT };
        section::grant(base, &entry).map_err(doing("grant"))?;
        same!(entries()?.len() as u64, n + 1, "entries after {n}");
    }
    let entry = AclEntry { principal: principal::TASK, rights: 3, id: 5 << 32, text: ANY_TEXT };
    section::grant(base, &entry).map_err(doing("change"))?;
    same!(entries()?.len(), 100, "entries after changing one");
    holds!(entries()?.contains(&entry), "the changed entry is not there");
    section::grant(base, &AclEntry { rights: 0, ..entry }).map_err(doing("remove"))?;
    same!(entries()?.len(), 99, "entries after removing one");
    holds!(!entries()?.iter().any(|e| e.id == 5 << 32), "the removed entry is there");
    same!(section::info(base).map_err(doing("info"))?.entries, 99, "entries in info");
    // As many as fit, no more.
    let mut one = [entry; 2];
    let there = stub::acl_read(&Trap, base, one.as_mut_ptr() as u64, 1);
    same!((there, one[1]), (Ok(99), entry), "reading one of 99 entries");
    // Who takes the last right away from himself has none.
    for entry in entries()? {
        if entry.principal == principal::TASK && entry.id >> 32 == 0 {
            section::grant(base, &AclEntry { rights: 0, ..entry }).map_err(doing("the own entry"))?;
        }
    }
    lacks(section::grant(base, &entry), base, Rights::CHANGE_ACL, "grant without the right")
}

fn set_refuses() -> Outcome {
    let section = data(PAGE).map_err(doing("create"))?;
    let base = section.base();
    let good = AclEntry { principal: principal::TASK, rights: 1, id: 1, text: ANY_TEXT };
    let before = section::acl(base).map_err(doing("acl"))?;
    let bad = [
        AclEntry { principal: 5, ..good },
        AclEntry { principal: u32::MAX, ..good },
        AclEntry { rights: 64, ..good },
        AclEntry { rights: u32::MAX, ..good },
    ];
    for entry in bad {
        same!(section::grant(base, &entry), Err(Error::BadArgument), "{entry:x?}");
    }
    for at in [0, 8, base + PAGE, base + PAGE - 8, 0xffff_8000_0000_0000, u64::MAX - 3, 1 << 63] {
        let set = stub::acl_set(&Trap, base, at);
        same!(set, Err(Error::BadAddress), "an entry at {at:#x}");
    }
    same!(section::acl(base).map_err(doing("acl"))?, before, "the entries after all that was refused");
    let mut count = before.len();
    let full = loop {
        match section::grant(base, &AclEntry { id: 1000 + count as u64, ..good }) {
            Ok(()) => count += 1,
            Err(e) => break e,
        }
        holds!(count <= ACL_MAX, "more than {ACL_MAX} entries");
    };
    same!((count, full), (ACL_MAX, Error::TooBig), "how many entries there can be");
    Ok(())
}

fn new_section_is_its_makers() -> Outcome {
    let peer = Peer::start()?;
    let section = data(PAGE).map_err(doing("create"))?;
    let entries: Vec<AclEntry> = section::acl(section.base()).map_err(doing("acl"))?;
    let who = task::identity();
    same!(entries.len(), 1, "entries");
    same!((entries[0].principal, entries[0].id), (principal::TASK, who.task), "whom the first one names");
    same!(entries[0].text, who.text, "which text it names");
    same!(peer.call(op::PEEK, &[section.base()]), Err(Error::Faulted), "the same thread in another text");
    // Nothing is granted to any text by default, on any section of the system.
    let open =
        section::list().filter(|info| info.rights != 0).flat_map(|info| section::acl(info.base).unwrap_or_default());
    let wide = open.filter(|e| e.text == ANY_TEXT && e.rights & (Rights::WRITE | Rights::CHANGE_ACL).bits() != 0);
    same!(wide.count(), 0, "entries that let any text write");
    peer.end()
}

/// The own stack is not for another text on the same thread, nor for another thread in the same text.
fn stack_is_one_threads() -> Outcome {
    let peer = Peer::start()?;
    let local = 7u64;
    let at = core::ptr::from_ref(&local) as u64;
    same!(peer.call(op::PEEK, &[at]), Err(Error::Faulted), "another text on this thread");
    let stack = section::info(at).map_err(doing("info"))?.base;
    let seen: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(9)));
    let body = move || {
        let may = section::may(at, 8, Rights::READ, section::Who::Own);
        seen.store(u64::from(may), Ordering::SeqCst);
    };
    thread::spawn(body, 0).map_err(doing("thread"))?.join().map_err(doing("join"))?;
    same!(seen.load(Ordering::SeqCst), 0, "whether another thread of this text may read the stack at {stack:#x}");
    peer.end()
}

/// Without keys each thread has a view of its own. However many they are, no right is left anywhere when the call has returned, and what is
/// given is there at once.
fn rights_end_in_many_views() -> Outcome {
    static ROUND: AtomicU64 = AtomicU64::new(0);
    static DONE: AtomicU64 = AtomicU64::new(0);
    static FAILED: AtomicU64 = AtomicU64::new(0);
    const THREADS: u64 = 80;
    const ROUNDS: u64 = 6;
    let section = data(PAGE).map_err(doing("create"))?;
    let base = section.base();
    let tries = move |n: u64| {
        for round in 1..=ROUNDS {
            while ROUND.load(Ordering::SeqCst) < round {
                time::sleep_ns(500_000);
            }
            // SAFETY: eight bytes of the section for each thread, which nobody else touches; what cannot be stored is an error.
            let own = unsafe { core::slice::from_raw_parts_mut((base + 8 * n) as *mut u8, 8) };
            let may = fault::copy_out(own, &round.to_le_bytes()).is_ok();
            FAILED.fetch_add(u64::from(!may), Ordering::SeqCst);
            DONE.fetch_add(1, Ordering::SeqCst);
        }
    };
    let threads: Result<Vec<_>, _> = (0..THREADS).map(|n| thread::spawn(move || tries(n), 0)).collect();
    let threads = threads.map_err(doing("threads"))?;
    let mine = section::acl(base).map_err(doing("acl"))?;
    for round in 1..=ROUNDS {
        let may = round % 2 == 1;
        for entry in &mine {
            let rights = if may { entry.rights } else { (Rights::READ | Rights::CHANGE_ACL).bits() };
            section::grant(base, &AclEntry { rights, ..*entry }).map_err(doing("grant"))?;
        }
        DONE.store(0, Ordering::SeqCst);
        FAILED.store(0, Ordering::SeqCst);
        ROUND.store(round, Ordering::SeqCst);
        while DONE.load(Ordering::SeqCst) < THREADS {
            time::sleep_ns(1_000_000);
        }
        let wanted = if may { 0 } else { THREADS };
        same!(FAILED.load(Ordering::SeqCst), wanted, "threads that could not store in round {round}");
    }
    threads.into_iter().try_for_each(|one| one.join().map(drop)).map_err(doing("join"))?;
    section.delete().map_err(doing("delete"))
}
