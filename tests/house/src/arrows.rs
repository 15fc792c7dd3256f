//! Who may use whom: `abi` <- `core` <- `kernel`, and `abi` <- `sdk/rt` <- `interfaces` <- `sdk/musubi` <- programs.

use std::path::Path;

use anyhow::Result;

use crate::{Problems, tree};

/// The crates of `core/`, each allowed to use those above it. A new word gets its place here.
const CORE: &[&str] = &[
    "sync",
    "shelf",
    "frames",
    "space",
    "quota",
    "parts",
    "acl",
    "paging",
    "pages",
    "scan",
    "view",
    "keys",
    "gate",
    "post",
    "info",
    "trace",
    "symbols",
    "sched",
    "board",
    "itc",
    "files",
    "pager",
    "elf",
    "mbcf",
    "store",
    "linux-boot",
];

/// Core crates whose traits `kernel/arch` implements (ports), so that core never knows the machine; and `shelf` and `frames`, which the heap and memory stand on.
const PORTS: &[&str] = &["paging", "view", "gate", "shelf", "frames"];

/// A program may use the core crate of its own word.
const OWN_WORD: &[(&str, &[&str])] = &[
    ("servers/loader", &["elf"]),
    ("servers/linux", &["elf"]),
    ("servers/sched", &["board"]),
    ("servers/sched-fast", &["board"]),
    ("servers/sched-policies", &["board"]),
    ("servers/sched-initial", &["board"]),
    ("servers/files", &["files"]),
    ("servers/memory", &["quota"]),
    ("servers/store", &["store"]),
];

/// Programs that make instances of others.
const STARTERS: &[&str] = &["servers/first", "servers/loader"];

/// Interfaces that are made of another one: (user, used).
const INTERFACE_USES: &[(&str, &str)] = &[];

/// Where a crate stands in the house.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place<'a> {
    Abi,
    /// Its rank in [`CORE`].
    Core(usize),
    Arch,
    Kernel,
    /// `sdk/rt`, `sdk/derive` and `sdk/window`, which know no interface.
    SdkBelow,
    Interface(&'a str),
    /// `sdk/musubi`, what programs import.
    Sdk,
    /// `sdk/instance`, by which programs are started, for those of [`STARTERS`].
    Instance,
    /// A server or an application, by its folder.
    Program(&'a str),
    Host,
    /// Test programs that run on Musubi.
    Guest,
    Test,
}

impl Place<'_> {
    fn of(dir: &str) -> Result<Place<'_>, String> {
        let (top, rest) = dir.split_once('/').unwrap_or((dir, ""));
        match (top, rest) {
            ("abi", "") => Ok(Place::Abi),
            ("core", name) => match CORE.iter().position(|known| *known == name) {
                Some(rank) => Ok(Place::Core(rank)),
                None => Err(format!(
                    "{dir}: has no place in the order of core crates; put it into CORE in tests/house/src/arrows.rs"
                )),
            },
            ("kernel", "arch") => Ok(Place::Arch),
            ("kernel", "") => Ok(Place::Kernel),
            ("sdk", "rt" | "derive" | "window") => Ok(Place::SdkBelow),
            ("sdk", "musubi") => Ok(Place::Sdk),
            ("sdk", "instance") => Ok(Place::Instance),
            ("interfaces", _) => Ok(Place::Interface(dir)),
            ("servers" | "apps", name) if !name.is_empty() => Ok(Place::Program(dir)),
            ("host", name) if !name.is_empty() => Ok(Place::Host),
            ("tests", name) if name == "guest" || name.starts_with("guest-") || name.starts_with("guest/") => {
                Ok(Place::Guest)
            }
            ("tests", name) if !name.is_empty() => Ok(Place::Test),
            _ => Err(format!(
                "{dir}: a crate has no place here; see the folders in README.md, or extend tests/house/src/arrows.rs"
            )),
        }
    }

    fn may_use(self, to: Place) -> bool {
        match (self, to) {
            (Place::Abi, _) => false,
            // The contract is for everybody, except that core/sync needs none of it.
            (Place::Core(0), Place::Abi) => false,
            (_, Place::Abi) => true,
            (Place::Core(from), Place::Core(to)) => to < from,
            (Place::Arch, Place::Core(to)) => to == 0 || PORTS.contains(&CORE[to]),
            (Place::Kernel, Place::Core(_) | Place::Arch) => true,
            (Place::SdkBelow, Place::Core(to)) => to == 0 || matches!(CORE[to], "info" | "itc" | "trace"),
            (Place::SdkBelow, Place::SdkBelow) => true,
            (Place::Interface(_), Place::SdkBelow) => true,
            (Place::Interface(from), Place::Interface(to)) => INTERFACE_USES.contains(&(from, to)),
            (Place::Sdk, Place::SdkBelow | Place::Interface(_)) => true,
            // What the host writes for it to read.
            (Place::Sdk, Place::Core(to)) => CORE[to] == "symbols",
            (Place::Instance, Place::SdkBelow | Place::Interface(_) | Place::Sdk) => true,
            (Place::Instance, Place::Core(to)) => CORE[to] == "elf",
            (Place::Program(dir), Place::Instance) => STARTERS.contains(&dir),
            (Place::Program(_), Place::SdkBelow | Place::Interface(_) | Place::Sdk) => true,
            (Place::Program(dir), Place::Core(to)) => {
                OWN_WORD.iter().any(|(program, words)| *program == dir && words.contains(&CORE[to]))
            }
            (Place::Host, Place::Core(_) | Place::Interface(_) | Place::Host) => true,
            (Place::Test, Place::Core(_) | Place::Interface(_) | Place::Host | Place::Test) => true,
            // A scheduler that goes wrong writes on the board that good ones write on.
            (Place::Guest, Place::Core(to)) => CORE[to] == "board",
            (Place::Guest, Place::SdkBelow | Place::Interface(_) | Place::Sdk | Place::Guest | Place::Test) => true,
            _ => false,
        }
    }

    /// What tests of a crate may use on top of that.
    fn may_use_in_tests(self, to: Place) -> bool {
        match (self, to) {
            (_, Place::Test) => true,
            // What the macro makes is only seen to compile above it.
            (Place::SdkBelow, Place::Interface(_) | Place::Sdk) => true,
            _ => false,
        }
    }
}

