//! Valid files are planned as they say, each refusal has a file that earns it, and no bytes make `read` panic or plan
//! anything outside the file or outside the limits.

mod build;

use super::*;
use abi::layout::{GRANULE, PAGE, RESERVE_MAX, WINDOW_END};
use build::*;
use proptest::prelude::*;

const MIB2: u64 = GRANULE;

#[track_caller]
fn refused(file: &File) -> Refusal {
    read(&file.bytes()).expect_err("it must be refused")
}

#[test]
fn a_native_program_is_planned_as_it_says() {
    let bytes = native().bytes();
    let Ok(Program::Native(plan)) = read(&bytes) else { panic!("{:?}", read(&bytes)) };
    assert_eq!(plan.text, &bytes[..0x500]);
    assert_eq!((plan.text_len, plan.entry), (PAGE, 0x480));
    assert_eq!(plan.data, &bytes[0x1000..0x1200]);
    assert_eq!((plan.data_offset, plan.data_len), (MIB2, 0x3000));
    assert_eq!(plan.relocations().collect::<Vec<_>>(), [(0x100, 0x480), (0x1f8, -1)]);
}

#[test]
fn a_native_program_needs_no_data() {
    let mut file = native();
    file.rows.drain(1..3);
    let bytes = file.bytes();
    let Ok(Program::Native(plan)) = read(&bytes) else { panic!() };
    assert_eq!((plan.data.len(), plan.data_offset, plan.data_len), (0, 0, 0));
    assert_eq!(plan.relocations().count(), 0);
}

#[test]
fn a_linux_program_is_planned_as_it_says() {
    let bytes = linux().bytes();
    let Ok(Program::Linux(plan)) = read(&bytes) else { panic!("{:?}", read(&bytes)) };
    assert_eq!((plan.entry, plan.is_pie, plan.base_hint, plan.stack_executable), (0x40_0200, false, 0, false));
    assert_eq!((plan.phdr_vaddr, plan.phnum), (0x3f_f040, 4));
    let data = &plan.segments[2];
    assert_eq!((data.vaddr, data.memsz, data.file), (0x60_1500, 0x2000, &bytes[0x500..0x600]));
    assert_eq!((data.read, data.write, data.execute), (true, true, false));
    assert_eq!(plan.interpreter, None);
}

#[test]
fn a_position_independent_linux_program_gets_a_base() {
    let mut file = linux();
    file.kind = DYN;
    file.rows[0].3 = 0;
    file.rows[3].1 = RWX;
    let bytes = file.bytes();
    let Ok(Program::Linux(plan)) = read(&bytes) else { panic!() };
    assert!(plan.is_pie && plan.stack_executable);
    assert_eq!((plan.base_hint, plan.phdr_vaddr), (PIE_BASE, 0x40));
    assert_eq!(plan.base_hint % (1 << 30), 0);
}

#[test]
fn this_very_test_names_its_interpreter() {
    let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let Ok(Program::Linux(plan)) = read(&file) else { panic!("{:?}", read(&file)) };
    let path = plan.interpreter.expect("the host links dynamically");
    assert!(path.starts_with(b"/") && std::fs::exists(std::str::from_utf8(path).unwrap()).unwrap());
}

#[test]
fn headers_that_are_refused() {
    let good = native().bytes();
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        read(&bytes).expect_err("it must be refused")
    };
    assert_eq!(read(b"").unwrap_err(), Refusal::NotElf);
    assert_eq!(read(b"#!/bin/sh\necho no\n").unwrap_err(), Refusal::NotElf);
    assert_eq!(read(&good[..10]).unwrap_err(), Refusal::CutOff);
    assert_eq!(read(&good[..40]).unwrap_err(), Refusal::CutOff);
    assert_eq!(read(&good[..100]).unwrap_err(), Refusal::CutOff);
    assert_eq!(with(1, b'e'), Refusal::NotElf);
    assert_eq!(with(4, 1), Refusal::WrongMachine, "32 bits");
    assert_eq!(with(5, 2), Refusal::WrongMachine, "big endian");
    assert_eq!(with(18, 183), Refusal::WrongMachine, "AArch64");
    assert_eq!(with(7, 9), Refusal::WrongSystem, "FreeBSD");
    assert_eq!(with(7, 3), Refusal::WrongSystem, "marked as Linux and as ours");
    assert_eq!(with(16, 1), Refusal::NotAProgram, "object file");
    assert_eq!(with(16, 4), Refusal::NotAProgram, "core dump");
    assert_eq!(with(16, 2), Refusal::FixedAddress);
    assert_eq!(with(54, 32), Refusal::BadHeaders);
    assert_eq!(with(56, 0), Refusal::NothingToLoad);
    assert_eq!(with(56, 129), Refusal::TooManySegments);
    assert_eq!(with(39, 0xff), Refusal::CutOff, "table beyond any file");
}

