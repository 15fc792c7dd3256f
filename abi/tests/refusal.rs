//! A refusal says the same after it has travelled in a register, and says it to people.

use abi::layout::{GRANULE, SPACE_BASE, SPACE_END};
use abi::refusal::{Object, Refusal};
use abi::{Error, Rights};

const THREAD: u64 = 7;
const TEXT: u64 = SPACE_BASE + GRANULE;

fn refusal(object: Object) -> Refusal {
    Refusal::new(object, THREAD, TEXT)
}

fn objects() -> Vec<Object> {
    let bases = [0, GRANULE, SPACE_BASE, SPACE_END - GRANULE, (1 << 57) - GRANULE];
    let rights = (0..=Rights::all().bits()).map(Rights::from_bits_truncate);
    let sections = rights.flat_map(|right| bases.map(|base| Object::Section(base, right)));
    let numbers = [0, 1, 5, 255, 256, (1 << 40) - 1];
    let others = numbers.into_iter().flat_map(|n| [Object::Task(n), Object::Thread(n)]);
    sections.chain(others).chain([Object::System]).collect()
}

#[test]
fn a_word_is_its_object() {
    let mut words = Vec::new();
    for object in objects() {
        let refusal = refusal(object);
        assert_eq!(Refusal::from_word(refusal.word(), THREAD, TEXT), Some(refusal), "{object:?}");
        assert_eq!((refusal.object(), refusal.thread(), refusal.text()), (object, THREAD, TEXT));
        words.push(refusal.word());
    }
    words.sort_unstable();
    assert!(words.windows(2).all(|pair| pair[0] != pair[1]), "two objects have one word");
}

#[test]
fn threads_and_texts_are_kept_whole() {
    for thread in [1, 255, 256, 1 << 32, (1 << 40) - 1] {
        for text in [SPACE_BASE, SPACE_END - GRANULE, (1 << 53) - GRANULE] {
            let refusal = Refusal::new(Object::System, thread, text);
            assert_eq!((refusal.thread(), refusal.text()), (thread, text));
        }
    }
    // A number that nobody will live to see is not told as another one.
    for number in [1 << 40, u64::MAX] {
        let refusal = Refusal::new(Object::Task(number), number, TEXT);
        assert_eq!((refusal.object(), refusal.thread()), (Object::Task((1 << 40) - 1), (1 << 40) - 1));
    }
}

#[test]
fn other_words_are_no_refusals() {
    // A right beside a number, a number where there is none, what lies between rights and base, a number too large.
    for word in [0x41, 0x81, 0xc1, 0x1c0, SPACE_BASE | 0x101, SPACE_BASE | 1 << 20 | 1, u64::MAX, 1 << 62 | 0x40] {
        assert_eq!(Refusal::from_word(word, THREAD, TEXT), None, "{word:#x}");
    }
}

#[test]
fn people_are_told_section_right_thread_and_text() {
    let said = |object| format!("{}", Error::NoRight(refusal(object)));
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
}

#[test]
fn sections_are_called_as_the_reader_knows_them() {
    let mut line = String::new();
    let named = |base| if base == TEXT { "shell".to_string() } else { format!("{base:x}") };
    refusal(Object::Section(SPACE_BASE, Rights::CALL)).write(&mut line, named).unwrap();
    assert_eq!(line, "no right call on section 400000000000, by (thread 7, text shell)");
}

/// What a program was refused for is its own affair: its caller learns no section from it.
#[test]
fn nobody_is_told_of_others_refusals() {
    let error = Error::NoRight(refusal(Object::Section(SPACE_BASE, Rights::READ)));
    assert_eq!((error.told(), error.told().word()), (Error::Denied, 0));
    assert_ne!(error.word(), 0);
}
