use super::*;
use crate::ledger_rows::{check, check_results};

/// A complete ledger whose first row names these tests.
fn ledger(tests: &[&str]) -> Tree {
    let mut text = String::new();
    for (i, number) in ledger::Number::expected().enumerate() {
        let (state, tests) = if i == 0 && !tests.is_empty() { ("works", tests) } else { ("not yet", &[][..]) };
        text += &format!("[[row]]\nnumber = '{number}'\ntitle = 'x'\nstate = '{state}'\ntests = {tests:?}\n");
    }
    let tree = Tree::new().write(ledger::PATH, &text);
    let tree = tree.write("tests/house/tests/house.rs", "#[test]\nfn arrows() {}\n");
    tree.write("abi/src/layout/tests.rs", "// fn absent()\n#[test]\nfn slices() {}\n")
}

#[test]
fn a_ledger_with_tests_that_exist_is_fine() {
    none(check(ledger(&[]).root()));
    none(check(ledger(&["house::arrows", "host::abi::layout::tests::slices", "system::s10_boot::up"]).root()));
}

#[test]
fn a_test_that_does_not_exist_is_found() {
    for test in ["house::arrow", "host::abi::absent", "host::acl::slices", "host::core_sync::slices"] {
        assert!(only(check(ledger(&[test]).root())).contains(&format!("there is no test {test}")));
    }
}

#[test]
fn the_ledgers_own_checks_are_made() {
    let tree = ledger(&[]);
    let text = fs::read_to_string(tree.root().join(ledger::PATH)).unwrap();
    let tree = tree.write(ledger::PATH, &text.replace("'K1-M4'", "'K1-M5'"));
    assert_eq!(check(tree.root()).unwrap().len(), 2);
    assert!(check(tree.remove(ledger::PATH).root()).is_err());
}

#[test]
fn results_are_held_against_the_rows() {
    let tree = ledger(&["house::arrows"]).write("results", "house::arrows ok\n");
    none(check_results(tree.root(), &tree.root().join("results")));
    let tree = tree.write("results", "house::arrows FAILED\n");
    only(check_results(tree.root(), &tree.root().join("results")));
    let tree = tree.remove("results");
    assert!(check_results(tree.root(), &tree.root().join("results")).is_err());
}
