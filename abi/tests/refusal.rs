//! A refusal is one word and says all of it: what, which right, who.

use abi::layout::{GRANULE, SPACE_BASE, SPACE_END};
use abi::refusal::{Object, Who, set_who};
use abi::{Error, Rights, error};

const ME: Who = Who { thread: 7, text: SPACE_BASE + GRANULE };

fn objects() -> Vec<Object> {
    let bases = [0, GRANULE, SPACE_BASE, SPACE_END - GRANULE, (1 << 57) - GRANULE];
    let rights = (0..=Rights::all().bits()).map(Rights::from_bits_truncate);
    let sections = rights.flat_map(|right| bases.map(|base| Object::Section(base, right)));
    let numbers = [0, 1, 5, 255, 256, (1 << 36) - 1];
    let others = numbers.into_iter().flat_map(|n| [Object::Task(n), Object::Thread(n)]);
    sections.chain(others).chain([Object::System]).collect()
}

#[test]
fn a_word_is_its_refusal() {
    let mut words: Vec<u64> = error::table().map(|row| row.0).collect();
    for object in objects() {
        for thread in [1, 7, 0xf_ffff] {
            let error = Error::no_right(object, thread);
            let refusal = error.refusal().expect("it is one");
            assert_eq!((refusal.object, refusal.thread(thread)), (object, thread));
            assert_eq!(Error::from_word(error.word()), Some(error), "{object:?}");
            words.push(error.word());
        }
    }
    words.sort_unstable();
    assert!(words.windows(2).all(|pair| pair[0] != pair[1]), "two errors have one word");
}

#[test]
fn a_number_that_does_not_fit_is_no_other_one() {
    for number in [1 << 36, u64::MAX] {
        let refusal = Error::no_right(Object::Task(number), 7).refusal().expect("it is one");
        assert_eq!(refusal.object, Object::Task((1 << 36) - 1));
    }
}

#[test]
fn other_words_are_no_errors() {
    let after = error::table().count() as u64 + 1;
    for word in [0, after, 0x3f, 0x83, 0xbf, 0xc0, 0xff, 0x101, SPACE_BASE, 1 << 28 | 0x82, u64::MAX] {
        assert_eq!(Error::from_word(word), None, "{word:#x}");
    }
}

/// Of a thread's number an error keeps the last bits; whoever holds it is near.
#[test]
fn a_thread_is_found_by_the_one_that_holds_the_error() {
    let most = 1u64 << 20;
    for thread in [1, 2, 500_000, most - 1, most, most + 1, 5 * most + 17, 1 << 40] {
        let refusal = Error::no_right(Object::System, thread).refusal().expect("it is one");
        for away in [0, 1, 100, 499_999] {
            for holder in [thread + away, thread.saturating_sub(away).max(1)] {
                assert_eq!(refusal.thread(holder), thread, "held by {holder}");
            }
        }
    }
}

#[test]
fn people_are_told_section_right_thread_and_text() {
    set_who(|| ME);
    let said = |object| format!("{}", Error::no_right(object, 7));
    let by = ", by (thread 7, text 0x400000200000)";
    for (right, name) in [
        (Rights::READ, "read"),
        (Rights::WRITE, "write"),
        (Rights::EXECUTE, "execute"),
        (Rights::CALL, "call"),
        (Rights::CHANGE_ACL, "change-acl"),
        (Rights::DMA, "dma"),
        (Rights::READ | Rights::WRITE, "read+write"),
        (Rights::empty(), "access"),
    ] {
        let section = Object::Section(0x4000_0060_0000, right);
        assert_eq!(said(section), format!("no right {name} on section 0x400000600000{by}"));
    }
    assert_eq!(said(Object::Task(5)), format!("no right over task 5{by}"));
    assert_eq!(said(Object::Thread(6)), format!("no right over thread 6{by}"));
    assert_eq!(said(Object::System), format!("no right of the system's user{by}"));
    // An error that another thread was told.
    assert_eq!(
        format!("{}", Error::no_right(Object::Task(5), 3)),
        "no right over task 5, by (thread 3, text 0x400000200000)"
    );
}

#[test]
fn sections_are_called_as_the_reader_knows_them() {
    let named = |base| if base == ME.text { "shell".to_string() } else { format!("{base:x}") };
    let refusal = Error::no_right(Object::Section(SPACE_BASE, Rights::CALL), 7).refusal().expect("it is one");
    let line = |holder| {
        let mut line = String::new();
        refusal.write(&mut line, holder, named).expect("a string takes all");
        line
    };
    assert_eq!(line(Some(ME)), "no right call on section 400000000000, by (thread 7, text shell)");
    assert_eq!(line(None), "no right call on section 400000000000");
}

/// What a program was refused for is its own affair: its caller learns no section from it.
#[test]
fn nobody_is_told_of_others_refusals() {
    for object in objects() {
        assert_eq!(Error::no_right(object, 7).told(), Error::Denied);
    }
}