#[test]
fn native_programs_that_are_refused() {
    type Spoil = fn(&mut File);
    let cases: &[(Refusal, Spoil)] = &[
        (Refusal::AbiVersion(2), |f| f.parts[0].1 = note(2)),
        (Refusal::Interpreter, |f| {
            f.parts.push((0x1180, b"/ld\0".to_vec()));
            f.rows.push((INTERP, R, 0x1180, 0x1180, 4, 4, 1));
        }),
        (Refusal::BadInterpreter, |f| f.rows.push((INTERP, R, 0, 0, 5, 5, 1))),
        (Refusal::ThreadLocal, |f| f.rows.push((TLS, R, 0, 0, 8, 8, 8))),
        (Refusal::WriteAndExecute(0), |f| f.rows[0].1 = RWX),
        (Refusal::WriteAndExecute(1), |f| f.rows[1].1 = RWX),
        (Refusal::Unexpected(0), |f| f.rows[0].1 = R),
        (Refusal::Unexpected(0), |f| f.rows[0].3 = 0x1000),
        (Refusal::Unexpected(1), |f| f.rows[1].1 = R),
        (Refusal::Unexpected(5), |f| f.rows.push((LOAD, R, 0, 2 * MIB2, 8, 8, 8))),
        (Refusal::BadAlignment(1), |f| f.rows[1].3 = MIB2 + PAGE),
        (Refusal::BadAlignment(0), |f| f.rows[0].6 = 4 << 20),
        (Refusal::BadAlignment(0), |f| f.rows[0].6 = 24),
        (Refusal::NoRoomForGates, |f| f.rows[0].5 = MIB2 - PAGE + 1),
        (Refusal::NoRoomForGates, |f| f.rows[1].3 = 0),
        (Refusal::TooLong(0), |f| f.rows[0].5 = RESERVE_MAX),
        (Refusal::TooLong(1), |f| f.rows[1].5 = RESERVE_MAX + 1),
        (Refusal::BadAddress(1), |f| f.rows[1].3 = RESERVE_MAX + MIB2),
        (Refusal::BadAddress(1), |f| f.rows[1].3 = u64::MAX),
        (Refusal::ShorterInMemory(1), |f| f.rows[1].5 = 0x1ff),
        (Refusal::BeyondFile(1), |f| f.rows[1].4 = 0x201),
        (Refusal::BeyondFile(1), |f| f.rows[1].2 = u64::MAX),
        (Refusal::BeyondFile(2), |f| f.rows[2].4 = 0x1000),
        (Refusal::BeyondFile(3), |f| f.rows[3].4 = 0x10000),
        (Refusal::BadEntry, |f| f.entry = 0x500),
        (Refusal::BadEntry, |f| f.entry = MIB2),
        (Refusal::BadDynamic, |f| f.rows.push(f.rows[2])),
        (Refusal::BadDynamic, |f| f.parts[2].1 = dynamic(&[(8, 48), (0, 0)])),
        (Refusal::BadDynamic, |f| f.parts[2].1 = dynamic(&[(7, 0x300), (8, 49), (0, 0)])),
        (Refusal::BadDynamic, |f| f.parts[2].1 = dynamic(&[(7, 0x4f0), (8, 24), (0, 0)])),
        (Refusal::BadDynamic, |f| f.parts[2].1 = dynamic(&[(7, u64::MAX), (8, 24), (0, 0)])),
        (Refusal::BadDynamic, |f| f.parts[2].1 = dynamic(&[(7, 0x300), (8, 24), (9, 16), (0, 0)])),
        (Refusal::SharedLibraries, |f| f.parts[2].1 = dynamic(&[(1, 1), (0, 0)])),
        (Refusal::RelocationKind(0), |f| f.parts[2].1 = dynamic(&[(2, 24), (0, 0)])),
        (Refusal::RelocationKind(0), |f| f.parts[2].1 = dynamic(&[(36, 0x300), (0, 0)])),
        (Refusal::RelocationKind(6), |f| f.parts[1].1 = relocation(MIB2, 6, 0)),
        (Refusal::RelocationKind(8), |f| f.parts[1].1 = relocation(MIB2, 1 << 32 | 8, 0)),
        (Refusal::RelocationOutside(0), |f| f.parts[1].1 = relocation(0x480, 8, 0)),
        (Refusal::RelocationOutside(0), |f| f.parts[1].1 = relocation(MIB2 + 0x1f9, 8, 0)),
        (Refusal::RelocationOutside(0), |f| f.parts[1].1 = relocation(MIB2 + 0x1000, 8, 0)),
        (Refusal::RelocationOutside(0), |f| f.parts[1].1 = relocation(u64::MAX - 3, 8, 0)),
    ];
    for (number, (refusal, spoil)) in cases.iter().enumerate() {
        let mut file = native();
        spoil(&mut file);
        assert_eq!(refused(&file), *refusal, "case {number}");
    }
}

