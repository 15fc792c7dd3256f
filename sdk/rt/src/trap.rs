//! The instructions that leave a program: the kernel call, the bound call, the plain call.

use abi::calls::{Kernel, LIGHT, LIGHT_COUNT, MBCF, number};
use abi::{Error, gate};

/// The calls that carry messages: the first and the last number.
const MESSAGES: (u64, u64) = (number("post_send"), number("post_answer"));

/// The kernel, as the stubs of [`abi::calls::stub`] want it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trap;

impl Kernel for Trap {
    #[inline]
    fn enter(&self, number: u64, arguments: [u64; 6]) -> Result<u64, Error> {
        let (status, value) = if (MESSAGES.0..=MESSAGES.1).contains(&number) {
            // These lose all registers, whatever comes of them.
            let [a, b, c, d, e, f] = arguments;
            let (status, words) = machine::message_call(number, [a, b, c, 0, d, e, f, 0, 0, 0]);
            (status, words[2])
        } else if (MBCF..LIGHT + LIGHT_COUNT as u64).contains(&number) {
            // So do these, by their own doors.
            machine::light_call(number, arguments)
        } else {
            machine::kernel_call(number, arguments)
        };
        if status == 0 { Ok(value) } else { Err(error_of(status)) }
    }

    #[inline]
    fn enter_light(&self, number: u64, arguments: [u64; 6]) -> Result<u64, Error> {
        let (status, value) = machine::light_call(number, arguments);
        if status == 0 { Ok(value) } else { Err(error_of(status)) }
    }
}

/// Calls gate `index` of the block that a binding leads to, through the gate at `via`.
#[inline]
pub(crate) fn bound_call(via: u64, slot: u64, index: u64, arguments: [u64; 6]) -> Result<[u64; 2], Error> {
    let (status, values) = machine::bound_call(via, slot, index, arguments);
    if status == 0 { Ok(values) } else { Err(error_of(status)) }
}

/// The same; besides, whether the call was made, however it ended.
pub(crate) fn bound_call_or_not(
    via: u64,
    slot: u64,
    index: u64,
    arguments: [u64; 6],
) -> (Result<[u64; 2], Error>, bool) {
    let (status, values) = machine::bound_call(via, slot, index, arguments);
    if status == 0 { (Ok(values), true) } else { (Err(error_of(status)), values[0] != abi::gate::NOT_MADE) }
}

/// Registers that a message takes, in and out.
pub(crate) const MESSAGE: usize = 12;

/// A call of a post's: the words go into `rdi rsi rdx r15 r10 r8 r9 r12 r13 r14`, and come back from there, `rbx` and `rbp`.
#[inline]
pub(crate) fn message_call(number: u64, words: [u64; 10]) -> Result<[u64; MESSAGE], Error> {
    let (status, words) = machine::message_call(number, words);
    if status == 0 { Ok(words) } else { Err(error_of(status)) }
}

/// `thread_next` from a program that does not sit in the seat (`sched::put_aside`).
#[inline]
pub(crate) fn put_aside(thread: u64, turn: u64, ns: u64) -> Result<(), Error> {
    let status = machine::next_call(thread, turn, ns);
    if status == 0 { Ok(()) } else { Err(error_of(status)) }
}

/// Number of the processor, where `rdtscp` is known to be there.
#[inline]
pub(crate) fn processor() -> u32 {
    machine::processor()
}

/// Words that a call on the caller's stack takes along there.
pub(crate) const WIDE_MAX: usize = 8;

/// The same on this thread's stack, with more words on it, where a C function has its seventh argument and those after it.
pub(crate) fn wide_call(slot: u64, index: u64, arguments: [u64; 6], more: &[u64; WIDE_MAX]) -> Result<[u64; 2], Error> {
    let (status, values) = machine::wide_call(slot, index, arguments, more);
    if status == 0 { Ok(values) } else { Err(error_of(status)) }
}

/// Calls the gate at an exported entry address by a plain `call`: no binding is needed, and none lends memory.
///
/// # Errors
/// `BadAddress` if `address` is not an entry address (it must lie outside everything that this program may execute, so
/// that the call cannot but fault into the kernel); what the kernel answers for the called program otherwise.
#[inline]
pub fn plain_call(address: u64, arguments: [u64; 6]) -> Result<[u64; 2], Error> {
    if !is_entry(address) {
        return Err(Error::BadAddress);
    }
    let (status, values) = machine::plain_call(address, arguments);
    if status == 0 { Ok(values) } else { Err(error_of(status)) }
}

/// What stands in for a gate where the calls of a client are plain ones; the slot is the entry address of the block.
pub(crate) fn plain_way(gate: u64) -> u64 {
    if is_entry(gate) { machine::plain_way() } else { machine::no_way() }
}

/// What stands in for a gate where calls are served elsewhere; the slot is the address of an `Elsewhere`.
pub(crate) fn elsewhere() -> u64 {
    machine::elsewhere()
}

