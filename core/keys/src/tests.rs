//! Small worlds of lists and domains, for all the tests.

mod cache;
mod class;
mod machine;
mod table;
mod told;

use super::*;
use abi::rights::{ANY_TEXT, principal};
use abi::{AclEntry, Rights};
use acl::Subject;
use proptest::prelude::*;

/// The task whose view it is: on node 1, of user 2, with the number 3.
fn domain(thread: u64, text: u64, original: u64) -> Subject {
    Subject { node: 1, user: 2, task: 3, thread, text, original }
}

/// A subject that stands for the whole task.
const TASK: Subject = Subject { node: 1, user: 2, task: 3, thread: 0, text: 0, original: 0 };

fn entry(principal: u32, id: u64, text: u64, rights: Rights) -> AclEntry {
    AclEntry { principal, rights: rights.bits(), id, text }
}

fn class(entries: &[AclEntry]) -> Class {
    Class::of(entries, &TASK, None)
}

/// A class that only this text may use.
fn private(text: u64) -> Class {
    class(&[entry(principal::ANY, 0, text, Rights::READ | Rights::WRITE)])
}

/// Numbers so few that entries and domains meet: threads 1 to 3, texts 1 to 4, and every kind of principal.
fn any_entry() -> impl Strategy<Value = AclEntry> {
    let text = prop_oneof![1 => Just(ANY_TEXT), 3 => 1..5u64];
    (0..5u32, 1..4u64, text, 0..8u32).prop_map(|(principal, id, text, rights)| {
        let id = if principal == principal::ANY { 0 } else { id };
        AclEntry { principal, rights, id, text }
    })
}

/// What `rights` come to on this processor, where writing takes reading too.
fn usable(rights: Rights) -> (bool, bool) {
    let read = rights.contains(Rights::READ);
    (read, read && rights.contains(Rights::WRITE))
}

/// What the register says of a key, as the processor reads it: loads, stores.
fn says(register: u32, key: u8) -> (bool, bool) {
    let disabled = |bit: u32| register & 1 << (2 * u32::from(key) + bit) != 0;
    (!disabled(0), !disabled(0) && !disabled(1))
}

#[test]
fn registers_of_the_gate() {
    for key in 0..16 {
        let (public, gate) = (key == 0, key == 1);
        assert_eq!(says(OPEN, key), (public || gate, gate), "key {key}");
        assert_eq!(says(SHUT, key), (public || gate, false), "key {key}");
    }
}
