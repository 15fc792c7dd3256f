//! The kernel's part in one process on another system, as far as tests of interfaces need it: gates, bindings with
//! argument sections, sections without protection. Nobody is ever a caller with rights of its own, so pointers outside
//! of an argument section are refused, as they are for a caller on Musubi that may not touch them.

use abi::calls::Call;
use abi::gate::{Binding, GATE_STEP, Record, grade};
use abi::{Error, layout};
use std::sync::Mutex;
use std::vec::Vec;

use crate::gate::{Caller, dispatch};

struct Block {
    address: u64,
    count: u64,
    cookie: u64,
}

static BLOCKS: Mutex<Vec<Block>> = Mutex::new(Vec::new());
/// Block, argument section.
static BINDINGS: Mutex<Vec<(usize, u64, u64)>> = Mutex::new(Vec::new());

fn pages(len: u64) -> u64 {
    let words: &'static mut [u64] = std::vec![0u64; len as usize / 8 + 512].leak();
    (words.as_ptr() as u64).next_multiple_of(layout::PAGE)
}

pub fn kernel_call(number: u64, arguments: [u64; 6]) -> (u64, u64) {
    let answer = Call::decode(number, arguments).ok_or(Error::NoSuchCall).and_then(perform);
    match answer {
        Ok(value) => (0, value),
        Err(e) => (e.word(), 0),
    }
}

/// There is but one way in.
pub fn light_call(number: u64, arguments: [u64; 6]) -> (u64, u64) {
    kernel_call(number, arguments)
}

/// There are no posts.
pub fn message_call(_: u64, _: [u64; 10]) -> (u64, [u64; crate::trap::MESSAGE]) {
    (Error::NoSuchCall.word(), [0; crate::trap::MESSAGE])
}

fn perform(call: Call) -> Result<u64, Error> {
    match call {
        Call::GateCreate { count, cookie, .. } => {
            let mut blocks = BLOCKS.lock().map_err(|_| Error::Busy)?;
            let address = layout::SPACE_BASE + (blocks.len() as u64 + 1) * layout::PAGE;
            blocks.push(Block { address, count, cookie });
            Ok(address)
        }
        Call::GateBind { address, args_len, out, .. } => {
            let blocks = BLOCKS.lock().map_err(|_| Error::Busy)?;
            let block = blocks.iter().position(|b| b.address == address).ok_or(Error::NotFound)?;
            let args = if args_len > 0 { pages(args_len) } else { 0 };
            let mut bindings = BINDINGS.lock().map_err(|_| Error::Busy)?;
            bindings.push((block, args, args_len));
            let number = bindings.len() as u64 - 1;
            let binding = Binding {
                number,
                count: blocks[block].count,
                args,
                args_len,
                grade: grade::EPC_S,
                ..Binding::default()
            };
            // SAFETY: the caller, `Bound::bind_with`, gives the address of its own record.
            unsafe { *(out as *mut Binding) = binding };
            Ok(number)
        }
        Call::SectionCreate { len, .. } => Ok(pages(len)),
        Call::May { who: 0, .. } => Ok(1),
        Call::May { .. } | Call::MayPass { .. } => Ok(0),
        Call::Wait { .. } | Call::Yield {} | Call::Wake { .. } => {
            std::thread::sleep(std::time::Duration::from_millis(1));
            Ok(0)
        }
        _ => Err(Error::NotSupported),
    }
}

pub fn plain_way() -> u64 {
    PLAIN
}

/// Nobody's threads can be told apart here, so nothing is served elsewhere.
pub fn elsewhere() -> u64 {
    crate::elsewhere::call as *const () as u64
}

pub fn no_way() -> u64 {
    PLAIN
}

/// Instead of a gate.
const PLAIN: u64 = 1;

pub fn bound_call(via: u64, slot: u64, index: u64, words: [u64; 6]) -> (u64, [u64; 2]) {
    if via == PLAIN {
        return plain_call(slot + index * GATE_STEP, words);
    }
    let binding = slot / abi::gate::slot(1);
    let found = BINDINGS.lock().ok().and_then(|b| b.get(binding as usize).copied());
    found.map_or((Error::NotFound.word(), [0; 2]), |(block, base, len)| enter(block, index, base, len, words))
}

pub fn plain_call(address: u64, words: [u64; 6]) -> (u64, [u64; 2]) {
    let found = BLOCKS.lock().ok().and_then(|blocks| {
        let inside = |b: &Block| (b.address..b.address + b.count * GATE_STEP).contains(&address);
        blocks.iter().position(inside).map(|i| (i, (address - blocks[i].address) / GATE_STEP))
    });
    found.map_or((Error::NotFound.word(), [0; 2]), |(block, index)| enter(block, index, 0, 0, words))
}

/// Threads have no stacks here that others could run on.
pub fn wide_call(_: u64, _: u64, _: [u64; 6], _: &[u64; 8]) -> (u64, [u64; 2]) {
    (Error::NotSupported.word(), [0; 2])
}

pub fn own_text() -> &'static [u8] {
    &[]
}

pub fn is_own_code(_address: u64) -> bool {
    false
}

fn enter(block: usize, index: u64, args_base: u64, args_len: u64, words: [u64; 6]) -> (u64, [u64; 2]) {
    let gates = BLOCKS.lock().ok().and_then(|b| b.get(block).map(|b| (b.cookie, b.count)));
    let Some((cookie, _)) = gates.filter(|g| index < g.1) else {
        return (Error::NotFound.word(), [0; 2]);
    };
    let caller = Caller(Record { task: 1, user: 1, text: 1, args_base, args_len, cookie, ..Record::default() });
    let values = dispatch(&caller, index, &words);
    (0, [values.0, values.1])
}

pub fn next_call(_: u64, _: u64, _: u64) -> u64 {
    abi::Error::NotSupported.word()
}

pub fn processor() -> u32 {
    0
}
