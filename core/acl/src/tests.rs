//! The list against its definition, a table of which subject may do what.

use super::*;
use proptest::prelude::*;

const BASE: u64 = 0x4000_0060_0000;
const SUBJECT: Subject = Subject { node: 1, user: 2, task: 3, thread: 4, text: 0x5000, original: 0x6000 };

fn entry(principal: u32, id: u64, text: u64, rights: Rights) -> AclEntry {
    AclEntry { principal, rights: rights.bits(), id, text }
}

#[test]
fn no_entry_no_right() {
    assert_eq!(Acl::new().rights(&SUBJECT), Rights::empty());
    assert!(!allows(&Acl::new(), &SUBJECT, Rights::READ));
    assert!(allows(&Acl::new(), &SUBJECT, Rights::empty()));
}

fn allows(acl: &Acl, subject: &Subject, rights: Rights) -> bool {
    acl.check(BASE, subject, rights).is_ok()
}

#[test]
fn principal_and_text_must_both_match() {
    let right = Rights::READ;
    for (principal, id) in
        [(principal::ANY, 0), (principal::THREAD, 4), (principal::TASK, 3), (principal::USER, 2), (principal::NODE, 1)]
    {
        for text in [ANY_TEXT, 0x5000, 0x6000] {
            assert!(allows(&Acl::with(entry(principal, id, text, right)), &SUBJECT, right));
        }
        assert!(!allows(&Acl::with(entry(principal, id, 0x7000, right)), &SUBJECT, right));
        if principal != principal::ANY {
            assert!(!allows(&Acl::with(entry(principal, id + 10, ANY_TEXT, right)), &SUBJECT, right));
        }
    }
}

/// What is remembered holds for this subject and these rights, as long as the list stays.
#[test]
fn asked_again() {
    let mut acl = Acl::with(entry(principal::THREAD, 4, 0x6000, Rights::CHANGE_ACL));
    let mut may = |subject: &Subject, rights| acl.check_again(BASE, subject, rights).is_ok();
    for _ in 0..3 {
        assert!(may(&SUBJECT, Rights::CHANGE_ACL));
        assert!(!may(&SUBJECT, Rights::CHANGE_ACL | Rights::READ));
        assert!(!may(&Subject { thread: 5, ..SUBJECT }, Rights::CHANGE_ACL));
        assert!(!may(&Subject { original: 0x5000, ..SUBJECT }, Rights::CHANGE_ACL), "another text at the same address");
        assert!(!may(&Subject { text: 0x5800, original: 0x5800, ..SUBJECT }, Rights::CHANGE_ACL));
    }
    let gone = entry(principal::THREAD, 4, 0x6000, Rights::empty());
    assert_eq!(acl.set(&gone), Ok(Change::Shrank));
    assert!(acl.check_again(BASE, &SUBJECT, Rights::CHANGE_ACL).is_err());
    assert_eq!(acl.set(&entry(principal::THREAD, 4, 0x6000, Rights::CHANGE_ACL)), Ok(Change::Grew));
    assert!(acl.check_again(BASE, &SUBJECT, Rights::CHANGE_ACL).is_ok());
    assert_eq!(acl.forget_text(0x6000), Change::Shrank);
    assert!(acl.check_again(BASE, &SUBJECT, Rights::CHANGE_ACL).is_err());
}

/// An entry that names a clone is about that instance only; one that names the original is about all of them.
#[test]
fn clones_of_a_text() {
    let original = Subject { text: 0x6000, original: 0x6000, ..SUBJECT };
    let sibling = Subject { text: 0x5800, ..SUBJECT };
    let to_all = Acl::with(entry(principal::ANY, 0, 0x6000, Rights::CALL));
    let to_one = Acl::with(entry(principal::ANY, 0, 0x5000, Rights::CALL));
    assert!([SUBJECT, original, sibling].iter().all(|subject| allows(&to_all, subject, Rights::CALL)));
    assert!(allows(&to_one, &SUBJECT, Rights::CALL));
    assert!(!allows(&to_one, &original, Rights::CALL) && !allows(&to_one, &sibling, Rights::CALL));
}

