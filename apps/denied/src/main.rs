#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::refusal::Object;
use musubi::abi::rights::{ANY_TEXT, principal};
use musubi::abi::section as abi;
use musubi::command::Command;
use musubi::rt::gate::{Caller, Skeleton, Values};
use musubi::rt::{Bound, Gates, Section, plain_call, probe, section};
use musubi::{AclEntry, Error, Rights, Start, eprintln, println, why};

musubi::program!(run);

const WENT_THROUGH: i32 = 3;

fn run(start: &Start) -> i32 {
    let words: Vec<&str> = start.words().collect();
    let outcome = match words.as_slice() {
        ["read"] => denied_access(Rights::READ),
        ["write"] => denied_access(Rights::WRITE),
        ["execute"] => denied_access(Rights::EXECUTE),
        ["call"] => call(),
        ["plain-call", gate] => plain(gate),
        ["change-acl"] => change_acl(),
        ["all"] => all(),
        _ => {
            eprintln!("usage: denied read|write|execute|call|change-acl|all");
            return 2;
        }
    };
    match outcome {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("denied: {why}");
            WENT_THROUGH
        }
    }
}

/// A section of another program on which this text has no right at all.
fn foreign_section() -> Result<u64, String> {
    let own = musubi::start().task();
    let secret = |info: &abi::SectionInfo| info.owner != own && info.rights == 0 && info.kind == abi::kind::DATA;
    section::list().find(secret).map(|info| info.base).ok_or_else(|| "every section is open to us".into())
}

/// A load, store or jump without the right. Does not come back if all is well.
fn denied_access(right: Rights) -> Result<(), String> {
    let target = foreign_section()?;
    println!("trying to {} {target:#x} ...", right.words());
    match right {
        Rights::READ => drop(core::hint::black_box(probe::read(target))),
        Rights::WRITE => probe::write(target),
        _ => probe::execute(target),
    }
    Err("the access went through".into())
}

struct Nothing;

impl Skeleton for Nothing {
    fn dispatch(&self, _: &Caller, _: u64, _: &[u64; 6]) -> Values {
        Values(0, 0)
    }
}

/// Gates whose text grants the right call to nobody: ours. Binding and calling must be refused.
fn call() -> Result<(), String> {
    let gates = Gates::export(Nothing, 1).map_err(|e| format!("no gate: {e}"))?;
    let text = musubi::start().text();
    refused("binding", Bound::bind(gates.address(), 0).map(drop), text, Rights::CALL)?;
    let address = format!("{:#x}", gates.address());
    let child = Command::new(b"bin/denied").arg(b"plain-call").arg(address.as_bytes()).spawn();
    let exit = child.map_err(|e| format!("{e}"))?.wait().map_err(|e| format!("{e}"))?;
    match musubi::ended::status(&exit) {
        139 => {
            println!("a plain call: {}", describe(&exit));
            Ok(())
        }
        other => Err(format!("a plain call: status {other}")),
    }
}

/// What must be refused for the lack of a right: the error says of which, on what, and whose.
fn refused(what: &str, outcome: Result<(), Error>, section: u64, right: Rights) -> Result<(), String> {
    match outcome {
        Err(e) if e.refusal().is_some_and(|r| r.object == Object::Section(section, right)) => {
            println!("{what}: {}", why(e));
            Ok(())
        }
        Err(e) => Err(format!("{what}: not refused for the right {} but: {}", right.words(), why(e))),
        Ok(()) => Err(format!("{what} {section:#x} went through")),
    }
}

/// A plain call to a gate of another program that does not let us in is a fault.
fn plain(gate: &str) -> Result<(), String> {
    let gate = u64::from_str_radix(gate.trim_start_matches("0x"), 16).map_err(|e| format!("{gate}: {e}"))?;
    Err(format!("a plain call came back: {:?}", plain_call(gate, [0; 6])))
}

fn change_acl() -> Result<(), String> {
    let target = foreign_section()?;
    let all = Rights::all().difference(Rights::DMA).bits();
    let entry = AclEntry { principal: principal::ANY, rights: all, id: 0, text: ANY_TEXT };
    let refused = |what: &str, outcome: Result<(), Error>| refused(what, outcome, target, Rights::CHANGE_ACL);
    refused("changing the ACL", section::grant(target, &entry))?;
    refused("reading the ACL", section::acl(target).map(drop))?;
    self::refused("cloning", Section::clone_of(target, 0, 0, 0).map(drop), target, Rights::READ)?;
    refused("giving away", section::give(target, musubi::start().task()))?;
    refused("deleting", section::delete(target))
}

fn describe(exit: &musubi::abi::task::Exit) -> String {
    musubi::ended::describe(exit, musubi::ended::section_name)
}

fn all() -> Result<(), String> {
    for right in ["read", "write", "execute"] {
        let child = Command::new(b"bin/denied").arg(right.as_bytes()).spawn().map_err(|e| format!("{e}"))?;
        let exit = child.wait().map_err(|e| format!("{e}"))?;
        if musubi::ended::status(&exit) != 139 {
            return Err(format!("{right}: status {}", musubi::ended::status(&exit)));
        }
        println!("{}", describe(&exit));
    }
    call()?;
    change_acl()
}