/// Entry addresses are 16 bytes apart in an unmapped page of a text of the single space. A jump anywhere else would be an
/// end without an error; a jump into this program's own code would be worse.
fn is_entry(address: u64) -> bool {
    (abi::layout::SPACE_BASE..abi::layout::SPACE_END).contains(&address)
        && address.is_multiple_of(gate::GATE_STEP)
        && !machine::is_own_code(address)
}

/// This program's text, as it was loaded.
#[must_use]
pub fn own_text() -> &'static [u8] {
    machine::own_text()
}

/// Whether there may be code of this program at `address`.
#[must_use]
pub fn is_own_code(address: u64) -> bool {
    machine::is_own_code(address)
}

/// Out of the way of calls that go well.
#[cold]
#[inline(never)]
fn error_of(status: u64) -> Error {
    Error::from_word(status).unwrap_or(Error::NotSupported)
}

#[cfg(target_os = "musubi")]
mod machine {
    use core::arch::{asm, naked_asm};

    pub fn plain_way() -> u64 {
        plain as *const () as u64
    }

    pub fn no_way() -> u64 {
        refuse as *const () as u64
    }

    /// Called as a gate is, with the entry address of a block in `r11`.
    #[unsafe(naked)]
    extern "C" fn plain() {
        naked_asm!(
            "mov rdx, r12",
            "mov rcx, r13",
            "shl r14, 4",
            "add r11, r14",
            "push rax",
            "call r11",
            "pop rcx",
            "mov rdi, rax",
            "mov rsi, rdx",
            "ret",
        )
    }

    pub fn elsewhere() -> u64 {
        by_words as *const () as u64
    }

    /// Called as a gate is, with the address of an `Elsewhere` in `r11`: the words go onto the stack, and the values come from there.
    #[unsafe(naked)]
    extern "C" fn by_words() {
        naked_asm!(
            "push r9",
            "push r8",
            "push r13",
            "push r12",
            "push rsi",
            "push rdi",
            "mov rdi, r11",
            "mov rsi, r14",
            "mov rdx, rsp",
            "mov rbp, rsp",
            "and rsp, -16",
            "call {call}",
            "mov rsp, rbp",
            "mov r10, rax",
            "pop rdi",
            "pop rsi",
            "add rsp, 32",
            "ret",
            call = sym crate::elsewhere::call,
        )
    }

    #[unsafe(naked)]
    extern "C" fn refuse() {
        naked_asm!("mov r10d, {why}", "xor edi, edi", "xor esi, esi", "ret", why = const abi::Error::BadAddress.word())
    }

    // SAFETY: the linker defines both (program.ld); only their addresses are used.
    unsafe extern "C" {
        /// Where this program's code ends (program.ld).
        static musubi_text_end: u8;
        /// Where its text begins: the linker's symbol for the headers.
        static __ehdr_start: u8;
    }

    /// Whether there may be code of this program at `address`.
    #[inline]
    pub fn is_own_code(address: u64) -> bool {
        let end = (&raw const musubi_text_end) as u64;
        let first = (&raw const __ehdr_start) as u64;
        (first..end.next_multiple_of(abi::layout::PAGE)).contains(&address)
    }