#[test]
fn what_is_refused_changes_nothing() {
    let mut acl = Acl::with(entry(principal::TASK, 3, 0, Rights::READ));
    let before = acl.clone();
    for bad in [
        AclEntry { principal: 5, rights: 1, id: 1, text: 0 },
        AclEntry { principal: u32::MAX, rights: 0, id: 0, text: 0 },
        AclEntry { principal: principal::TASK, rights: 64, id: 3, text: 0 },
        AclEntry { principal: principal::TASK, rights: u32::MAX, id: 3, text: 0 },
        AclEntry { principal: principal::ANY, rights: 1, id: 1, text: 0 },
        AclEntry { principal: principal::ANY, rights: 0, id: 1, text: 0 },
    ] {
        assert_eq!(acl.set(&bad), Err(Error::BadArgument), "{bad:?}");
        assert_eq!(acl, before);
    }
}

#[test]
fn a_full_list_still_changes_and_shrinks() {
    let mut acl = Acl::new();
    for id in 0..ACL_MAX as u64 {
        assert_eq!(acl.set(&entry(principal::TASK, id, 0, Rights::READ)), Ok(Change::Grew));
    }
    let one_more = entry(principal::TASK, ACL_MAX as u64, 0, Rights::READ);
    assert_eq!(acl.set(&one_more), Err(Error::TooBig));
    assert_eq!(acl.set(&entry(principal::TASK, ACL_MAX as u64, 0, Rights::empty())), Ok(Change::Same));
    assert_eq!(acl.set(&entry(principal::TASK, 7, 0, Rights::all())), Ok(Change::Grew));
    assert_eq!(acl.set(&entry(principal::TASK, 7, 0, Rights::empty())), Ok(Change::Shrank));
    assert_eq!(acl.set(&one_more), Ok(Change::Grew));
    assert_eq!(acl.entries().len(), ACL_MAX);
}

#[test]
fn a_change_says_what_it_did() {
    let mut counted = Acl::new();
    let before = counted.changes();
    assert_eq!(counted.forget_text(3), Change::Same);
    assert_ne!(counted.changes(), before, "what was asked before may not hold any more");
    let set = |acl: &mut Acl, rights| acl.set(&entry(principal::USER, 2, 0x5000, rights)).unwrap();
    let mut acl = Acl::new();
    assert_eq!(set(&mut acl, Rights::empty()), Change::Same);
    assert_eq!(set(&mut acl, Rights::READ), Change::Grew);
    assert_eq!(set(&mut acl, Rights::READ), Change::Same);
    assert_eq!(set(&mut acl, Rights::READ | Rights::WRITE), Change::Grew);
    // One right went, another came: that is a loss.
    assert_eq!(set(&mut acl, Rights::READ | Rights::EXECUTE), Change::Shrank);
    assert_eq!(set(&mut acl, Rights::empty()), Change::Shrank);
    assert_eq!(acl, Acl::new());
}

/// For every pair of rights that are there and rights that are needed: what is refused names the section, exactly what is
/// missing, and the thread. (The text is that of whoever holds the error.)
#[test]
fn a_refusal_names_section_right_and_thread() {
    let text = 0x4000_0020_0000;
    let subject = Subject { text, ..SUBJECT };
    for has in 0..=Rights::all().bits() {
        let acl = Acl::with(entry(principal::THREAD, 4, text, Rights::from_bits_truncate(has)));
        for needed in 0..=Rights::all().bits() {
            let (right, missing) = (Rights::from_bits_truncate(needed), Rights::from_bits_truncate(needed & !has));
            let error = |right| Err(Error::no_right(Object::Section(BASE, right), 4));
            let wanted = if missing.is_empty() { Ok(()) } else { error(missing) };
            assert_eq!(acl.check(BASE, &subject, right), wanted, "{right} of {has:#x}");
            let one = acl.check_any(BASE, &subject, right, Rights::CHANGE_ACL);
            let wanted = if needed & has != 0 { Ok(()) } else { error(Rights::CHANGE_ACL) };
            assert_eq!(one, wanted, "one of {right} of {has:#x}");
        }
    }
    assert_eq!(subject.refused(Object::Task(9)), Error::no_right(Object::Task(9), 4));
}

/// Numbers so few that entries and subjects meet.
fn any_entry() -> impl Strategy<Value = AclEntry> {
    (0..6u32, 0..3u64, 0..4u64, 0..128u32).prop_map(|(principal, id, text, rights)| {
        // Mostly valid.
        let id = if principal == principal::ANY && rights & 3 != 0 { 0 } else { id };
        AclEntry { principal, rights: if rights < 66 { rights } else { 0 }, id, text }
    })
}

fn subject() -> impl Strategy<Value = Subject> {
    (0..3u64, 0..3u64, 0..3u64, 0..3u64, 1..4u64, 1..4u64)
        .prop_map(|(node, user, task, thread, text, original)| Subject { node, user, task, thread, text, original })
}