/// Damage to one of the marks must not make a Linux program of it.
#[test]
fn one_mark_is_not_enough() {
    let with = |spoil: fn(&mut File)| {
        let mut file = native();
        spoil(&mut file);
        refused(&file)
    };
    assert_eq!(with(|f| f.rows[4].0 = 0), Refusal::BrokenMark, "only the note");
    assert_eq!(with(|f| f.rows[3].0 = 0), Refusal::BrokenMark, "no note");
    assert_eq!(with(|f| f.rows[3].4 = 11), Refusal::BrokenMark, "half a note");
    assert_eq!(with(|f| f.parts[0].1 = vec![0; 24]), Refusal::BrokenMark, "an empty note");
    assert_eq!(with(|f| f.parts[0].1.truncate(8)), Refusal::BrokenMark, "a note of rubbish");
    let long = |f: &mut File| {
        let mut bytes = f.parts[0].1.clone();
        bytes.resize((64 << 10) + 4, 0);
        (f.rows[3].2, f.rows[3].4) = (0x4000, bytes.len() as u64);
        f.len = 0x4000 + bytes.len();
        f.parts.push((0x4000, bytes));
    };
    assert_eq!(with(long), Refusal::BrokenMark, "nobody looks through that much");
    // Byte 19 only fills up the name.
    for at in (0..24).filter(|&at| at != 19) {
        let mut file = native();
        file.parts[0].1[at] ^= 0x40;
        assert!(read(&file.bytes()).is_err(), "byte {at} of the note");
    }
    let mut linux = linux();
    linux.rows.push((MUSUBI, R, 0, 0, 0, 0, 4));
    assert_eq!(refused(&linux), Refusal::BrokenMark);
}

#[test]
fn linux_programs_that_are_refused() {
    type Spoil = fn(&mut File);
    let cases: &[(Refusal, Spoil)] = &[
        (Refusal::BadInterpreter, |f| f.rows.push((INTERP, R, 0, 0, 8, 8, 1))),
        (Refusal::BadInterpreter, |f| f.rows.push((INTERP, R, 0, 0, 0, 0, 1))),
        (Refusal::WriteAndExecute(1), |f| f.rows[1].1 = RWX),
        (Refusal::Overlap(1), |f| f.rows[0].5 = 0x1001),
        (Refusal::Overlap(2), |f| f.rows[2].3 = 0x40_0500),
        (Refusal::Overlap(1), |f| f.rows.swap(0, 1)),
        (Refusal::BadAddress(0), |f| f.rows[0].3 = (64 << 10) - PAGE),
        (Refusal::BadAddress(2), |f| f.rows[2].3 = WINDOW_END - PAGE + 0x500),
        (Refusal::BadAddress(2), |f| f.rows[2].3 = u64::MAX - 0xfff + 0x500),
        (Refusal::BadAlignment(2), |f| f.rows[2].3 += 1),
        (Refusal::BadAlignment(2), |f| f.rows[2].6 = 2 << 30),
        (Refusal::BadAlignment(2), |f| f.rows[2].6 = 3),
        (Refusal::TooLong(2), |f| f.rows[2].5 = RESERVE_MAX + 1),
        (Refusal::ShorterInMemory(2), |f| f.rows[2].5 = 0xff),
        (Refusal::BeyondFile(2), |f| f.rows[2].4 = 0x301),
        (Refusal::BadEntry, |f| f.entry = 0x60_1500),
        (Refusal::BadEntry, |f| f.entry = 0x40_0500),
        (Refusal::NothingToLoad, |f| drop(f.rows.drain(..3))),
        (Refusal::NothingToLoad, |f| f.rows.iter_mut().for_each(|row| row.5 = 0)),
        (Refusal::BadAddress(2), |f| (f.kind, f.rows[2].3) = (DYN, WINDOW_END - PIE_BASE - PAGE + 0x500)),
    ];
    for (number, (refusal, spoil)) in cases.iter().enumerate() {
        let mut file = linux();
        spoil(&mut file);
        assert_eq!(refused(&file), *refusal, "case {number}");
    }
}

#[test]
fn each_refusal_says_something_else() {
    let all = [
        Refusal::NotElf,
        Refusal::CutOff,
        Refusal::WrongMachine,
        Refusal::WrongSystem,
        Refusal::BeyondFile(2),
        Refusal::BeyondFile(3),
        Refusal::WriteAndExecute(2),
        Refusal::Interpreter,
        Refusal::BadInterpreter,
        Refusal::BrokenMark,
        Refusal::AbiVersion(2),
    ];
    let texts: std::collections::BTreeSet<String> = all.iter().map(Refusal::to_string).collect();
    assert_eq!(texts.len(), all.len());
    assert!(texts.contains("segment 2 lies beyond the end of the file"));
    assert_eq!(abi::Error::from(Refusal::NotElf), abi::Error::BadProgram);
}

