//! Each check is shown to pass on a sound ledger and to fail on one with a single defect.

use std::path::Path;

use crate::*;

fn row(number: &str) -> Row {
    Row { number: number.into(), title: "A title".into(), state: State::NotYet, tests: vec![], note: String::new() }
}

fn sound() -> Ledger {
    Ledger { rows: Number::expected().map(|n| row(&n.to_string())).collect() }
}

/// The only problem of a sound ledger after `spoil`.
fn problem(spoil: impl FnOnce(&mut Vec<Row>)) -> String {
    let mut ledger = sound();
    spoil(&mut ledger.rows);
    let problems = check(&ledger);
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems.into_iter().next().unwrap()
}

fn works(test: &str) -> Ledger {
    let mut ledger = sound();
    ledger.rows[0].state = State::Works;
    ledger.rows[0].tests = vec![test.into()];
    ledger
}

#[test]
fn there_are_347_numbers() {
    assert_eq!(Number::expected().count(), 347);
    let count = |kind| Number::expected().filter(|n| n.kind == kind).count();
    assert_eq!(Kind::ALL.map(count), [274, 47, 26]);
}

#[test]
fn numbers_read_back() {
    for number in Number::expected() {
        assert_eq!(Number::parse(&number.to_string()), Some(number));
    }
    for wrong in
        ["", "SSS", "SSS-", "SSS-0x1", "SSS-01", "SSS-+1", "sss-1", "SSS-X1", "K2-1", "SSS-U", "SSS-1 ", "SSS-é"]
    {
        assert_eq!(Number::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn a_sound_ledger_has_no_problem() {
    assert_eq!(check(&sound()), Vec::<String>::new());
}

#[test]
fn a_missing_row_is_found() {
    assert!(problem(|rows| drop(rows.remove(10))).contains("CUBIX-11: has no row"));
}

#[test]
fn a_double_row_is_found() {
    assert!(problem(|rows| rows.push(row("K1-M4"))).contains("K1-M4: has 2 rows"));
}

#[test]
fn a_number_out_of_range_is_found() {
    assert!(problem(|rows| rows.push(row("K1-M5"))).contains("K1-M5: there is no such number"));
    assert!(problem(|rows| rows.push(row("K1-0"))).contains("no such number"));
    assert!(problem(|rows| rows.push(row("MACH-1"))).contains("no such number"));
}

#[test]
fn works_without_a_test_is_found() {
    assert!(problem(|rows| rows[0].state = State::Works).contains("names no test"));
}

#[test]
fn a_missing_note_is_found() {
    for state in [State::Replaced, State::Fact, State::InPart] {
        assert!(problem(|rows| rows[0].state = state).contains("needs a note"), "{state}");
    }
    let mut ledger = sound();
    ledger.rows[0].state = State::Replaced;
    ledger.rows[0].note = "by something better".into();
    assert_eq!(check(&ledger), Vec::<String>::new());
}

#[test]
fn an_empty_title_is_found() {
    assert!(problem(|rows| rows[0].title = " ".into()).contains("no title"));
}

#[test]
fn an_ill_named_test_is_found() {
    for name in ["arrows", "house", "house::", "host::acl", "system::s10_boot", "unit::a::b", "host::::x"] {
        assert!(problem(|rows| rows[0].tests = vec![name.into()]).contains("is not house::NAME"), "{name}");
    }
    for name in ["house::arrows", "host::acl::tests::no_entry_no_right", "system::s10_boot::panics"] {
        assert_eq!(check(&works(name)), Vec::<String>::new());
    }
}

#[test]
fn a_state_that_does_not_exist_is_refused() {
    let text = |state: &str| format!("[[row]]\nnumber = 'K1-1'\ntitle = 'x'\nstate = '{state}'\ntests = []\n");
    for state in State::ALL {
        assert_eq!(Ledger::parse(&text(&state.to_string())).unwrap().rows[0].state, state);
    }
    assert!(Ledger::parse(&text("nearly")).is_err());
}

#[test]
fn a_misspelt_or_missing_field_is_refused() {
    assert!(Ledger::parse("[[row]]\nnumber = 'K1-1'\ntitle = 'x'\nstate = 'fact'\n").is_err());
    assert!(Ledger::parse("[[row]]\nnumber = 'K1-1'\ntitle = 'x'\nstate = 'fact'\ntests = []\nnotes = ''\n").is_err());
    assert!(Ledger::parse("[[rows]]\n").is_err());
}

#[test]
fn a_named_test_must_have_run_and_passed() {
    let ledger = works("house::arrows");
    let problems = |text: &str| check_results(&ledger, &Results::parse(text).unwrap());
    assert_eq!(problems("house::arrows ok\nhouse::other FAILED\n"), Vec::<String>::new());
    assert!(problems("house::arrows FAILED\n")[0].contains("CUBIX-1: the test house::arrows failed"));
    assert!(problems("house::arrows skipped\n")[0].contains("was skipped"));
    assert!(problems("house::arrow ok\n")[0].contains("did not run"));
    assert!(problems("house::arrows ok\nhouse::arrows FAILED\n")[0].contains("failed"));
    assert_eq!(problems("house::arrows ok\nhouse::arrows skipped\n"), Vec::<String>::new());
    // The whole run has its result.
    assert_eq!(problems("house::arrows long\n"), Vec::<String>::new());
}

#[test]
fn a_row_in_part_cannot_rest_on_a_test_that_is_gone() {
    let mut ledger = works("house::arrows");
    ledger.rows[0].state = State::InPart;
    assert_eq!(check_results(&ledger, &Results::default()).len(), 1);
}

#[test]
fn results_that_cannot_be_read_are_refused() {
    assert!(Results::parse("house::arrows\n").is_err());
    assert!(Results::parse("house::arrows passed\n").is_err());
    assert!(
        Results::parse("\n  system::s10 boot::up ok  \n").unwrap().get("system::s10 boot::up") == Some(Outcome::Ok)
    );
}

#[test]
fn the_table_counts_and_chooses() {
    let mut ledger = works("house::arrows");
    ledger.rows[1].state = State::Replaced;
    ledger.rows[1].note = "by something better".into();
    let all = table(&ledger, None, None);
    assert!(all.contains("CUBIX-1    works     A title\n"), "{all}");
    assert!(all.contains("+ house::arrows\n") && all.contains("- by something better\n"));
    let counts = |text: &str, name: &str| -> Vec<u32> {
        let line = text.lines().rev().find(|l| l.split(' ').next() == Some(name)).unwrap_or_else(|| panic!("{text}"));
        line.split_whitespace().skip(1).map(|word| word.parse().unwrap()).collect()
    };
    assert_eq!(counts(&all, "Cubix"), [1, 0, 82, 1, 0, 64, 13, 7, 84]);
    assert_eq!(counts(&all, "SSS-CORE"), [0, 0, 141, 0, 0, 121, 14, 6, 141]);
    assert_eq!(counts(&all, "all"), [1, 0, 345, 1, 0, 274, 47, 26, 347]);
    let some = table(&ledger, Some(System::Cubix), Some(State::Works));
    assert_eq!(some.lines().filter(|l| l.starts_with("CUBIX-")).count(), 1);
    assert!(!some.contains("K1") && counts(&some, "Cubix")[0] == 1);
}

#[test]
fn long_notes_are_broken_into_lines() {
    let mut ledger = works("house::arrows");
    ledger.rows[1].note = "much to say ".repeat(30);
    let text = table(&ledger, None, None);
    assert_eq!(text.matches("much").count(), 30);
    assert!(text.lines().all(|line| line.len() <= 120), "{text}");
}

#[test]
fn words_that_people_type() {
    assert_eq!(State::parse("in-part"), Some(State::InPart));
    assert_eq!(State::parse("Not yet"), Some(State::NotYet));
    assert_eq!(State::parse("done"), None);
    assert_eq!(System::parse("SSS"), Some(System::Sss));
    assert_eq!(System::parse("mach"), None);
}

#[test]
fn the_projects_own_ledger_reads() {
    let ledger = Ledger::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap();
    assert_eq!(check(&ledger), Vec::<String>::new());
}
