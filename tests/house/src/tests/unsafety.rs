use super::*;
use crate::unsafety::check;

const SOUND: &str = r##"
//! unsafe in a comment is a word
#[unsafe(no_mangle)]
pub extern "C" fn start() {}

pub type Entry = unsafe extern "C" fn(u64);

/// Reads a byte.
///
/// # Safety
/// `at` must be readable.
#[inline]
pub unsafe fn read(at: *const u8) -> u8 {
    let text = "unsafe { }";
    let raw = r#"unsafe " { }"#;
    // SAFETY: the caller owes it
    unsafe { *at }
}

/// Far enough from the reasons above.
#[repr(C)]
pub struct Cell {
    byte: u8,
}

// SAFETY: there is no state
unsafe impl Send for Cell {}

/// As above.
pub fn two() -> u8 {
    let two = 2;
    two
}

pub fn one() -> u8 {
    unsafe { read(&1) } // SAFETY: a reference is readable
}
"##;

/// A listed crate with this as its source.
fn listed(source: &str) -> Tree {
    Tree::new().member("kernel/arch", "").write("kernel/arch/src/lib.rs", source)
}

fn unlisted(source: &str) -> Tree {
    Tree::new().member("core/acl", "").write("core/acl/src/lib.rs", &format!("#![forbid(unsafe_code)]\n{source}\n"))
}

#[test]
fn explained_unsafe_in_a_listed_crate_is_fine() {
    none(check(listed(SOUND).root()));
}

#[test]
fn a_missing_reason_is_found() {
    let without = |line: &str| {
        assert!(SOUND.contains(line));
        only(check(listed(&SOUND.replace(line, "")).root()))
    };
    assert!(without("    // SAFETY: the caller owes it\n").contains("lib.rs:16: unsafe without a reason"));
    assert!(without("// SAFETY: there is no state\n").contains("lib.rs:26: unsafe without a reason"));
    assert!(without(" // SAFETY: a reference is readable").contains("lib.rs:36: unsafe without a reason"));
    assert!(without("/// # Safety\n").contains("without its contract"));
}

#[test]
fn a_reason_must_be_near() {
    let far =
        |lines: usize| format!("// SAFETY: far away\n{}unsafe impl Send for Cell {{}}\n", "fn f() {}\n".repeat(lines));
    none(check(listed(&far(5)).root()));
    assert!(only(check(listed(&far(6)).root())).contains("without a reason"));
    let long = format!("// SAFETY: begins here\n{}unsafe impl Send for Cell {{}}\n", "// and goes on\n".repeat(9));
    none(check(listed(&long).root()));
}

#[test]
fn every_form_of_unsafe_wants_its_reason() {
    for form in
        ["unsafe extern \"C\" { }", "unsafe trait T {}", "pub unsafe extern \"C\" fn f() {}", "fn f() { unsafe\n{ } }"]
    {
        only(check(listed(form).root()));
        none(check(listed(&format!("// SAFETY: explained\n{form}")).root()));
    }
}

#[test]
fn unsafe_outside_the_list_is_found() {
    for source in
        ["// SAFETY: none\nfn f() { unsafe { } }", "#[unsafe(no_mangle)]\nfn f() {}", "unsafe impl Send for C {}"]
    {
        assert!(only(check(unlisted(source).root())).contains("unsafe outside kernel/arch"));
    }
    none(check(unlisted("//! unsafe is but a word\nconst WORD: &str = \"unsafe\";").root()));
}

#[test]
fn a_crate_inside_a_listed_folder_is_not_listed() {
    let tree = listed(SOUND).member("kernel", "");
    let tree = tree.write("kernel/src/view.rs", "// SAFETY: none\nfn f() { unsafe { } }");
    assert!(only(check(tree.root())).starts_with("kernel/src/view.rs:2: unsafe outside"));
}

#[test]
fn a_listed_folder_lists_the_crates_in_it() {
    let sound = Tree::new().member("tests/guest/crash", "");
    none(check(sound.write("tests/guest/crash/src/lib.rs", SOUND).root()));
    let beside = Tree::new().member("tests/guests", "");
    assert!(check(beside.write("tests/guests/src/lib.rs", SOUND).root()).unwrap().len() > 1);
}

#[test]
fn a_crate_must_refuse_unsafe() {
    let with = |attribute: &str| Tree::new().write("core/sync/src/lib.rs", "").write("abi/src/lib.rs", attribute);
    none(check(with("#![forbid(unsafe_code)]").root()));
    none(check(with("#![deny(missing_docs, unsafe_code)]").root()));
    for wrong in ["", "#![warn(unsafe_code)]", "// #![forbid(unsafe_code)]", "#![forbid(unsafe_op_in_unsafe_fn)]"] {
        assert!(only(check(with(wrong).root())).contains("add it"), "{wrong}");
    }
}

#[test]
fn every_program_must_refuse_unsafe() {
    let tree = Tree::new().write("abi/src/bin/show.rs", "fn main() {}\n");
    assert!(only(check(tree.root())).starts_with("abi/src/bin/show.rs: "));
}
