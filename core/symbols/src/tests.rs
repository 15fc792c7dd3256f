//! What is written is read, and what is not a table is none.

use super::*;
use proptest::prelude::*;

fn programs() -> impl Strategy<Value = Vec<Program>> {
    let name = "[a-c]{0,3}(::[a-d<>]{1,60}){0,3}ä?";
    let functions = prop::collection::btree_map(0u32..0x20_0000, name, 0..60);
    let program = ("[a-z]{1,12}", 1u32..0x20_0000, functions);
    prop::collection::vec(program, 0..8).prop_map(|all| {
        let with_sum =
            |(sum, (name, text_len, functions)): (usize, (String, u32, std::collections::BTreeMap<_, _>))| Program {
                name,
                text_len,
                sum: sum as u64,
                functions: functions.into_iter().collect(),
            };
        all.into_iter().enumerate().map(with_sum).collect()
    })
}

/// As a list has it.
fn wanted(program: &Program, at: u32) -> Option<(String, u32)> {
    let (begin, name) = program.functions.iter().rfind(|(begin, _)| *begin <= at)?;
    Some((name[..name.floor_char_boundary(NAME_MAX)].into(), at - begin))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read(programs in programs(), elsewhere in prop::collection::vec(0u32..0x20_0000, 20)) {
        let bytes = table(&programs);
        let table = Table::new(&bytes).unwrap();
        for program in &programs {
            let same = |other: &&Program| other.name == program.name
                && other.text_len.next_multiple_of(4096) == program.text_len.next_multiple_of(4096);
            let first = programs.iter().find(same).unwrap();
            let functions = table.of_name(program.name.as_bytes(), program.text_len.next_multiple_of(4096).into()).unwrap();
            let places = program.functions.iter().flat_map(|(at, _)| [*at, at + 1]).chain(elsewhere.iter().copied());
            for at in places {
                let found = functions.find(at).map(|(name, distance)| (name.text().to_string(), distance));
                prop_assert_eq!(found, wanted(first, at));
            }
            let longer = [program.name.as_bytes(), b"x"].concat();
            prop_assert!(programs.iter().any(|p| p.name.as_bytes() == longer) || table.of_name(&longer, 4096).is_none());
        }
    }

    #[test]
    fn damaged_tables_harm_nobody(programs in programs(), damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20), cut in any::<prop::sample::Index>()) {
        let mut bytes = table(&programs);
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        let Some(table) = Table::new(&bytes) else { return Ok(()) };
        for program in &programs {
            if let Some(functions) = table.of_name(program.name.as_bytes(), program.text_len.into()) {
                for at in [0, 1, 0x1000, u32::MAX] {
                    let _ = functions.find(at).map(|(name, _)| name.text().len());
                }
            }
        }
    }

    #[test]
    fn another_text_has_another_sum(text in prop::collection::vec(any::<u8>(), 1..200), at in any::<prop::sample::Index>(), other in 1u8..) {
        let mut changed = text.clone();
        changed[at.index(text.len())] ^= other;
        prop_assert_ne!(sum(&text), sum(&changed));
        prop_assert_ne!(sum(&text), sum(&text[1..]));
    }
}

#[test]
fn a_program_is_known_by_its_text() {
    let text = b"some code".as_slice();
    let functions = vec![(0, "begin".to_string()), (4, "go_on".to_string())];
    let known = Program { name: "one".into(), text_len: text.len() as u32, sum: sum(text), functions };
    let bytes = table(&[Program { name: "two".into(), ..Program::default() }, known]);
    let table = Table::new(&bytes).unwrap();
    let (name, distance) = table.of_text(text).unwrap().find(5).unwrap();
    assert_eq!((name.text(), distance), ("go_on", 1));
    assert!(table.of_text(b"some codf").is_none());
    assert!(Table::new(b"something else").is_none());
}