/// Whether `part` consists of bytes of `file` itself.
fn within(part: &[u8], file: &[u8]) -> bool {
    part.is_empty()
        || file.as_ptr_range().contains(&part.as_ptr()) && part.as_ptr_range().end <= file.as_ptr_range().end
}

/// Whatever is accepted can be followed blindly.
fn check_plan(file: &[u8]) {
    match read(file) {
        Err(refusal) => assert!(!refusal.to_string().is_empty()),
        Ok(Program::Native(plan)) => {
            assert!(within(plan.text, file) && within(plan.data, file));
            assert!(plan.text.len() as u64 <= plan.text_len && plan.text_len % PAGE == 0);
            assert!(plan.text_len + PAGE <= RESERVE_MAX && plan.entry < plan.text_len);
            assert!(plan.data.len() as u64 <= plan.data_len && plan.data_len <= RESERVE_MAX);
            assert!(plan.data_offset % GRANULE == 0 && plan.data_offset <= RESERVE_MAX);
            assert!(plan.data_offset == 0 && plan.data_len == 0 || plan.data_offset >= plan.text_len + PAGE);
            for (offset, _) in plan.relocations() {
                assert!(offset.checked_add(8).is_some_and(|end| end <= plan.data.len() as u64));
            }
        }
        Ok(Program::Linux(plan)) => {
            let mut free = if plan.is_pie { 0 } else { 64 << 10 };
            for segment in &plan.segments {
                assert!(within(segment.file, file));
                assert!(segment.file.len() as u64 <= segment.memsz && segment.memsz <= RESERVE_MAX);
                assert!(!(segment.write && segment.execute));
                assert!(segment.vaddr / PAGE * PAGE >= free);
                free = (segment.vaddr + segment.memsz).next_multiple_of(PAGE);
            }
            assert!(plan.base_hint + free <= WINDOW_END);
            let inside = |segment: &&Segment<'_>| (segment.vaddr..segment.vaddr + segment.memsz).contains(&plan.entry);
            assert!(plan.segments.iter().find(inside).is_some_and(|segment| segment.execute));
            assert!((1..=128).contains(&plan.phnum));
        }
    }
}

/// A value that range arithmetic gets wrong, or any.
fn nasty() -> impl Strategy<Value = u64> {
    let edges = vec![0, 1, PAGE - 1, PAGE, PAGE + 1, GRANULE, RESERVE_MAX, WINDOW_END, 1 << 63, u64::MAX - 7, u64::MAX];
    prop_oneof![4 => prop::sample::select(edges), 1 => any::<u64>(), 3 => 0u64..0x1300]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn no_mutation_of_bytes_breaks_it(
        which in any::<bool>(),
        changes in prop::collection::vec((0usize..0x1200, any::<u8>()), 1..8),
        dense in prop::collection::vec((0usize..64 + 5 * 56, any::<u8>()), 0..4),
        len in 0usize..0x2000,
    ) {
        let mut bytes = if which { native().bytes() } else { linux().bytes() };
        for (at, byte) in changes.into_iter().chain(dense) {
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        // Half of the files are cut.
        bytes.truncate(if len < 0x1000 { len } else { usize::MAX });
        check_plan(&bytes);
    }

    #[test]
    fn no_mutation_of_fields_breaks_it(
        which in any::<bool>(),
        changes in prop::collection::vec((0usize..4, 1usize..7, nasty()), 0..4),
        words in prop::collection::vec((0usize..0x1200 / 8, nasty()), 0..3),
        kind in 2u16..4,
    ) {
        let mut file = if which { native() } else { linux() };
        if !which {
            file.kind = kind;
        }
        for (row, field, value) in changes {
            let row = &mut file.rows[row];
            match field {
                1 => row.1 = value as u32 & 7,
                2 => row.2 = value,
                3 => row.3 = value,
                4 => row.4 = value,
                5 => row.5 = value,
                _ => row.6 = value,
            }
        }
        let mut bytes = file.bytes();
        for (at, word) in words {
            if let Some(place) = bytes.get_mut(at * 8..at * 8 + 8) {
                place.copy_from_slice(&word.to_le_bytes());
            }
        }
        check_plan(&bytes);
    }

    #[test]
    fn no_bytes_break_it(tail in prop::collection::vec(any::<u8>(), 0..400), elf in any::<bool>()) {
        let mut bytes = if elf { native().bytes()[..20].to_vec() } else { Vec::new() };
        bytes.extend(tail);
        check_plan(&bytes);
    }
}
