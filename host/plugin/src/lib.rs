#![doc = include_str!("../README.md")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use tally::{Copies, Costly, Held, Locks, Mark, Recorder, Touched, WAYS};

/// The version of QEMU's interface that is spoken here. QEMU refuses a plugin whose version it does not speak.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = 1;

/// What QEMU tells about itself.
#[repr(C)]
pub struct Info {
    target: *const c_char,
    versions: [c_int; 2],
    system: bool,
    processors: c_int,
    processors_max: c_int,
}

/// A block of instructions that is being translated, and one of them: QEMU's own.
#[repr(C)]
pub struct Block(());
#[repr(C)]
pub struct Instruction(());

const NO_REGISTERS: c_int = 0;
const ADD: c_int = 0;
const STORES: c_int = 2;
const LOADS_AND_STORES: c_int = 3;

type OnBlock = extern "C" fn(id: u64, block: *mut Block);
type OnExecution = extern "C" fn(processor: c_uint, data: *mut c_void);
type OnAccess = extern "C" fn(processor: c_uint, access: u32, address: u64, data: *mut c_void);

// SAFETY: declared as QEMU 7.2's qemu-plugin.h does, which Debian does not package.
unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, call: OnBlock);
    fn qemu_plugin_register_vcpu_tb_exec_cb(block: *mut Block, call: OnExecution, flags: c_int, data: *mut c_void);
    fn qemu_plugin_register_vcpu_insn_exec_cb(at: *mut Instruction, call: OnExecution, flags: c_int, data: *mut c_void);
    fn qemu_plugin_register_vcpu_insn_exec_inline(at: *mut Instruction, how: c_int, to: *mut c_void, what: u64);
    fn qemu_plugin_register_vcpu_mem_cb(
        at: *mut Instruction,
        call: OnAccess,
        flags: c_int,
        which: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_mem_size_shift(access: u32) -> c_uint;
    fn qemu_plugin_mem_is_store(access: u32) -> bool;
    fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;
    fn qemu_plugin_tb_vaddr(block: *const Block) -> u64;
    fn qemu_plugin_tb_get_insn(block: *const Block, index: usize) -> *mut Instruction;
    fn qemu_plugin_insn_data(at: *const Instruction) -> *const u8;
    fn qemu_plugin_insn_size(at: *const Instruction) -> usize;
    fn qemu_plugin_insn_vaddr(at: *const Instruction) -> u64;
}

/// Executed so far: all instructions but marks, and those of each costly kind. QEMU adds to them.
static INSTRUCTIONS: AtomicU64 = AtomicU64::new(0);
static COUNTS: [AtomicU64; Costly::ALL.len()] = [const { AtomicU64::new(0) }; Costly::ALL.len()];
/// Where the block lies that each processor executes.
static REGIONS: [AtomicU64; 256] = [const { AtomicU64::new(0) }; 256];
/// A lock is held, where that is looked at.
static HOLDS: AtomicBool = AtomicBool::new(false);
/// Between the marks of a round, where steps are told apart.
static IN_ROUND: AtomicBool = AtomicBool::new(false);
static STATE: Mutex<Option<State>> = Mutex::new(None);
static PLAN: OnceLock<Plan> = OnceLock::new();

struct State {
    recorder: Recorder,
    copies: Copies,
    touched: Touched,
    held: Held,
    out: File,
}

/// What is looked at.
struct Plan {
    locks: Locks,
    /// Where control is, how often it comes to the kernel, and what that copies. Of several processors, that would be in several places at once.
    has_steps: bool,
    /// How often control comes to the kernel, of all processors, which take turns.
    has_entries: bool,
    /// Whether it is looked which locks are held.
    has_held: bool,
    /// Whether lines and pages are counted, and if so, whether each page-table root is another address space.
    touched: Option<bool>,
    /// Where the kernel's ways in and out lie, if they are steps of their own.
    ways: std::ops::Range<u64>,
}

/// What QEMU calls when it has loaded the plugin. Anything but 0: it is not wanted.
///
/// # Safety
/// As QEMU's interface says: `info` and `words` are valid during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    info: *const Info,
    count: c_int,
    words: *const *const c_char,
) -> c_int {
    // SAFETY: valid during the call.
    let processors = unsafe { (*info).processors };
    let word = |at: usize| {
        // SAFETY: there are `count` strings, each with its NUL.
        unsafe { CStr::from_ptr(*words.add(at)) }.to_str().ok()
    };
    let path = |name| (0..usize::try_from(count).unwrap_or(0)).find_map(|at| word(at)?.strip_prefix(name));
    match open(path("out="), path("locks=")) {
        Ok((out, locks)) => {
            let (recorder, copies) = (Recorder::default(), Copies::default());
            *state() = Some(State { recorder, copies, touched: Touched::default(), held: Held::default(), out });
            let ways = path("ways=").and_then(range).unwrap_or(0..0);
            let has_steps = processors == 1;
            let touched = path("touched=").filter(|_| has_steps).map(|spaces| spaces == "many");
            let has_entries = has_steps || path("entries=") == Some("each");
            let has_held = has_steps && path("held=").is_some();
            PLAN.get_or_init(|| Plan { locks, has_steps, has_entries, has_held, touched, ways });
        }
        Err(why) => {
            eprintln!("plugin: {why}");
            return 1;
        }
    }
    // SAFETY: `id` is this plugin's.
    unsafe { qemu_plugin_register_vcpu_tb_trans_cb(id, translated) };
    0
}

