//! Pages of a window that were made invalid go to its task's pager first (SSS-58; architecture, section 14): from the window's code, from its personality,
//! and from the kernel for that. The task is another one than the pager's.

use super::{AT, BASE, CODE, TASK, get, load, own as page, set, skip, store};
use crate::pagers::{Does, Own, own};
use crate::refusals::refused;
use crate::report::{Outcome, doing};
use crate::same;
use crate::sections::everybody;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::frame::{Frame, reason};
use musubi::abi::layout::PAGE;
use musubi::abi::pager::{TRIES, flag as pager_flag, miss};
use musubi::abi::refusal::Object;
use musubi::abi::section::{flag, kind};
use musubi::abi::task::{Limits, exit};
use musubi::rt::{Mutex, Section, Trap, pager, section, task, thread};
use musubi::{Error, Rights, processes};

/// Who needs the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Load,
    Store,
    /// The personality, by the window's address.
    Personality,
    /// The kernel, in a call of the personality's.
    Kernel,
}

/// What happens to such an access: what the task's pager does, and that of the section; whether the access goes through, and how often each is asked.
#[derive(Clone, Copy, Debug)]
struct Row(By, Does, Does, bool, [u64; 2]);

/// In the page: a word, behind all that the kernel writes there.
const WORD: u64 = 0x800;
/// In the window's code: a load, a store; each followed by a call.
const LOADS: u64 = CODE;
const STORES: u64 = CODE + 5;
const CALLS: u64 = CODE + 3;
const BYTES: [u8; 12] = [0x48, 0x8b, 0x07, 0x0f, 0x05, 0x48, 0x89, 0x37, 0x0f, 0x05, 0x0f, 0x0b];

const ROWS: [Row; 20] = [
    Row(By::Load, Does::Validate, Does::Validate, true, [1, 0]),
    Row(By::Store, Does::Validate, Does::Validate, true, [1, 0]),
    Row(By::Load, Does::Refuse, Does::Validate, false, [1, 0]),
    Row(By::Store, Does::Refuse, Does::Validate, false, [1, 0]),
    Row(By::Load, Does::Decline, Does::Validate, true, [1, 1]),
    Row(By::Store, Does::Decline, Does::Validate, true, [1, 1]),
    Row(By::Load, Does::Decline, Does::Decline, false, [1, 1]),
    Row(By::Load, Does::Nothing, Does::Validate, false, [TRIES as u64, 0]),
    Row(By::Load, Does::Validate, Does::Validate, true, [1, 0]),
    Row(By::Personality, Does::Validate, Does::Validate, true, [1, 0]),
    Row(By::Personality, Does::Refuse, Does::Validate, false, [1, 0]),
    Row(By::Personality, Does::Decline, Does::Validate, true, [1, 1]),
    Row(By::Kernel, Does::Validate, Does::Validate, true, [1, 0]),
    Row(By::Kernel, Does::Refuse, Does::Validate, false, [1, 0]),
    Row(By::Kernel, Does::Decline, Does::Validate, true, [1, 1]),
    // From here on nobody may change the section's list, and what is invalid stays so.
    Row(By::Load, Does::Refuse, Does::Validate, false, [1, 0]),
    Row(By::Personality, Does::Refuse, Does::Validate, false, [1, 0]),
    Row(By::Kernel, Does::Refuse, Does::Validate, false, [1, 0]),
    // Nor by a pager before which the page is valid.
    Row(By::Load, Does::Nothing, Does::Validate, false, [TRIES as u64, 0]),
    Row(By::Personality, Does::Nothing, Does::Validate, false, [TRIES as u64, 0]),
];
const WITHOUT_RIGHT: usize = 15;
const VALID_BEFORE: usize = 18;

/// What has come of a row: whether the access went through, how often each pager was asked, what the last of them was told of, the word then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Came {
    went: Result<bool, u64>,
    asked: [u64; 2],
    told: [u64; 4],
    word: u64,
}