pub fn check(root: &Path) -> Result<Problems> {
    let mut problems = Problems::new();
    for member in tree::crates(root)? {
        let from = match Place::of(&member.dir) {
            Ok(place) => place,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        for used in &member.uses {
            // A place that does not exist is reported once, at the crate itself.
            let Ok(to) = Place::of(&used.dir) else {
                continue;
            };
            if !(from.may_use(to) || used.by_tests && from.may_use_in_tests(to)) {
                problems.push(format!("{}/Cargo.toml: {}", member.dir, advice(from, to, &member.dir, &used.dir)));
            }
        }
    }
    Ok(problems)
}

fn advice(from: Place, to: Place, user: &str, used: &str) -> String {
    let why = match (from, to) {
        (_, Place::Kernel | Place::Arch) => {
            "only the kernel sees the kernel; what others need belongs into abi or core"
        }
        (_, Place::Instance) => {
            "only those start programs that are in STARTERS in tests/house/src/arrows.rs; ask the loader, or init"
        }
        (_, Place::Program(_)) => "programs meet through interfaces; depend on the trait in interfaces instead",
        (Place::Core(_), Place::Core(_)) => {
            "core crates use those above them in CORE; let the lower one define a trait, or move it in tests/house/src/arrows.rs"
        }
        (Place::Program(_), Place::Core(_)) => {
            "a program may use the core crate of its own word only; if it is, add it to OWN_WORD in tests/house/src/arrows.rs"
        }
        (Place::Arch, Place::Core(_)) => {
            "kernel/arch implements ports; if this is one, add it to PORTS in tests/house/src/arrows.rs"
        }
        _ => "arrows point down: abi <- core <- kernel; abi <- sdk/rt <- interfaces <- sdk/musubi <- servers, apps",
    };
    format!("{user} may not use {used}: {why}")
}