/// The file to write to, and where the kernel takes locks, if that is told.
fn open(out: Option<&str>, locks: Option<&str>) -> Result<(File, Locks), String> {
    let out = out.ok_or("out=FILE is missing")?;
    let locks = locks.map_or(Ok(Locks::default()), |path| {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        Locks::read(&text).map_err(|error| format!("{path}: {error:#}"))
    });
    Ok((File::create(out).map_err(|error| format!("{out}: {error}"))?, locks?))
}

/// Two numbers as `measure` writes them.
fn range(text: &str) -> Option<std::ops::Range<u64>> {
    let (begin, end) = text.split_once('-')?;
    Some(begin.parse().ok()?..end.parse().ok()?)
}

fn state() -> std::sync::MutexGuard<'static, Option<State>> {
    // A panic ends QEMU, so nobody finds it poisoned.
    STATE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A block has been translated: says what is to happen when it is executed.
extern "C" fn translated(_: u64, block: *mut Block) {
    let Some(plan) = PLAN.get() else { return };
    // SAFETY: the block and its instructions are valid during the call, and the bytes of an instruction are as many as its
    // size. What is added to lives as long as QEMU.
    unsafe {
        if plan.has_entries {
            let at = qemu_plugin_tb_vaddr(block);
            let region = if plan.ways.contains(&at) { WAYS } else { Recorder::region(at) };
            qemu_plugin_register_vcpu_tb_exec_cb(block, entered, NO_REGISTERS, region as *mut c_void);
        }
        if plan.touched.is_some() {
            let instructions = 0..qemu_plugin_tb_n_insns(block);
            let bytes = instructions.map(|index| qemu_plugin_insn_size(qemu_plugin_tb_get_insn(block, index)) as u64);
            // Each time that it is translated, of which nobody is told the end.
            let extent = Box::leak(Box::new((qemu_plugin_tb_vaddr(block), bytes.sum::<u64>())));
            qemu_plugin_register_vcpu_tb_exec_cb(block, executed, NO_REGISTERS, std::ptr::from_mut(extent).cast());
        }
        for index in 0..qemu_plugin_tb_n_insns(block) {
            let at = qemu_plugin_tb_get_insn(block, index);
            let bytes = std::slice::from_raw_parts(qemu_plugin_insn_data(at), qemu_plugin_insn_size(at));
            if let Some(mark) = Mark::of(bytes) {
                qemu_plugin_register_vcpu_insn_exec_cb(at, marked, NO_REGISTERS, mark as usize as *mut c_void);
                continue;
            }
            let address = qemu_plugin_insn_vaddr(at);
            let costly = Costly::all_of(bytes, address, &plan.locks).map(|costly| &COUNTS[costly as usize]);
            for counter in [&INSTRUCTIONS].into_iter().chain(costly) {
                qemu_plugin_register_vcpu_insn_exec_inline(at, ADD, counter.as_ptr().cast(), 1);
            }
            let nothing = std::ptr::null_mut();
            if plan.touched.is_some() {
                qemu_plugin_register_vcpu_mem_cb(at, accessed, NO_REGISTERS, LOADS_AND_STORES, nothing);
            }
            if plan.touched.is_some() && Costly::all_of(bytes, address, &plan.locks).any(|one| one == Costly::RootWrite)
            {
                qemu_plugin_register_vcpu_insn_exec_cb(at, loads_root, NO_REGISTERS, nothing);
            }
            if plan.has_held && address >> 63 == 1 {
                let takes = Costly::all_of(bytes, address, &plan.locks).any(|one| one == Costly::TakesLock);
                qemu_plugin_register_vcpu_mem_cb(at, if takes { took } else { stored }, NO_REGISTERS, STORES, nothing);
            }
            // Of each turn, since how many there are is not said before; and one that moves nothing is executed, too.
            if plan.has_steps && Costly::copies(bytes, address) {
                qemu_plugin_register_vcpu_mem_cb(at, moved, NO_REGISTERS, LOADS_AND_STORES, nothing);
            }
        }
    }
}

