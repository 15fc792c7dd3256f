//! Classes against the lists they come from.

use super::*;

/// Every domain there can be in the small world, with a thread and texts that no entry names.
fn domains() -> Vec<Subject> {
    let texts = || 1..6u64;
    let pairs = texts().flat_map(|text| texts().map(move |original| (text, original)));
    pairs.flat_map(|(text, original)| (1..5).map(move |thread| domain(thread, text, original))).collect()
}

/// What a list gives each of these domains, as far as it is reading and writing.
fn rights(entries: &[AclEntry], domains: &[Subject]) -> Vec<Rights> {
    let one = |subject: &Subject| subject.rights(entries) & (Rights::READ | Rights::WRITE);
    domains.iter().map(one).collect()
}

fn lists() -> impl Strategy<Value = Vec<AclEntry>> {
    prop::collection::vec(any_entry(), 0..10)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn a_class_gives_what_its_list_gives(list in lists()) {
        let domains = domains();
        let class = class(&list);
        let expected = rights(&list, &domains);
        for (subject, expected) in domains.iter().zip(&expected) {
            prop_assert_eq!(class.rights(subject), *expected, "{:?} of {:?}", subject, class);
        }
        prop_assert_eq!(class.writable(), expected.iter().any(|rights| rights.contains(Rights::WRITE)));
        prop_assert_eq!(class.is_public(), expected.iter().all(|rights| *rights == Rights::READ));
    }

    /// Long lists are searched, not looked through: it comes to the same.
    #[test]
    fn a_long_class_gives_what_its_list_gives(
        list in prop::collection::vec((0..12u64, 1..200u64, 0..4u32), 0..400),
        subjects in prop::collection::vec((0..12u64, 1..200u64, 1..200u64), 50),
    ) {
        let list: Vec<AclEntry> = list.into_iter().map(|(thread, text, rights)| {
            let text = if text == 199 { ANY_TEXT } else { text };
            // Thread 0: any of the task.
            let principal = if thread == 0 { principal::TASK } else { principal::THREAD };
            AclEntry { principal, id: if thread == 0 { TASK.task } else { thread }, text, rights }
        }).collect();
        let class = class(&list);
        for (thread, text, original) in subjects {
            let subject = domain(thread, text, original);
            prop_assert_eq!(class.rights(&subject), subject.rights(&list) & (Rights::READ | Rights::WRITE), "{:?}", subject);
        }
    }

    /// Equal exactly if no domain can tell the lists apart. (The second list is often the first with a small change.)
    #[test]
    fn equal_classes_are_equal_rights(
        (first, second) in lists().prop_flat_map(|list| {
            let changed = (Just(list.clone()), any_entry(), any::<prop::sample::Index>()).prop_map(|(mut list, new, at)| {
                match at.index(list.len() + 1) {
                    at if at < list.len() => list[at] = new,
                    _ => list.insert(0, new),
                }
                list
            });
            (Just(list), prop_oneof![changed, lists()])
        }),
    ) {
        let domains = domains();
        prop_assert_eq!(class(&first) == class(&second), rights(&first, &domains) == rights(&second, &domains));
    }

    #[test]
    fn the_order_of_a_list_does_not_matter(
        (first, second) in lists().prop_flat_map(|list| (Just(list.clone()), Just(list).prop_shuffle())),
    ) {
        prop_assert_eq!(class(&first), class(&second));
    }

    /// A page that only one thread's part of the view maps: right for that thread, and the same class for every thread
    /// that is treated alike.
    #[test]
    fn a_stack_has_the_same_class_for_each_thread(list in lists(), own in 1..4u64, other in 5..8u64) {
        let class = Class::of(&list, &TASK, Some(own));
        for subject in domains().iter().filter(|subject| subject.thread == own) {
            prop_assert_eq!(class.rights(subject), subject.rights(&list) & (Rights::READ | Rights::WRITE));
        }
        let others: Vec<AclEntry> = list.iter().map(|entry| {
            let own = entry.principal == principal::THREAD && entry.id == own;
            AclEntry { id: if own { other } else { entry.id }, ..*entry }
        }).collect();
        prop_assert_eq!(Class::of(&others, &TASK, Some(other)), class);
    }

    #[test]
    fn a_class_names_the_texts_that_matter(list in lists(), text in 1..5u64) {
        let class = class(&list);
        let without: Vec<AclEntry> = list.iter().filter(|entry| entry.text != text).copied().collect();
        prop_assert_eq!(class.names(text), class != self::class(&without));
    }
}

#[test]
fn other_tasks_do_not_matter() {
    let own = entry(principal::TASK, 3, 7, Rights::READ | Rights::WRITE);
    for principal in [principal::TASK, principal::USER, principal::NODE] {
        assert_eq!(class(&[own, entry(principal, 9, 8, Rights::all())]), class(&[own]));
    }
    assert_eq!(class(&[own]), private(7));
    assert_ne!(class(&[own, entry(principal::THREAD, 9, 8, Rights::all())]), class(&[own]));
}

#[test]
fn other_rights_do_not_matter() {
    let rights = |rights| class(&[entry(principal::ANY, 0, 7, rights)]);
    assert_eq!(rights(Rights::all()), private(7));
    assert_eq!(rights(Rights::all() - Rights::READ - Rights::WRITE), class(&[]));
}

/// A list as long as lists can be: one entry for each of the threads and texts, and one that covers half of each.
#[test]
fn a_long_list() {
    let mut list: Vec<AclEntry> =
        (1..1024).map(|id| entry(principal::THREAD, id, id % 32, Rights::READ | Rights::WRITE)).collect();
    list.push(entry(principal::ANY, 0, ANY_TEXT, Rights::READ));
    let class = class(&list);
    for id in 1..1024 {
        assert_eq!(usable(class.rights(&domain(id, id % 32 + 32 * u64::from(id % 32 == 0), 99))), (true, true));
        assert_eq!(usable(class.rights(&domain(id, 40, 99))), (true, id % 32 == 0));
    }
}
