//! `docs/abi.md` is made of the table of calls, so that every change of the contract is seen in review.

use abi::Error;
use abi::calls::{Class, Entry, Memory, TABLE, Why};
use abi::error;
use std::fmt::Write;

fn argument(name: &str, memory: Memory) -> String {
    match memory {
        Memory::No => name.into(),
        memory => format!("{name}: {memory:?}").to_lowercase(),
    }
}

/// A test of each call, by its name.
const TESTED: &str = include_str!("tested.txt");

fn test_of(name: &str) -> &'static str {
    let line = TESTED.lines().filter_map(|line| line.split_once(' ')).find(|(call, _)| *call == name);
    line.unwrap_or_else(|| panic!("abi/tests/tested.txt has no test of {name}")).1
}

/// How many calls each class has, and what tries each (SSS-32, SSS-40).
fn classes(out: &mut String) {
    let of = |class: Class| TABLE.iter().filter(move |row| row.class() == class);
    out.push_str("\n# By class\n\nThe classes are those in which SSS-CORE counts its 81 calls; those of MBCF on the own node as yet.\n\n| class | calls | light | SSS-CORE |\n|---|--:|--:|--:|\n");
    for (class, theirs) in Class::ALL.into_iter().zip([23, 11, 16, 15, 4, 12]) {
        let light = of(class).filter(|row| row.entry == Entry::Light).count();
        writeln!(out, "| {} | {} | {light} | {theirs} |", class.name(), of(class).count()).unwrap();
    }
    let light = TABLE.iter().filter(|row| row.entry == Entry::Light).count();
    writeln!(out, "| all | {} | {light} | 81 |", TABLE.len()).unwrap();
    for class in Class::ALL.into_iter().filter(|class| of(*class).count() > 0) {
        writeln!(out, "\n| {} | entry | tried by |\n|---|---|---|", class.name()).unwrap();
        for row in of(class) {
            let entry = format!("{:?}", row.entry).to_lowercase();
            writeln!(out, "| `{}` | {entry} | `{}` |", row.name, test_of(row.name)).unwrap();
        }
    }
}

/// Of the calls by the full entry, what keeps each from being a light one.
fn full(out: &mut String) {
    out.push_str("\n# Why the full entry\n\nWhat is called often and cannot wait is a light call. The others:\n\n| it | calls |\n|---|---|\n");
    for why in Why::ALL {
        let names: Vec<String> =
            TABLE.iter().filter(|row| row.why_full() == Some(why)).map(|row| format!("`{}`", row.name)).collect();
        writeln!(out, "| {} | {} |", why.text(), names.join(", ")).unwrap();
    }
}

#[test]
fn each_full_call_says_why() {
    for row in TABLE {
        assert_eq!(row.why_full().is_some(), row.entry == Entry::Full, "{}", row.name);
    }
}

fn page() -> String {
    let mut out = String::from(
        "# Kernel calls\n\nMade from `abi/src/calls.rs` and `abi/src/error.rs` (`MUSUBI_WRITE=1 cargo test -p musubi-abi` \
         writes it anew).\nConvention: `rax` = number, arguments in `rdi rsi rdx r10 r8 r9`; on return `rax` = 0 or an error, \
         `rdx` = the value.\nBy the full entry all other registers but `rcx` and `r11` keep their values, by the light one those that a procedure keeps.\nWhere the kernel reads or writes for the caller at an argument's address, this stands behind a colon.\nCalls through gates: `abi/src/gate.rs`.\n\n| number | entry | call | what |\n|---|---|---|---|\n",
    );
    for row in TABLE {
        let doc = row.doc.split_whitespace().collect::<Vec<_>>().join(" ");
        let entry = format!("{:?}", row.entry).to_lowercase();
        let arguments: Vec<String> =
            row.arguments.iter().zip(row.memory).map(|(name, memory)| argument(name, *memory)).collect();
        writeln!(out, "| {:#04x} | {entry} | `{}({})` | {doc} |", row.number, row.name, arguments.join(", ")).unwrap();
    }
    classes(&mut out);
    full(&mut out);
    out.push_str("\n# Errors\n\n| number | error | text |\n|---|---|---|\n");
    for (number, name, text) in error::table() {
        writeln!(out, "| {number} | `{name}` | {text} |").unwrap();
    }
    out.push_str(
        "\nAny other word is that of a missing right (`abi/src/refusal.rs`): it says right, section and thread. Such an error \
         reads \"no right change-acl on section 0x420000200000, by (thread 7, text 0x420000400000)\".\n",
    );
    out
}

#[test]
fn page_is_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/abi.md");
    if std::env::var_os("MUSUBI_WRITE").is_some() {
        std::fs::write(path, page()).unwrap();
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert!(there == page(), "docs/abi.md is not what the table says: MUSUBI_WRITE=1 cargo test -p musubi-abi");
}

#[test]
fn every_call_has_its_test_and_every_test_its_call() {
    let tested: Vec<_> = TESTED.lines().map(|line| line.split_once(' ').expect("a call and a test").0).collect();
    let called: Vec<_> = TABLE.iter().map(|row| row.name).collect();
    assert_eq!(tested, called, "abi/tests/tested.txt: in the order of the table");
}

#[test]
fn numbers_and_names_are_used_once_and_rise() {
    assert!(TABLE.windows(2).all(|pair| pair[0].number < pair[1].number));
    let mut names: Vec<_> = TABLE.iter().map(|row| row.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), TABLE.len());
}

#[test]
fn every_number_decodes_to_its_call_or_to_none() {
    for number in 0..0x1_0000 {
        let decoded = abi::calls::Call::decode(number, [1, 2, 3, 4, 5, 6]);
        assert_eq!(decoded.is_some(), TABLE.iter().any(|row| row.number == number), "{number:#x}");
    }
    assert_eq!(
        abi::calls::Call::decode(abi::gate::RETURN, [7, 8, 0, 0, 0, 0]),
        Some(abi::calls::Call::GateReturn { value: 7, value2: 8 })
    );
}

#[test]
fn every_number_of_an_error_is_its_own() {
    for (number, name, text) in error::table() {
        let error = Error::from_word(number).unwrap();
        assert_eq!((error.word(), error.told(), error.refusal()), (number, error, None));
        assert_eq!((format!("{error:?}"), format!("{error}")), (name.into(), text.into()));
    }
    assert_eq!((Error::from_word(0), Error::from_word(error::table().count() as u64 + 1)), (None, None));
    // Each number is the place of its line.
    assert_eq!((Error::Denied.word(), Error::Changed.word(), Error::BadProgram.word()), (1, 18, 19));
    assert_eq!(format!("{:?} {}", Error::Changed, Error::Changed), "Changed changed meanwhile");
}