    pub fn own_text() -> &'static [u8] {
        let end = (&raw const musubi_text_end) as u64;
        let first = (&raw const __ehdr_start) as u64;
        crate::section::view(first, end - first).unwrap_or(&[])
    }

    #[inline]
    pub fn kernel_call(number: u64, a: [u64; 6]) -> (u64, u64) {
        let (status, value);
        // SAFETY: the kernel keeps every register but rax, rdx, rcx and r11, does not use this stack, and touches memory
        // only as the call says, with this domain's rights.
        unsafe {
            asm!(
                "syscall",
                inlateout("rax") number => status,
                inlateout("rdx") a[2] => value,
                in("rdi") a[0], in("rsi") a[1], in("r10") a[3], in("r8") a[4], in("r9") a[5],
                lateout("rcx") _, lateout("r11") _,
                options(nostack),
            );
        }
        (status, value)
    }

    /// To the compiler a procedure.
    #[inline]
    pub fn light_call(number: u64, a: [u64; 6]) -> (u64, u64) {
        let (status, value);
        // SAFETY: as above, with the registers that abi::calls names for light calls lost.
        unsafe {
            asm!(
                "syscall",
                inlateout("rax") number => status,
                inlateout("rdx") a[2] => value,
                inlateout("rdi") a[0] => _, inlateout("rsi") a[1] => _, inlateout("r10") a[3] => _,
                inlateout("r8") a[4] => _, inlateout("r9") a[5] => _,
                lateout("rcx") _, lateout("r11") _,
                options(nostack),
            );
        }
        (status, value)
    }

    /// The words go into registers, and come back from there (`abi::post`).
    #[inline]
    pub fn message_call(number: u64, [a, b, c, head, d, e, f, g, h, i]: [u64; 10]) -> (u64, [u64; super::MESSAGE]) {
        let (status, to, user, head_out, task, thread, text);
        let (d_out, e_out, f_out, g_out, h_out, i_out);
        // SAFETY: abi::post: every register but rsp comes back as the message has it; what the compiler keeps is declared lost, or
        // saved here.
        unsafe {
            asm!(
                "push rbx",
                "push rbp",
                "syscall",
                "mov rcx, rbx",
                "mov r11, rbp",
                "pop rbp",
                "pop rbx",
                inlateout("rax") number => status,
                inlateout("rdi") a => to,
                inlateout("rsi") b => user,
                inlateout("rdx") c => head_out,
                inlateout("r15") head => task,
                inlateout("r10") d => d_out,
                inlateout("r8") e => e_out,
                inlateout("r9") f => f_out,
                inlateout("r12") g => g_out,
                inlateout("r13") h => h_out,
                inlateout("r14") i => i_out,
                lateout("rcx") thread,
                lateout("r11") text,
                clobber_abi("C"),
            );
        }
        (status, [to, user, head_out, task, d_out, e_out, f_out, g_out, h_out, i_out, thread, text])
    }

    /// `thread_next` as a procedure: with turn 0 the kernel keeps no more than one does.
    #[inline]
    pub fn next_call(thread: u64, turn: u64, ns: u64) -> u64 {
        let number = abi::sched::THREAD_NEXT;
        let status;
        // SAFETY: abi::sched: what a C function may lose is declared lost; this stack is not used.
        unsafe {
            asm!(
                "syscall",
                inlateout("rax") number => status,
                inlateout("rdi") thread => _, inlateout("rsi") turn => _, inlateout("rdx") ns => _,
                clobber_abi("sysv64"),
                options(nostack),
            );
        }
        status
    }

    /// Number of the processor, where `rdtscp` is known to be there.
    #[inline]
    pub fn processor() -> u32 {
        let mut number = 0;
        // SAFETY: reads a counter and a register of the processor's.
        let _ = unsafe { core::arch::x86_64::__rdtscp(&mut number) };
        number
    }

    #[inline]
    pub fn bound_call(via: u64, slot: u64, index: u64, a: [u64; 6]) -> (u64, [u64; 2]) {
        let (status, first, second);
        // SAFETY: abi::gate: rsp comes back, everything else is saved here or declared lost; what the compiler keeps in
        // registers across this it saves on this program's own stack, so nothing of it reaches the callee. The callee
        // works with the rights that its own ACL entries give it.
        unsafe {
            asm!(
                "push rbx",
                "push rbp",
                "call rax",
                "pop rbp",
                "pop rbx",
                inlateout("rax") via => _,
                inlateout("r11") slot => _,
                inlateout("r14") index => _,
                inlateout("rdi") a[0] => first,
                inlateout("rsi") a[1] => second,
                inlateout("r12") a[2] => _, inlateout("r13") a[3] => _,
                inlateout("r8") a[4] => _, inlateout("r9") a[5] => _,
                lateout("r10") status, lateout("r15") _,
                clobber_abi("C"),
            );
        }
        (status, [first, second])
    }

    pub fn wide_call(slot: u64, index: u64, a: [u64; 6], more: &[u64; super::WIDE_MAX]) -> (u64, [u64; 2]) {
        let (status, first, second);
        // SAFETY: as for a bound call. The callee gets this stack from below the words on, which are its own to change, as
        // in a call of a C function; what it does above them is the hazard of this mode (CUBIX-38), which this program has
        // asked for.
        unsafe {
            asm!(
                "push rbx",
                "push rbp",
                "mov rbp, rsp",
                "sub rsp, {room} + 16",
                "and rsp, -16",
                "mov [rsp + {room}], rbp",
                "mov ecx, {words}",
                "2:",
                "mov rbx, [rdx + rcx * 8 - 8]",
                "mov [rsp + rcx * 8 - 8], rbx",
                "dec ecx",
                "jnz 2b",
                "call rax",
                "mov rsp, [rsp + {room}]",
                "pop rbp",
                "pop rbx",
                words = const super::WIDE_MAX,
                room = const super::WIDE_MAX * 8,
                inlateout("rax") abi::gate::ENTER => _,
                inlateout("rdx") more.as_ptr() => _,
                inlateout("r11") slot => _,
                inlateout("r14") index => _,
                inlateout("rdi") a[0] => first,
                inlateout("rsi") a[1] => second,
                inlateout("r12") a[2] => _, inlateout("r13") a[3] => _,
                inlateout("r8") a[4] => _, inlateout("r9") a[5] => _,
                lateout("r10") status, lateout("r15") _,
                clobber_abi("C"),
            );
        }
        (status, [first, second])
    }

    #[inline]
    pub fn plain_call(address: u64, a: [u64; 6]) -> (u64, [u64; 2]) {
        let (status, first, second);
        // SAFETY: as for a bound call; the address is not in this program, so the fetch faults and the kernel makes
        // the crossing (or ends the program).
        unsafe {
            asm!(
                "call rax",
                inlateout("rax") address => first,
                inlateout("rdx") a[2] => second,
                inlateout("rcx") a[3] => _,
                lateout("r10") status,
                inlateout("rdi") a[0] => _, inlateout("rsi") a[1] => _,
                inlateout("r8") a[4] => _, inlateout("r9") a[5] => _,
                clobber_abi("C"),
            );
        }
        (status, [first, second])
    }
}

#[cfg(not(target_os = "musubi"))]
use crate::host as machine;
