//! What lacks a right is stopped or refused by name: section, right, thread and text; and nothing else is disturbed.

use crate::memory::{CODE_42, data, load, load_text, store};
use crate::peer::{Peer, op, own};
use crate::report::{Check, Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::calls::{Kernel, TABLE, stub};
use musubi::abi::layout::PAGE;
use musubi::abi::refusal::Object;
use musubi::abi::rights::{ANY_TEXT, principal};
use musubi::abi::section::kind;
use musubi::abi::task::{Limits, cause, exit, state};
use musubi::command::Command;
use musubi::ended;
use musubi::rt::{Bound, Mutex, Section, Trap, plain_call, probe, section, task, thread};
use musubi::{AclEntry, Error, Rights, eprintln, println};

pub const CHECKS: &[Check] = &[
    ("access_without_read", || access(Rights::READ)),
    ("access_without_write", || access(Rights::WRITE)),
    ("access_without_execute", || access(Rights::EXECUTE)),
    ("access_without_call", || access(Rights::CALL)),
    ("calls_without_read", calls_without_read),
    ("calls_without_write", calls_without_write),
    ("calls_without_call", calls_without_call),
    ("calls_without_change_acl", calls_without_change_acl),
    ("acl_read_without_any_right", acl_read_without_any_right),
    ("ports_without_a_right", ports_without_a_right),
    ("in_another_text", in_another_text),
    ("others_threads_and_tasks", others_threads_and_tasks),
    ("what_only_the_system_may", what_only_the_system_may),
    ("servers_do_not_pass_refusals_on", servers_do_not_pass_refusals_on),
    ("carried_to_another_thread", carried_to_another_thread),
    ("other_reasons_have_other_names", other_reasons_have_other_names),
];

const NAMES: [(Rights, &str); 5] = [
    (Rights::READ, "read"),
    (Rights::WRITE, "write"),
    (Rights::EXECUTE, "execute"),
    (Rights::CALL, "call"),
    (Rights::CHANGE_ACL, "change-acl"),
];

fn name_of(right: Rights) -> &'static str {
    NAMES.iter().find(|n| n.0 == right).map_or("?", |n| n.1)
}

/// Fails unless a call of this domain was refused for what it lacks on `object`.
pub fn refused<T>(outcome: Result<T, Error>, object: Object, what: &str) -> Outcome {
    let who = task::identity();
    let wanted = Error::no_right(object, who.thread);
    same!(outcome.err(), Some(wanted), "{what}");
    let said = format!("{wanted}");
    let by = format!(", by (thread {}, text {:#x})", who.thread, who.text);
    let about = match object {
        Object::Section(base, right) => format!("no right {} on section {base:#x}", name_of(right)),
        Object::Task(number) => format!("no right over task {number}"),
        Object::Thread(number) => format!("no right over thread {number}"),
        Object::System => "no right of the system's user".into(),
    };
    same!(said, format!("{about}{by}"), "what is said about {what}");
    Ok(())
}

/// The same for a right on a section.
pub fn lacks<T>(outcome: Result<T, Error>, section: u64, right: Rights, what: &str) -> Outcome {
    refused(outcome, Object::Section(section, right), what)
}

/// A section that this program has all rights on but one. What it may do without that, it does.
fn all_but(right: Rights) -> Result<u64, String> {
    let mut section = Section::create(PAGE, 4 * PAGE, kind::DATA, 0).map_err(doing("create"))?;
    section.bytes_mut()[..CODE_42.len()].copy_from_slice(&CODE_42);
    let base = section.base();
    if right == Rights::EXECUTE {
        section.seal().map_err(doing("seal"))?;
    }
    let entry = section::acl(base).map_err(doing("acl"))?.pop().ok_or("a new section has no entry")?;
    let less = AclEntry { rights: (Rights::from_bits_truncate(entry.rights) - right).bits(), ..entry };
    section::grant(base, &less).map_err(doing("giving a right up"))?;
    Ok(base)
}