/// Only where there is one processor, or where they take turns: nobody else adds in between.
fn add(costly: Costly, so_much: u64) {
    let counter = &COUNTS[costly as usize];
    counter.store(counter.load(Ordering::Relaxed) + so_much, Ordering::Relaxed);
}

/// A block begins.
extern "C" fn entered(processor: c_uint, data: *mut c_void) {
    let region = data as u64;
    let Some(at) = REGIONS.get(processor as usize) else { return };
    // Nobody else stores there in between, and to exchange takes many times as long.
    let before = at.load(Ordering::Relaxed);
    if before == region {
        return;
    }
    at.store(region, Ordering::Relaxed);
    if Recorder::enters(before, region) {
        add(Costly::Entry, 1);
    }
    if IN_ROUND.load(Ordering::Relaxed)
        && PLAN.get().is_some_and(|plan| plan.has_steps)
        && let Some(state) = &mut *state()
    {
        state.recorder.crossed(region, INSTRUCTIONS.load(Ordering::Relaxed));
    }
}

/// In a round this is touched.
fn touches(how: impl FnOnce(&mut Touched) -> (u64, u64)) {
    if !IN_ROUND.load(Ordering::Relaxed) {
        return;
    }
    if let Some(state) = &mut *state() {
        let (lines, pages) = how(&mut state.touched);
        add(Costly::Line, lines);
        add(Costly::Page, pages);
    }
}

/// A block of instructions begins: where it lies, and how long it is.
extern "C" fn executed(_: c_uint, data: *mut c_void) {
    // SAFETY: what `translated` has made, which lives as long as QEMU and is not changed.
    let (at, bytes) = unsafe { *data.cast::<(u64, u64)>() };
    touches(|touched| touched.executes(at, bytes));
}

/// Something is loaded or stored.
extern "C" fn accessed(_: c_uint, access: u32, address: u64, _: *mut c_void) {
    // SAFETY: plain arithmetic on what QEMU has told of the access.
    let bytes = unsafe { 1u64 << qemu_plugin_mem_size_shift(access) };
    touches(|touched| touched.accesses(address, bytes));
}

/// Another page-table root is about to be loaded.
extern "C" fn loads_root(_: c_uint, _: *mut c_void) {
    touches(|touched| {
        touched.loads_root(PLAN.get().and_then(|plan| plan.touched) == Some(true));
        (0, 0)
    });
}

/// A lock is taken.
extern "C" fn took(_: c_uint, _: u32, address: u64, _: *mut c_void) {
    if !IN_ROUND.load(Ordering::Relaxed) {
        return;
    }
    if let Some(state) = &mut *state() {
        add(Costly::Within, state.held.takes(address).into());
        HOLDS.store(true, Ordering::Relaxed);
    }
}

/// The kernel stores something: it may be what gives a lock back.
extern "C" fn stored(_: c_uint, _: u32, address: u64, _: *mut c_void) {
    if !HOLDS.load(Ordering::Relaxed) {
        return;
    }
    if let Some(state) = &mut *state() {
        state.held.stores(address);
        HOLDS.store(!state.held.is_empty(), Ordering::Relaxed);
    }
}

/// The kernel moves something by a string instruction: it has loaded it, or stores it.
extern "C" fn moved(_: c_uint, access: u32, address: u64, _: *mut c_void) {
    if !IN_ROUND.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: plain arithmetic on what QEMU has told of the access.
    let (length, is_store) = unsafe { (1u64 << qemu_plugin_mem_size_shift(access), qemu_plugin_mem_is_store(access)) };
    let Some(state) = &mut *state() else { return };
    if !is_store {
        return state.copies.load(address);
    }
    let begins = state.copies.store(address, length, INSTRUCTIONS.load(Ordering::Relaxed));
    add(Costly::Copied, length);
    add(Costly::Copy, begins.into());
}

/// A mark is executed.
extern "C" fn marked(processor: c_uint, data: *mut c_void) {
    let Some(state) = &mut *state() else { return };
    let counts = std::array::from_fn(|at| COUNTS[at].load(Ordering::Relaxed));
    let region = REGIONS.get(processor as usize).map_or(0, |region| region.load(Ordering::Relaxed));
    let now = INSTRUCTIONS.load(Ordering::Relaxed);
    let mark = Mark::ALL[data as usize];
    if matches!(mark, Mark::RoundBegins) {
        state.touched.begin();
        state.held.begin();
    }
    HOLDS.store(false, Ordering::Relaxed);
    IN_ROUND.store(matches!(mark, Mark::RoundBegins), Ordering::Relaxed);
    if let Some(case) = state.recorder.mark(mark, region, now, counts)
        && let Err(error) = write!(state.out, "{case}")
    {
        eprintln!("plugin: {error}");
    }
}
