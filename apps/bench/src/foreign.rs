//! A Linux program that asks for its own number again and again, and writes down the ticks of each time: what a call takes that is
//! served by a personality. It is so small that it is put together here, instruction by instruction.

use crate::samples::Samples;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use musubi::abi::layout::PAGE;
use musubi::abi::task::exit;
use musubi::command::Command;
use musubi::files::{self, File};
use musubi::rt::mark;

const PROGRAM: &[u8] = b"tmp/bench-getpid";
const SAMPLES: &[u8] = b"tmp/bench-getpid.samples";
/// Of the program: where it lies, and where its samples do.
const TEXT: u32 = 0x40_0000;
const DATA: u32 = 0x80_0000;
/// ELF's: its header, and one of a segment.
const HEADER: u16 = 64;
const SEGMENT: u16 = 56;

const GETPID: u32 = 39;
const WRITE: u32 = 1;
const SIGACTION: u32 = 13;
const SIGRETURN: u32 = 15;
const EXIT_GROUP: u32 = 231;
const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// Rounds of the program, after some to warm up and less what measuring takes by itself.
pub fn getpid(warm: u32, rounds: u32) -> Result<Samples, String> {
    let bytes = printed(warm, rounds)?;
    let mut words = bytes.as_chunks().0.iter().map(|word| u64::from(u32::from_le_bytes(*word)));
    let (mut alone, mut all) = (Samples::new(rounds as usize), Samples::new(rounds as usize));
    words.by_ref().take(rounds as usize).for_each(|ticks| alone.add(ticks));
    words.for_each(|ticks| all.add(ticks));
    Ok(all.less(alone.summary().median))
}

/// The program makes so many calls, and has so many traps that it handles, of which none is counted.
pub fn calls(times: u32) -> Result<(), String> {
    printed(times, 0).map(drop)
}

/// What the program has printed.
fn printed(warm: u32, rounds: u32) -> Result<Vec<u8>, String> {
    let outcome = run(warm, rounds);
    let removed = [PROGRAM, SAMPLES].map(files::remove);
    let bytes = outcome?;
    removed.into_iter().collect::<Result<Vec<()>, _>>().map_err(|e| format!("removing: {e}"))?;
    Ok(bytes)
}

fn run(warm: u32, rounds: u32) -> Result<Vec<u8>, String> {
    let said = |what: &'static str| move |e| format!("{what}: {e}");
    let file = File::create(PROGRAM).map_err(said("a program"))?;
    file.write_all(0, &program(warm, rounds)).map_err(said("a program"))?;
    files::set_mode(PROGRAM, 0o755).map_err(said("a program"))?;
    drop(file);
    let out = File::create(SAMPLES).map_err(said("its samples"))?;
    let stream = out.stream().map_err(said("its samples"))?;
    let child = Command::new(PROGRAM).stream(1, stream).spawn().map_err(|e| format!("a Linux program: {e}"))?;
    let end = child.wait().map_err(said("its end"))?;
    if (end.kind, end.code) != (exit::EXITED, 0) {
        return Err(format!("a Linux program ended by {} with {}", end.kind, end.code));
    }
    let mut bytes = vec![0; 2 * rounds as usize * size_of::<u32>()];
    let mut have = 0;
    while have < bytes.len() {
        match out.read(have as u64, &mut bytes[have..]).map_err(said("its samples"))? {
            0 => return Err("not all samples are there".into()),
            n => have += n,
        }
    }
    Ok(bytes)
}

/// Its file: a text, and room for samples.
fn program(warm: u32, rounds: u32) -> Vec<u8> {
    let begin = HEADER + 3 * SEGMENT;
    let code = code(warm, rounds);
    let len = u64::from(begin) + code.len() as u64;
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let half = |file: &mut Vec<u8>, halves: &[u16]| halves.iter().for_each(|n| file.extend(n.to_le_bytes()));
    let words = |file: &mut Vec<u8>, words: &[u64]| words.iter().for_each(|n| file.extend(n.to_le_bytes()));
    half(&mut file, &[2, 62, 1, 0]); // a program, for x86-64, version 1
    words(&mut file, &[u64::from(TEXT) + u64::from(begin), HEADER.into(), 0]);
    half(&mut file, &[0, 0, HEADER, SEGMENT, 3, 0, 0, 0]);
    let room = 2 * u64::from(warm.max(rounds)) * size_of::<u32>() as u64;
    // Kind and flags in a word: a text, data, and a stack that is not executed.
    for segment in [
        [1 | 5 << 32, 0, TEXT.into(), TEXT.into(), len, len, PAGE],
        [1 | 6 << 32, 0, DATA.into(), DATA.into(), 0, room, PAGE],
        [0x6474_e551 | 6 << 32, 0, 0, 0, 0, 0, 16],
    ] {
        words(&mut file, &segment);
    }
    file.extend(code);
    file
}

