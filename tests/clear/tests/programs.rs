//! Our own programs hold nothing that could write the key register, so keys are never refused to them.

use build::{Built, Workspace};
use clear::{Pages, XCR0, judge, pages};
use scan::{Encoding, Rules};
use std::path::Path;
use std::sync::LazyLock;

static BUILT: LazyLock<Built> = LazyLock::new(|| Workspace::find().build().expect("our programs are built"));

fn rules(xcr0: u64) -> Rules {
    Rules::for_xcr0(xcr0).expect("known components")
}

fn read(path: &Path) -> Pages {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    pages(&bytes).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

#[test]
fn no_program_of_ours_could_write_the_key_register() {
    assert!(BUILT.programs.iter().any(|(name, _)| name == "init"), "{:?}", BUILT.programs);
    let mut not_clear = Vec::new();
    for (name, path) in &BUILT.programs {
        let pages = read(path);
        assert!(pages.len() > 1, "{name} has text");
        println!("{name}: {} executable pages", pages.len());
        // By the rules of the kernel that we have. Under stricter ones (XRSTOR) a distance in a program as large as `check` may look like
        // an instruction by chance.
        not_clear.extend(judge(&pages, rules(XCR0)).map(|why| format!("{name}: {why}")));
    }
    assert!(not_clear.is_empty(), "{}", not_clear.join("\n"));
}

/// The test above can fail: the same text with three bytes changed, within a page and across a border.
#[test]
fn a_program_with_wrpkru_is_found_out() {
    let (name, path) = BUILT.programs.first().expect("there are programs");
    for (page, offset) in [(0, 0x800), (0, 0xffe), (0, 0xfff), (1, 0)] {
        let mut pages = read(path);
        for (at, byte) in (offset..).zip([0x0f, 0x01, 0xef]) {
            pages[page + at / scan::PAGE].1[at % scan::PAGE] = byte;
        }
        let why = judge(&pages, rules(XCR0)).unwrap_or_else(|| panic!("{name} at {offset:#x} of page {page}"));
        assert_eq!((why.found.encoding, why.found.offset), (Encoding::Wrpkru, offset));
        assert_eq!(why.page, pages[page].0);
    }
}

#[test]
fn busybox_is_clear() {
    let path = Path::new("/bin/busybox");
    if !path.exists() {
        eprintln!("this machine has no {}", path.display());
        return;
    }
    assert_eq!(judge(&read(path), rules(XCR0)), None);
}