/// What can be seen of a section from outside.
fn look(base: u64) -> Result<impl PartialEq + core::fmt::Debug, String> {
    let info = section::info(base).map_err(doing("info"))?;
    Ok((info.len, info.kind, info.owner, info.entries, info.rights, info.name))
}

/// The program that tries the access, once the flag is up, and says how it went if it can.
pub fn try_access(flag: u64, name: &str, target: u64) -> i32 {
    while load(flag) == 0 {
        thread::yield_now();
    }
    match name {
        "read" => drop(core::hint::black_box(probe::read(target))),
        "write" => probe::write(target),
        "execute" => probe::execute(target),
        _ => println!("{:?}", plain_call(target, [0; 6])),
    }
    crate::roles::WENT_THROUGH
}

/// A program that lacks the right for an access is stopped. Its end names the section, the right, its thread and its text.
fn access(right: Rights) -> Outcome {
    let peer = Peer::start()?;
    let flag = data(PAGE).map_err(doing("create"))?;
    section::grant(flag.base(), &everybody(Rights::READ)).map_err(doing("grant"))?;
    // Everybody has every right there but the one that is tried.
    let (target, at) = if right == Rights::CALL {
        same!(peer.call(op::OWN, &[own::SHUT]), Ok(0), "shutting the peer");
        (peer.text, peer.gate)
    } else {
        let base = all_but(if right == Rights::EXECUTE { right } else { Rights::empty() })?;
        section::grant(base, &everybody(Rights::all() - right)).map_err(doing("grant"))?;
        (base, base)
    };
    let before = look(target)?;
    let words = ["check", "as", "try", &format!("{:#x}", flag.base()), name_of(right), &format!("{at:#x}")];
    let child = Command::new(b"bin/check").args(words).spawn().map_err(doing("start"))?;
    let one = task::threads().find(|t| t.task == child.task).ok_or("the program has no thread")?;
    let text = section::list().find(|i| i.owner == child.task && i.kind == kind::TEXT).ok_or("it has no text")?.base;
    holds!(one.state != state::ENDED && text != target, "{one:x?}");
    store(flag.base(), 1);
    let how = child.wait_for(60_000_000_000).map_err(doing("its end"))?;
    same!((how.kind, how.cause), (exit::FAULT, cause::DENIED), "how it ended");
    same!((how.section, how.address, how.right), (target, at, u64::from(right.bits())), "section, address and right");
    same!((how.thread, how.text), (one.thread, text), "thread and text");
    let said = ended::describe(&how, |_| None);
    let about = format!("fault: no right to {} section {target:#x} at address {at:#x}", name_of(right));
    let by = format!(", by (thread {}, text {text:#x}) at {:#x}", one.thread, how.ip);
    same!(said, format!("{about}{by}"), "what is said about it");
    holds!(look(target)? == before, "the section has changed");
    same!(load(flag.base()), 1, "another section");
    if right == Rights::CALL {
        lacks(peer.call(op::ADD, &[1]), target, right, "our own call")?;
        return peer.end();
    }
    same!(peer.call(op::ADD, &[1]), Ok(1), "another program afterwards");
    peer.end()
}

