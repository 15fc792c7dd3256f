//! The house rules, held against this project. A failure lists what is wrong and what to do about each.

use std::path::{Path, PathBuf};

use anyhow::Result;
use house::Problems;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn hold(problems: Result<Problems>) {
    let problems = problems.unwrap_or_else(|error| panic!("the check could not be made: {error:#}"));
    assert!(problems.is_empty(), "{} to mend:\n  {}\n", problems.len(), problems.join("\n  "));
}

#[test]
fn arrows_point_down() {
    hold(house::arrows::check(&root()));
}

#[test]
fn unsafe_is_listed_and_explained() {
    hold(house::unsafety::check(&root()));
}

#[test]
fn files_are_read_in_one_sitting() {
    hold(house::sizes::check(&root()));
}

#[test]
fn the_mechanism_does_not_choose() {
    hold(house::mechanism::check(&root()));
}

#[test]
fn the_kernel_knows_no_processes() {
    hold(house::processes::check(&root()));
}

#[test]
fn every_skeleton_is_tried() {
    hold(house::skeletons::check(&root()));
}

#[test]
fn the_gate_needs_no_segments() {
    hold(house::segments::check(&root()));
}

#[test]
fn what_is_shown_is_read_and_not_asked_for() {
    hold(house::shown::check(&root()));
}

#[test]
fn reading_order_is_complete() {
    hold(house::reading::check(&root()));
}

#[test]
fn invariants_are_numbered_and_owned() {
    hold(house::invariants::check(&root()));
}

#[test]
fn drivers_are_of_no_class() {
    hold(house::classes::check(&root()));
}

#[test]
fn crates_are_furnished() {
    hold(house::manifests::check(&root()));
}

#[test]
fn names_say_something() {
    hold(house::names::check(&root()));
}

#[test]
fn guest_checks_are_run() {
    hold(house::guest_checks::check(&root()));
}

#[test]
fn ledger_is_sound() {
    hold(house::ledger_rows::check(&root()));
}

#[test]
fn light_calls_cannot_wait() {
    hold(house::light::check(&root()));
}

#[test]
fn calls_name_their_tests() {
    hold(house::ledger_rows::check_calls(&root()));
}

#[test]
#[ignore = "needs the results of all other tests; see README.md"]
fn named_tests_ran() {
    let results = std::env::var_os("MUSUBI_TEST_RESULTS").expect("MUSUBI_TEST_RESULTS names the file of results");
    hold(house::ledger_rows::check_results(&root(), Path::new(&results)));
}

#[test]
fn what_the_kernel_keeps_is_readable_or_has_a_reason() {
    hold(house::info::check(&root()));
}