/// What it executes: rounds without a call, rounds to warm up, rounds that count; then it prints its samples.
fn code(warm: u32, rounds: u32) -> Vec<u8> {
    let middle = DATA + rounds * size_of::<u32>() as u32;
    let call = [&load(0xb8, GETPID)[..], &SYSCALL].concat();
    let print = [
        load(0xbf, 1), // edi: standard output
        load(0xbe, DATA),
        load(0xba, 2 * rounds * size_of::<u32>() as u32),
        load(0xb8, WRITE),
    ];
    let end = [load(0xbf, 0), load(0xb8, EXIT_GROUP)];
    let mark = |at| mark::bytes(at).to_vec();
    let count = [mark(mark::CASE_BEGINS), repeat(middle, rounds, &call), mark(mark::CASE_ENDS)];
    let (alone, count) =
        if rounds > 0 { (repeat(DATA, rounds, &[]), count.concat()) } else { (traps(warm), Vec::new()) };
    [alone, repeat(middle, warm, &call), count, print.concat(), SYSCALL.to_vec(), end.concat(), SYSCALL.to_vec()]
        .concat()
}

/// So many breakpoints, each of which its handler returns from. It comes first, since it knows where it lies.
fn traps(times: u32) -> Vec<u8> {
    const SIGTRAP: u32 = 5;
    const SA_RESTORER: u64 = 0x0400_0000;
    const RET: u8 = 0xc3;
    const INT3: u8 = 0xcc;
    let begin = TEXT + u32::from(HEADER + 3 * SEGMENT);
    let back = [&load(0xb8, SIGRETURN)[..], &SYSCALL].concat();
    let handler = begin + 2;
    let action = handler + 1 + back.len() as u32;
    let words = [handler.into(), SA_RESTORER, u64::from(handler) + 1, 0].map(u64::to_le_bytes).concat();
    let beside = [&[RET][..], &back, &words].concat();
    let set = [
        load(0xbf, SIGTRAP),
        load(0xbe, action),
        load(0xba, 0), // edx: where the action before is to be told
        load(0xb8, SIGACTION),
    ];
    let over = [0xeb, beside.len() as u8]; // a short jump
    let size_of_set = [&[0x41][..], &load(0xba, size_of::<u64>() as u32)].concat(); // r10d
    [&over[..], &beside, set.as_flattened(), &size_of_set, &SYSCALL, &vec![INT3; times as usize]].concat()
}

/// `mov`, of this number into the register that the operation names.
fn load(operation: u8, number: u32) -> [u8; 5] {
    let [a, b, c, d] = number.to_le_bytes();
    [operation, a, b, c, d]
}

/// Rounds of something that keeps rbx, rbp and r12, with the ticks of each from `to` on.
fn repeat(to: u32, rounds: u32, what: &[u8]) -> Vec<u8> {
    let round = [
        &[0x0f, 0x31, 0x41, 0x89, 0xc4][..], // rdtsc; mov r12d, eax
        &mark::bytes(mark::ROUND_BEGINS),
        what,
        &mark::bytes(mark::ROUND_ENDS),
        // rdtsc; sub eax, r12d; mov [rbx], eax; add rbx, 4; dec ebp; jnz
        &[0x0f, 0x31, 0x44, 0x29, 0xe0, 0x89, 0x03, 0x48, 0x83, 0xc3, 0x04, 0xff, 0xcd, 0x75],
    ]
    .concat();
    // It is short enough for a jump of one byte.
    let back = -(round.len() as i32 + 1);
    [&load(0xbb, to)[..], &load(0xbd, rounds), &round, &[back as i8 as u8]].concat()
}