/// The task's pager and the section's; the gate of the first; what came of the rows so far.
struct Run {
    pagers: [&'static Own; 2],
    gate: u64,
    came: Vec<Came>,
}

static RUN: Mutex<Option<Run>> = Mutex::new(None);
/// The row whose access was made last, and 1.
static ROW: AtomicU64 = AtomicU64::new(0);

/// The program's thread, in its personality: it notes what has come of an access, and makes the next one, or has the window's code make it.
extern "C" fn upcall(frame: &mut Frame) -> ! {
    let mut n = ROW.load(Ordering::SeqCst) as usize;
    if n > 0 {
        let went = match (frame.reason, frame.address) {
            (reason::SYSCALL, _) => Ok(true),
            (reason::FAULT, address) if address == AT + WORD => Ok(false),
            (_, address) => Err(address),
        };
        note(n - 1, went, frame.rax);
    }
    while let Some(row) = ROWS.get(n)
        && prepare(n, *row).is_ok()
    {
        n += 1;
        ROW.store(n as u64, Ordering::SeqCst);
        match row.0 {
            By::Load | By::Store => {
                frame.rip = if row.0 == By::Load { LOADS } else { STORES };
                (frame.rdi, frame.rsi) = (AT + WORD, 1000 + n as u64);
                let _ = stub::foreign_return(&Trap, core::ptr::from_mut(frame) as u64);
                break;
            }
            By::Personality => {
                let loaded = load(AT + WORD);
                note(n - 1, Ok(loaded.faulted == 0), loaded.value);
            }
            By::Kernel => {
                let told = stub::section_info(&Trap, get(&BASE), AT);
                note(n - 1, if matches!(told, Ok(_) | Err(Error::Absent)) { Ok(told.is_ok()) } else { Err(1) }, 0);
            }
        }
    }
    let _ = stub::task_end(&Trap, get(&TASK), 0);
    loop {
        thread::yield_now();
    }
}

/// Before row `n`: its word is in the page, and that is invalid.
fn prepare(n: usize, row: Row) -> Result<(), Error> {
    if n == WITHOUT_RIGHT {
        section::invalidate(page(), PAGE)?;
        section::grant(get(&BASE), &super::entry(Rights::READ | Rights::WRITE))?;
    }
    if n < WITHOUT_RIGHT {
        section::validate(page(), PAGE)?;
        store(page() + WORD, n as u64 + 1);
        section::invalidate(page(), PAGE)?;
    }
    let run = RUN.lock();
    let Some(Run { pagers: [first, second], gate, .. }) = &*run else { return Err(Error::NotFound) };
    if n == VALID_BEFORE {
        stub::task_pager(&Trap, get(&TASK), *gate, pager_flag::VALID_BEFORE)?;
    }
    first.set(row.1);
    second.set(row.2);
    (first.calls(), second.calls());
    Ok(())
}

fn note(n: usize, went: Result<bool, u64>, loaded: u64) {
    let Some(run) = &mut *RUN.lock() else { return };
    let asked = run.pagers.map(Own::calls);
    let mut told = run.pagers[usize::from(asked[1] > 0)].told();
    // (Who stores there may be said to read as well.)
    let writes = u64::from(Rights::WRITE.bits());
    told[2] = if told[2] & writes != 0 { writes } else { told[2] };
    let word = match ROWS[n].0 {
        By::Load | By::Personality if went == Ok(true) => loaded,
        By::Store if section::validate(page(), PAGE).is_ok() => load(page() + WORD).value,
        _ => 0,
    };
    run.came.push(Came { went, asked, told, word });
}

/// What is to come of row `n`.
fn wanted(n: usize, Row(by, _, _, goes, asked): Row) -> Came {
    let right = if matches!(by, By::Store | By::Kernel) { Rights::WRITE } else { Rights::READ };
    let offset = if by == By::Kernel { PAGE } else { PAGE + WORD };
    let number = n as u64 + 1;
    let word = match by {
        By::Load | By::Personality if goes => number,
        By::Store => number + if goes { 1000 } else { 0 },
        _ => 0,
    };
    let told = [get(&BASE), offset, u64::from(right.bits()), miss::INVALID];
    Came { went: Ok(goes), asked, told, word }
}

pub fn paged() -> Outcome {
    let shared = Section::create(2 * PAGE, 2 * PAGE, kind::DATA, flag::ANY_PRINCIPAL).map_err(doing("create"))?;
    set(&BASE, shared.base());
    let _ = store(page() + WORD, 0);
    section::grant(shared.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let mut code = Section::create(PAGE, PAGE, kind::DATA, 0).map_err(doing("create"))?;
    code.bytes_mut()[..BYTES.len()].copy_from_slice(&BYTES);
    let text = code.seal().map_err(doing("seal"))?;
    section::grant(text, &everybody(Rights::READ | Rights::EXECUTE)).map_err(doing("grant"))?;
    stub::fault_entry(&Trap, skip as *const () as u64, 0).map_err(doing("a fault entry"))?;
    let (first, gate) = own(Does::Validate)?;
    let (second, its_gate) = own(Does::Validate)?;
    pager::set(shared.base(), its_gate, 1, 0).map_err(doing("the section's pager"))?;
    *RUN.lock() = Some(Run { pagers: [first, second], gate, came: Vec::with_capacity(ROWS.len()) });

    let task = task::create(&Limits::default(), task::identity().user, b"paged").map_err(doing("task"))?;
    set(&TASK, task);
    let task_pager = |gate| stub::task_pager(&Trap, task, gate, 0);
    // Whoever has made it is not its personality yet.
    refused(task_pager(gate), Object::Task(task), "the pager of a task without a personality")?;
    let called = stub::gate_create(&Trap, upcall as *const () as u64, 1, 0, musubi::abi::gate::flag::CALLED_UP);
    stub::foreign_set(&Trap, task, called.map_err(doing("gate"))?, text).map_err(doing("a personality"))?;
    task_pager(gate).map_err(doing("the task's pager"))?;
    let map = |at, base, offset, rights: Rights| {
        stub::window_map(&Trap, task, at, base, offset, PAGE, u64::from(rights.bits())).map_err(doing("map"))
    };
    map(CODE, text, 0, Rights::READ | Rights::EXECUTE)?;
    map(AT, shared.base(), PAGE, Rights::READ | Rights::WRITE)?;
    let frame = Frame { rip: CALLS, ..Frame::default() };
    stub::foreign_start(&Trap, task, &raw const frame as u64).map_err(doing("start"))?;
    let (_, how) = processes::collect(task, 60_000_000_000).map_err(doing("its end"))?;
    same!((how.kind, how.code), (exit::EXITED, 0), "how it ended");
    let came = RUN.lock().take().map(|run| run.came).unwrap_or_default();
    for (n, row) in ROWS.into_iter().enumerate() {
        same!(came.get(n), Some(&wanted(n, row)), "row {n}, {row:?}");
    }
    Ok(())
}
