//! The machine against a plain table of rights: whatever happens in whatever order, no processor can do what the lists do
//! not allow, and who is allowed gets through. A machine that neglects any one of its duties is found out.

use super::machine::{Machine, Neglect, Section};
use super::*;
use acl::Acl;
use proptest::test_runner::{RngAlgorithm, TestError, TestRng, TestRunner};

/// Enough for more classes than keys.
const SECTIONS: usize = 48;

/// The table: for each section its entries.
type Table = Vec<Vec<AclEntry>>;

#[derive(Clone, Debug)]
enum Step {
    Switch {
        processor: usize,
        domain: Subject,
    },
    /// Several in a row, so that classes earn keys; mostly of what is allowed.
    Access {
        processor: usize,
        section: usize,
        write: bool,
        denied: bool,
        times: u32,
    },
    Set {
        section: usize,
        entry: AclEntry,
    },
    End {
        text: u64,
    },
    Tidy,
    Progress {
        nth: usize,
    },
}

/// Texts 3 and 4 are clones of 1 and 2.
fn running() -> impl Strategy<Value = Subject> {
    (1..4u64, 1..5u64).prop_map(|(thread, text)| domain(thread, text, (text - 1) % 2 + 1))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        30 => (0..4usize, running()).prop_map(|(processor, domain)| Step::Switch { processor, domain }),
        160 => (0..4usize, 0..SECTIONS, any::<bool>(), prop::bool::weighted(0.2), prop_oneof![Just(1u32), 1..100u32])
            .prop_map(|(processor, section, write, denied, times)| {
                Step::Access { processor, section, write, denied, times }
            }),
        4 => (0..SECTIONS, any_entry()).prop_map(|(section, entry)| Step::Set { section, entry }),
        1 => (1..5u64).prop_map(|text| Step::End { text }),
        1 => Just(Step::Tidy),
        40 => (0..4usize).prop_map(|nth| Step::Progress { nth }),
    ]
}

#[derive(Clone, Debug)]
struct History {
    /// The list of each section, and whose stack it is.
    sections: Vec<(Vec<AclEntry>, Option<u64>)>,
    processors: Vec<Subject>,
    steps: Vec<Step>,
}

fn history() -> impl Strategy<Value = History> {
    let own = prop::option::weighted(0.1, 1..4u64);
    // Mostly for somebody: any, one of the threads, the task or its user.
    let mine = (0..4u32, 1..4u64, 0..5u64, prop::sample::select(&[1u32, 3, 3][..])).prop_map(
        |(principal, id, text, rights)| {
            let id = [0, id, TASK.task, TASK.user][principal as usize];
            AclEntry { principal, rights, id, text }
        },
    );
    let entries = prop::collection::vec(prop_oneof![4 => mine, 1 => any_entry()], 1..4);
    let section = (entries, own);
    let sections = prop::collection::vec(section, SECTIONS);
    let steps = prop::collection::vec(step(), 0..400);
    (sections, prop::collection::vec(running(), 1..5), steps).prop_map(|(sections, processors, steps)| History {
        sections,
        processors,
        steps,
    })
}

/// Sets an entry of a plain list: one for each principal and text, none without rights.
fn set(list: &mut Vec<AclEntry>, entry: AclEntry) {
    list.retain(|old| (old.principal, old.id, old.text) != (entry.principal, entry.id, entry.text));
    if entry.rights != 0 {
        list.push(entry);
    }
}

/// The definition: the union of the entries that match, as far as this processor can tell it.
fn allowed(list: &[AclEntry], subject: &Subject) -> (bool, bool) {
    let ids = [0, subject.thread, subject.task, subject.user, subject.node];
    let matching = list.iter().filter(|entry| {
        ids[entry.principal as usize] == entry.id && [0, subject.text, subject.original].contains(&entry.text)
    });
    usable(Rights::from_bits_retain(matching.fold(0, |all, entry| all | entry.rights)))
}