/// The definition, written down once more: principals by name, one entry after the other.
fn by_definition(entries: &[AclEntry], subject: &Subject) -> u32 {
    let mut all = 0;
    for entry in entries {
        let numbers = [0, subject.thread, subject.task, subject.user, subject.node];
        let text = [0, subject.text, subject.original].contains(&entry.text);
        if text && numbers[entry.principal as usize] == entry.id {
            all |= entry.rights;
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_its_definition(
        sets in prop::collection::vec(any_entry(), 0..40),
        subjects in prop::collection::vec(subject(), 8),
    ) {
        let mut acl = Acl::new();
        let mut table: Vec<AclEntry> = Vec::new();
        for set in sets {
            let before: Vec<Rights> = subjects.iter().map(|subject| acl.rights(subject)).collect();
            let valid = set.principal <= 4 && set.rights < 64 && (set.principal != 0 || set.id == 0);
            let result = acl.set(&set);
            prop_assert_eq!(result.is_ok(), valid);
            if valid {
                table.retain(|old| (old.principal, old.id, old.text) != (set.principal, set.id, set.text));
                if set.rights != 0 {
                    table.push(set);
                }
            }
            for (subject, before) in subjects.iter().zip(before) {
                let now = acl.rights(subject);
                prop_assert_eq!(now.bits(), by_definition(&table, subject));
                match result {
                    Ok(Change::Same) | Err(_) => prop_assert_eq!(now, before),
                    Ok(Change::Grew) => prop_assert!(now.contains(before)),
                    Ok(Change::Shrank) => {}
                }
            }
        }
    }

    /// Neither the order in which entries came nor the order in which they stand matters.
    #[test]
    fn order_does_not_matter(
        (first, second) in prop::collection::vec(any_entry(), 0..12)
            .prop_flat_map(|entries| (Just(entries.clone()), Just(entries).prop_shuffle())),
        subject in subject(),
    ) {
        let distinct = |entries: &[AclEntry]| {
            let keys: std::collections::BTreeSet<_> = entries.iter().map(key).collect();
            keys.len() == entries.len()
        };
        prop_assume!(distinct(&first));
        let build = |entries: &[AclEntry]| {
            let mut acl = Acl::new();
            for entry in entries {
                let _ = acl.set(entry);
            }
            acl
        };
        let (first, second) = (build(&first), build(&second));
        prop_assert_eq!(first.rights(&subject), second.rights(&subject));
        prop_assert_eq!(first, second);
    }

    /// Forgetting a text is removing each entry that names it, and nothing else.
    #[test]
    fn a_forgotten_text_has_no_entry(entries in prop::collection::vec(any_entry(), 0..12), at in 0usize..12) {
        let mut acl = Acl::new();
        for entry in &entries {
            let _ = acl.set(entry);
        }
        let Some(text) = entries.get(at).map(|e| e.text).filter(|&text| text != abi::rights::ANY_TEXT) else { return Ok(()) };
        let before = acl.entries().len();
        let kept: Vec<AclEntry> = acl.entries().iter().copied().filter(|e| e.text != text).collect();
        let change = acl.forget_text(text);
        prop_assert_eq!(change == Change::Same, before == kept.len());
        prop_assert_eq!(acl.entries(), &kept[..]);
        prop_assert_eq!(acl.forget_text(text), Change::Same);
    }
}

#[test]
fn who_has_seen_a_list_hears_of_its_changes() {
    let everybody = |rights| entry(principal::ANY, 0, ANY_TEXT, rights);
    let mut acl = Acl::with(everybody(Rights::READ));
    let seen = acl.seen();
    assert!(seen.is_as_before() && acl.seen().is_as_before(), "nothing has changed");
    let copy = acl.clone();
    drop(copy);
    assert!(seen.is_as_before(), "the end of a copy is no change");
    let ways: [fn(&mut Acl); 3] = [
        |acl| _ = acl.set(&AclEntry { rights: Rights::WRITE.bits(), ..acl.entries()[0] }),
        |acl| _ = acl.forget_text(1),
        Acl::changed,
    ];
    for change in ways {
        let before = acl.seen();
        change(&mut acl);
        assert!(!before.is_as_before() && !seen.is_as_before());
        assert!(acl.seen().is_as_before());
    }
    let last = acl.seen();
    drop(acl);
    assert!(!last.is_as_before(), "a list that is gone says nothing");
}