/// Cloning, and what the kernel reads for a program.
fn calls_without_read() -> Outcome {
    let base = all_but(Rights::READ)?;
    let before = look(base)?;
    let lacks = |outcome, what| lacks(outcome, base, Rights::READ, what);
    lacks(Section::clone_of(base, 0, 0, 0).map(|s| s.base()), "cloning")?;
    let own = data(PAGE).map_err(doing("create"))?;
    lacks(stub::section_name(&Trap, own.base(), base, 8), "a name that cannot be read")?;
    lacks(stub::acl_set(&Trap, own.base(), base), "an entry that cannot be read")?;
    lacks(stub::wait(&Trap, base, 0, 0), "waiting on a word")?;
    lacks(stub::task_create(&Trap, base, musubi::start().user(), base, 0, 0), "limits that cannot be read")?;
    // Neither read nor changed.
    let none = data(PAGE).map_err(doing("create"))?.base();
    give_all_up(none)?;
    let limits = Limits::default();
    let task = task::create(&limits, musubi::start().user(), b"window").map_err(doing("task"))?;
    let map = stub::window_map(&Trap, task, 0x10000, none, 0, PAGE, 1);
    refused(map, Object::Section(none, Rights::READ), "mapping it into a window")?;
    task::kill(task).map_err(doing("kill"))?;
    holds!(look(base)? == before, "the section has changed");
    Ok(())
}

/// Takes every entry away from an own section.
fn give_all_up(base: u64) -> Outcome {
    for entry in section::acl(base).map_err(doing("acl"))? {
        section::grant(base, &AclEntry { rights: 0, ..entry }).map_err(doing("giving all up"))?;
    }
    Ok(())
}

/// What the kernel writes for a program.
fn calls_without_write() -> Outcome {
    let base = all_but(Rights::WRITE)?;
    let before = (look(base)?, load(base + 64));
    let lacks = |outcome, what| lacks(outcome, base, Rights::WRITE, what);
    lacks(stub::identity(&Trap, base), "identity")?;
    lacks(stub::section_info(&Trap, base, base + 64), "info")?;
    lacks(stub::section_pages(&Trap, base, 0, base + 64), "counting pages to there")?;
    lacks(stub::acl_read(&Trap, base, base + 64, 1), "reading the ACL to there")?;
    lacks(stub::wake(&Trap, base, 1), "waking")?;
    holds!((look(base)?, load(base + 64)) == before, "the section has changed");
    Ok(())
}

/// Binding, and a call by a binding that was made before.
fn calls_without_call() -> Outcome {
    let peer: &'static Peer = Box::leak(Box::new(Peer::start()?));
    same!(peer.call(op::ADD, &[1]), Ok(1), "a call before");
    same!(peer.call(op::OWN, &[own::SHUT]), Ok(0), "the call in which the right is taken");
    let lacks = |outcome, what| lacks(outcome, peer.text, Rights::CALL, what);
    lacks(Bound::bind(peer.gate, 0).map(|_| 0), "binding")?;
    lacks(Bound::bind(peer.gate, PAGE).map(|_| 0), "binding with arguments")?;
    for _ in 0..3 {
        lacks(peer.call(op::ADD, &[1]), "a bound call")?;
    }
    // Another thread of this program is refused in its own name.
    let body = move || {
        if let Err(why) = self::lacks(peer.call(op::ADD, &[1]), peer.text, Rights::CALL, "another thread's bound call")
        {
            eprintln!("{why}");
            thread::exit(1);
        }
    };
    let other = thread::spawn(body, 0).map_err(doing("thread"))?;
    same!(other.join(), Ok(0), "another thread (why is on the error stream)");
    let again = Peer::start()?;
    same!(again.call(op::ADD, &[1]), Ok(1), "another server");
    peer.child.kill().map_err(doing("kill"))?;
    again.end()
}

