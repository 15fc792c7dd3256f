//! How the info sections are laid out has a number, and `layout.txt` is how they are with that: nobody changes one without the other.

use abi::info::layout::VERSION;

const SOURCE: &str = include_str!("../src/info/layout.rs");
const KNOWN: &str = include_str!("layout.txt");

/// The declarations, without what is said about them and without the number.
fn declared() -> String {
    let is_said = |line: &&str| !line.is_empty() && !line.starts_with("//") && !line.starts_with("pub const VERSION");
    SOURCE.lines().map(str::trim).filter(is_said).map(|line| format!("{line}\n")).collect()
}

#[test]
fn another_layout_has_another_number() {
    let (version, known) = KNOWN.split_once('\n').expect("a line with the number");
    let version: u64 = version.strip_prefix("version ").and_then(|number| number.parse().ok()).expect("version N");
    let now = declared();
    if now != known && VERSION > version && std::env::var_os("MUSUBI_WRITE").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/layout.txt");
        std::fs::write(path, format!("version {VERSION}\n{now}")).expect("it can be written");
        return;
    }
    assert!(
        now == known,
        "the layout is another one: VERSION goes up from {version}, then MUSUBI_WRITE=1 cargo test -p musubi-abi"
    );
    assert_eq!(VERSION, version, "the number is another one, and the layout is not");
}