fn play(neglect: Neglect, history: History) -> Result<(), TestCaseError> {
    let mut table: Table = Vec::new();
    let mut sections = Vec::new();
    for (entries, own) in history.sections {
        let (mut acl, mut list) = (Acl::new(), Vec::new());
        for entry in entries {
            prop_assert!(acl.set(&entry).is_ok());
            set(&mut list, entry);
        }
        sections.push(Section { acl, own });
        table.push(list);
    }
    let processors = history.processors.len();
    let mut machine = Machine::new(neglect, sections, &history.processors);
    for step in history.steps {
        match step {
            Step::Switch { processor, domain } => machine.switch(processor % processors, domain),
            Step::Access { processor, section, write, denied, times } => {
                let processor = processor % processors;
                let usable = |at: &usize| denied || allowed(&table[*at], &machine.domain(processor)).0;
                let section = (section..section + SECTIONS).map(|at| at % SECTIONS).find(usable).unwrap_or(section);
                let (read, may_write) = allowed(&table[section], &machine.domain(processor));
                for _ in 0..times {
                    let done = machine.access(processor, section, write);
                    prop_assert_eq!(done, if write { may_write } else { read });
                }
            }
            Step::Set { section, entry } => {
                set(&mut table[section], entry);
                machine.change(section, |acl| _ = acl.set(&entry));
            }
            Step::End { text } => {
                for list in &mut table {
                    list.retain(|entry| entry.text != text);
                }
                machine.end(text);
            }
            Step::Tidy => machine.tidy(),
            Step::Progress { nth } => machine.progress(nth),
        }
        // Nobody happened to try, but could.
        for processor in 0..processors {
            for (section, list) in table.iter().enumerate() {
                let (read, write) = allowed(list, &machine.domain(processor));
                let (loads, stores) = machine.lets(processor, section);
                prop_assert!(read || !loads, "section {} can be read by processor {}", section, processor);
                prop_assert!(write || !stores, "section {} can be written by processor {}", section, processor);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_access_comes_to_what_the_table_says(history in history()) {
        play(Neglect::Nothing, history)?;
    }

    /// A page with its class's key, under a domain's register, allows exactly what the list allows.
    #[test]
    fn key_and_register_say_what_the_list_says(
        lists in prop::collection::vec(prop::collection::vec(any_entry(), 0..5), 1..20),
    ) {
        let mut keys = Keys::new();
        let mut tagged = Vec::new();
        for list in &lists {
            let class = class(list);
            if let Want::Has(key) | Want::Take { key, evicted: None } = keys.find(&class) {
                tagged.push((list, key.number(), class.writable()));
            }
        }
        prop_assert!(tagged.len() >= lists.len().min(CLASS_KEYS));
        let unused = keys.classes().count() as u8 + 2..16;
        for (thread, text, original) in (0..64).map(|bits| (bits / 16 + 1, bits / 4 % 4 + 1, bits % 4 + 1)) {
            let subject = domain(thread, text, original);
            let register = keys.register(&subject);
            for (list, key, writable) in &tagged {
                let (loads, stores) = says(register, *key);
                prop_assert_eq!((loads, stores && *writable), allowed(list, &subject));
            }
            prop_assert_eq!(says(register, 1), (true, false));
            for key in unused.clone() {
                prop_assert_eq!(says(register, key), (false, false));
            }
        }
    }
}

/// The test of the machine can fail: one that neglects a duty comes to something else than the table.
#[test]
fn every_neglected_duty_is_found_out() {
    for neglect in [
        Neglect::Pages,
        Neglect::Translations,
        Neglect::Registers,
        Neglect::OtherProcessors,
        Neglect::Waiting,
        Neglect::Stacks,
        Neglect::Retagging,
    ] {
        let config =
            ProptestConfig { cases: 4000, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() };
        // The same histories each time: whether a fault is found must not be a matter of luck.
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let mut runner = TestRunner::new_with_rng(config, rng);
        let result = runner.run(&history(), |history| play(neglect, history));
        assert!(matches!(result, Err(TestError::Fail(..))), "{neglect:?} goes unnoticed");
    }
}