/// Every call that changes a section.
fn calls_without_change_acl() -> Outcome {
    let base = all_but(Rights::CHANGE_ACL)?;
    store(base + 64, 5);
    let before = look(base)?;
    let lacks = |outcome, what| lacks(outcome, base, Rights::CHANGE_ACL, what);
    let entry = AclEntry { principal: principal::ANY, rights: 31, id: 0, text: ANY_TEXT };
    lacks(section::grant(base, &entry), "setting an entry")?;
    lacks(section::grant(base, &AclEntry { rights: 0, ..entry }), "removing an entry")?;
    lacks(section::delete(base), "deleting")?;
    for len in [0, PAGE, 2 * PAGE, u64::MAX] {
        lacks(stub::section_resize(&Trap, base, len).map(drop), "resizing")?;
    }
    lacks(stub::section_seal(&Trap, base).map(drop), "sealing")?;
    lacks(section::give(base, musubi::start().task()), "giving it away")?;
    lacks(section::name(base, b"mine"), "naming")?;
    holds!(look(base)? == before, "the section has changed");
    same!(load(base + 64), 5, "a word in it");
    // A clone of it is the cloner's own.
    let clone = Section::clone_of(base, 0, 0, 0).map_err(doing("clone"))?;
    same!(load(clone.base() + 64), 5, "the word in the clone");
    clone.delete().map_err(doing("deleting the clone"))?;
    // A program is started in a text that its starter may change, and in no other.
    let server = section::list().find(|i| i.kind == kind::TEXT && i.rights & 16 == 0).ok_or("every text is ours")?;
    let task = task::create(&Limits::default(), musubi::start().user(), b"child").map_err(doing("task"))?;
    let started = task::start(task, server.base, server.base, 0, 0);
    refused(started, Object::Section(server.base, Rights::CHANGE_ACL), "starting a task in another's text")?;
    same!(task::list().find(|t| t.task == task).map(|t| t.threads), Some(0), "its threads");
    task::kill(task).map_err(doing("kill"))
}

/// Any right is enough to read an ACL. Who has none is told which to ask for.
fn acl_read_without_any_right() -> Outcome {
    let base = data(PAGE).map_err(doing("create"))?.base();
    let who = task::identity();
    for right in Rights::all().iter() {
        let it = data(PAGE).map_err(doing("create"))?.base();
        let entry = AclEntry { principal: principal::TASK, rights: right.bits(), id: who.task, text: who.text };
        section::grant(it, &entry).map_err(doing("grant"))?;
        same!(section::acl(it), Ok(Vec::from([entry])), "the ACL, by {right}");
    }
    give_all_up(base)?;
    lacks(section::acl(base), base, Rights::CHANGE_ACL, "reading the ACL")?;
    lacks(stub::acl_read(&Trap, base, 0, 0), base, Rights::CHANGE_ACL, "counting the entries")
}

/// Ports and their interrupt.
fn ports_without_a_right() -> Outcome {
    let ports = section::list().find(|i| i.kind == kind::PORTS && i.rights == 0).ok_or("no ports of a server's")?.base;
    lacks(stub::port_read(&Trap, ports, 0, 1), ports, Rights::READ, "reading a port")?;
    lacks(stub::port_write(&Trap, ports, 0, 1, 0), ports, Rights::WRITE, "writing a port")?;
    lacks(stub::port_write_bytes(&Trap, ports, 0, ports, 1), ports, Rights::WRITE, "writing bytes to a port")?;
    lacks(stub::irq_post(&Trap, ports, 0, 0), ports, Rights::READ, "having an interrupt as a message")
}

/// The same thread in another text: the refusal names that text.
fn in_another_text() -> Outcome {
    let peer = Peer::start()?;
    let told = data(PAGE).map_err(doing("create"))?;
    section::grant(told.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let secret = data(PAGE).map_err(doing("create"))?.base();
    let me = task::identity();
    let shut = Peer::start()?;
    same!(shut.call(op::OWN, &[own::SHUT]), Ok(0), "shutting the other peer");
    let number = |name| TABLE.iter().find(|row| row.name == name).map_or(0, |row| row.number);
    for (call, words, section, right) in [
        ("section_delete", [secret, 0], secret, Rights::CHANGE_ACL),
        ("section_resize", [secret, 0], secret, Rights::CHANGE_ACL),
        ("acl_read", [secret, 0], secret, Rights::CHANGE_ACL),
        ("section_clone", [secret, 0], secret, Rights::READ),
        ("identity", [secret, 0], secret, Rights::WRITE),
        ("gate_bind", [shut.gate, 0], shut.text, Rights::CALL),
    ] {
        let outcome = peer.call(op::TRY, &[told.base(), number(call), words[0], words[1]]);
        same!(outcome, Err(Error::Denied), "what the peer answers for {call}");
        let by = format!("by (thread {}, text {:#x})", me.thread, peer.text);
        let wanted = format!("no right {} on section {section:#x}, {by}", name_of(right));
        same!(load_text(told.base()), wanted, "what it was told itself for {call}");
        lacks_nothing(secret)?;
    }
    shut.child.kill().map_err(doing("kill"))?;
    peer.end()
}

/// This program still has all its rights there, and the memory is as it was.
fn lacks_nothing(base: u64) -> Outcome {
    same!(section::info(base).map_err(doing("info"))?.len, PAGE, "its length");
    same!(load(base), 0, "its first word");
    section::name(base, b"still ours").map_err(doing("naming it"))
}

fn others_threads_and_tasks() -> Outcome {
    let server = task::list().filter(|t| t.user == 0).nth(1).ok_or("no server")?.task;
    let its = task::threads().find(|t| t.task == server).ok_or("it has no thread")?.thread;
    let own = data(PAGE).map_err(doing("create"))?.base();
    refused(stub::thread_join(&Trap, its, 0), Object::Thread(its), "joining")?;
    refused(stub::thread_kill(&Trap, its), Object::Thread(its), "killing a thread")?;
    let [payer, limits] = [server, own];
    for (what, outcome) in [
        ("waiting for a task", stub::task_wait(&Trap, server, 0, own)),
        ("forgetting a task", stub::task_forget(&Trap, server)),
        ("the list of ends", stub::task_ended(&Trap, 0, own)),
        ("limits of a task", stub::task_limit(&Trap, server, own)),
        ("word of ends", stub::ends_post(&Trap, own, 0)),
        ("word of memory", stub::memory_post(&Trap, own, 0, 0, 0)),
        ("word of the time", stub::clock_post(&Trap, own, 0)),
        ("the clock's alarm", stub::clock_alarm(&Trap, 0)),
        ("somebody else's quota", stub::task_create(&Trap, limits, musubi::start().user(), own, 0, payer)),
    ] {
        refused(outcome, Object::System, what)?;
    }
    let refused = |outcome: Result<u64, Error>, what| refused(outcome, Object::Task(server), what);
    refused(stub::task_kill(&Trap, server), "killing a task")?;
    refused(stub::task_end(&Trap, server, 0), "ending a task")?;
    refused(stub::task_start(&Trap, server, musubi::start().text(), 0, 0, 0), "starting a thread of it")?;
    refused(stub::section_give(&Trap, own, server), "giving it a section")?;
    refused(stub::window_map(&Trap, server, 0x10000, own, 0, PAGE, 1), "mapping into its window")?;
    refused(stub::window_unmap(&Trap, server, 0x10000, PAGE), "unmapping in its window")?;
    refused(stub::window_protect(&Trap, server, 0x10000, PAGE, 1), "protecting in its window")?;
    refused(stub::foreign_set(&Trap, server, 0, 0), "making its personality")?;
    refused(stub::foreign_start(&Trap, server, own), "starting a foreign thread of it")?;
    refused(stub::task_pager(&Trap, server, 0, 0), "taking its pager away")?;
    same!(section::info(own).map_err(doing("info"))?.owner, musubi::start().task(), "who owns the section");
    let there = task::list().find(|t| t.task == server);
    holds!(there.is_some_and(|t| t.threads > 0), "the server is gone");
    Ok(())
}

fn what_only_the_system_may() -> Outcome {
    let system = |outcome: Result<u64, Error>, what| refused(outcome, Object::System, what);
    let word = b"word";
    system(stub::power_off(&Trap, 0), "switching off")?;
    system(stub::log_write(&Trap, word.as_ptr() as u64, 4), "writing to the log")?;
    let limits = Limits::default();
    let create = |user| task::create(&limits, user, word);
    system(create(0), "a task of the system's user")?;
    system(create(musubi::start().user() + 1), "a task of another user")?;
    system(create(u64::MAX), "a task of the last user")
}

/// What a server was refused for is between it and the kernel, whatever it puts into its answer.
fn servers_do_not_pass_refusals_on() -> Outcome {
    let peer = Peer::start()?;
    let told = data(PAGE).map_err(doing("create"))?;
    section::grant(told.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let secret = data(PAGE).map_err(doing("create"))?.base();
    same!(peer.call(op::CHANGE, &[secret]), Err(Error::Denied), "by its own words");
    let word = Error::no_right(Object::Section(secret, Rights::READ), task::identity().thread).word();
    same!(peer.call(op::ANSWER, &[word, 0]), Err(Error::Denied), "a refusal that it made up");
    same!(peer.plain(op::ANSWER, &[word, 0]), Err(Error::Denied), "the same by a plain call");
    same!(peer.call(op::ANSWER, &[u64::MAX, 0]), Err(Error::BadArgument), "what no error has for a word");
    peer.end()
}

/// An error names the thread that was refused, whoever prints it.
fn carried_to_another_thread() -> Outcome {
    let base = all_but(Rights::CHANGE_ACL)?;
    let told: &'static Mutex<String> = Box::leak(Box::new(Mutex::new(String::new())));
    let error = section::delete(base).err().ok_or("deleting went through")?;
    let here = format!("{error}");
    let body = move || *told.lock() = format!("{error} {}", task::identity().thread);
    let other = thread::spawn(body, 0).map_err(doing("thread"))?;
    let number = other.number();
    other.join().map_err(doing("join"))?;
    same!(*told.lock(), format!("{here} {number}"), "what another thread prints");
    holds!(here.contains(&format!("(thread {},", task::identity().thread)), "{here}");
    Ok(())
}

/// A call that fails for another reason than a missing right does not say "no right".
fn other_reasons_have_other_names() -> Outcome {
    let peer = Peer::start()?;
    same!(Bound::bind(peer.no_gate(), 0).err(), Some(Error::NotFound), "binding where no gate is");
    same!(section::delete(peer.no_gate()), Err(Error::NotFound), "deleting what is no section");
    // Plain calls: as deep as there is, no gate, a program that is dead.
    let other = Peer::start()?;
    let deep = peer.plain(op::BOUNCE, &[other.gate, peer.gate, 1]);
    same!(deep, Ok(musubi::abi::gate::DEPTH_MAX as u64), "how deep plain calls come");
    let end = |at: u64| -> Result<(u64, u64, String), String> {
        let exit = crate::sections::role(&["plain-call", &format!("{at:#x}")])?;
        Ok((exit.kind, exit.cause, ended::describe(&exit, |_| None)))
    };
    let (kind, cause, said) = end(peer.no_gate())?;
    same!((kind, cause), (exit::FAULT, cause::NO_GATE), "a plain call where no gate is");
    let wanted = format!("fault: no gate at address {:#x} of section {:#x}, by (thread ", peer.no_gate(), peer.text);
    holds!(said.starts_with(&wanted), "{said}");
    other.end()?;
    let dead = peer.call(op::OWN, &[own::DELETE_TEXT]);
    same!(dead, Err(Error::Dead), "the call in which the callee ends");
    same!(peer.call(op::ADD, &[1]), Err(Error::Dead), "a bound call afterwards");
    same!(Trap.enter(0x33, [99, 0, 0, 0, 0, 0]), Err(Error::NotFound), "unbinding what was not bound");
    let (kind, cause, _) = end(peer.gate)?;
    holds!(kind == exit::FAULT && cause != cause::DENIED, "a plain call to a text that is gone: cause {cause}");
    let _ = peer.child.kill();
    Ok(())
}
