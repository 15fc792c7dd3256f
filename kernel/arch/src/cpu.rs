//! What the processor offers and how it is set: features, control registers, model-specific registers.

use abi::info::feature;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};
use x86_64::registers::control::{Cr0, Cr0Flags, Cr3, Cr4, Cr4Flags};
use x86_64::registers::model_specific::{Efer, EferFlags};
use x86_64::registers::xcontrol::{XCr0, XCr0Flags};

/// Processors that the kernel keeps state for.
pub const PROCESSORS_MAX: usize = 32;

static FEATURES: AtomicU64 = AtomicU64::new(0);

/// XCR0: x87, SSE and AVX only. No key register, no AVX-512 (pitfalls, H16).
pub const VECTOR_STATE: u64 = 7;

/// Union of [`feature`] bits that the machine has and the user did not hide.
#[inline]
pub fn features() -> u64 {
    FEATURES.load(Ordering::Relaxed)
}

/// Whether all of these features are there.
#[inline]
pub fn has(bits: u64) -> bool {
    features() & bits == bits
}

/// Finds the features once, on the first processor.
pub(crate) fn detect() {
    let cpuid = raw_cpuid::CpuId::new();
    let mut found = 0;
    let mut vectors = false;
    let mut note = |there: bool, bit: u64| {
        if there {
            found |= bit;
        }
    };
    if let Some(f) = cpuid.get_feature_info() {
        note(f.has_x2apic(), feature::X2APIC);
        note(f.has_pcid(), feature::PCID);
        vectors = f.has_avx() && f.has_xsave();
        note(vectors, feature::AVX);
    }

    if let Some(f) = cpuid.get_extended_processor_and_feature_identifiers() {
        note(f.has_rdtscp(), feature::RDTSCP);
        note(f.has_1gib_pages(), feature::PAGES_1G);
    }
    if let Some(f) = cpuid.get_extended_feature_info() {
        note(f.has_smep(), feature::SMEP);
        note(f.has_smap(), feature::SMAP);
        // The gate clears vector registers by an AVX instruction; no processor has keys without it.
        // And with transactions the key register would be written where no byte of the code shows it (core/scan).
        note(f.has_pku() && vectors && !f.has_rtm(), feature::PKU);
        note(f.has_fsgsbase(), feature::FSGSBASE);
        note(f.has_umip(), feature::UMIP);
    }
    let leaf = |leaf| {
        (raw_cpuid::native_cpuid::cpuid_count(leaf & 0x8000_0000, 0).eax >= leaf)
            .then(|| raw_cpuid::native_cpuid::cpuid_count(leaf, 0))
    };
    let intel = leaf(7).is_some_and(|found| found.edx & 1 << 26 != 0);
    let amd = leaf(0x8000_0008).is_some_and(|found| found.ebx & 1 << 12 != 0);
    note(intel || amd, feature::IBPB);
    FEATURES.store(found, Ordering::Relaxed);
}

/// What this processor lets programs learn of each other by accesses that it makes on trial and takes back, in a line for people
/// (docs/decisions/0013). Protection keys, and page tables where the first is said, do not stop those.
pub fn speculation() -> &'static str {
    let cpuid = raw_cpuid::CpuId::new();
    let vendor = cpuid.get_vendor_info();
    let stops = vendor.is_some_and(|vendor| ["AuthenticAMD", "HygonGenuine"].contains(&vendor.as_str()));
    const SAID: u32 = 1 << 29;
    let told =
        cpuid.get_extended_feature_info().is_some() && raw_cpuid::native_cpuid::cpuid_count(7, 0).edx & SAID != 0;
    const ARCH_CAPABILITIES: u32 = 0x10a;
    const RDCL_NO: u64 = 1;
    // SAFETY: CPUID says that the register exists.
    if stops || told && unsafe { rdmsr(ARCH_CAPABILITIES) } & RDCL_NO != 0 {
        "keys do not stop it, page tables do: what must stay secret belongs in secret sections"
    } else {
        "this processor reads any memory on trial (RDCL_NO=0): run nobody's programs but your own"
    }
}

/// Sets this processor's control registers: write protection, SMEP, SMAP, UMIP, no-execute, vector state.
pub(crate) fn set_up() {
    // SAFETY: long mode is on; every bit set here is one that CPUID says exists, and none changes the meaning of
    // memory that Rust uses. The kernel never touches user pages through user mappings, so SMAP and SMEP are free.
    unsafe {
        Cr0::update(|f| {
            f.insert(Cr0Flags::WRITE_PROTECT | Cr0Flags::NUMERIC_ERROR | Cr0Flags::ALIGNMENT_MASK);
        });
        Efer::update(|f| f.insert(EferFlags::SYSTEM_CALL_EXTENSIONS | EferFlags::NO_EXECUTE_ENABLE));
        Cr4::update(|f| {
            // What firmware has left on is off: what the gate rests on knows these alone.
            *f &= Cr4Flags::PHYSICAL_ADDRESS_EXTENSION | Cr4Flags::L5_PAGING | Cr4Flags::MACHINE_CHECK_EXCEPTION;
            f.insert(Cr4Flags::PAGE_GLOBAL | Cr4Flags::OSFXSR | Cr4Flags::OSXMMEXCPT_ENABLE);
            for (bit, flag) in [
                (feature::SMEP, Cr4Flags::SUPERVISOR_MODE_EXECUTION_PROTECTION),
                (feature::SMAP, Cr4Flags::SUPERVISOR_MODE_ACCESS_PREVENTION),
                (feature::UMIP, Cr4Flags::USER_MODE_INSTRUCTION_PREVENTION),
                (feature::AVX, Cr4Flags::OSXSAVE),
                (feature::PKU, Cr4Flags::PROTECTION_KEY_USER),
            ] {
                if has(bit) {
                    f.insert(flag);
                }
            }
        });
        if has(feature::AVX) {
            XCr0::write(XCr0Flags::from_bits_retain(VECTOR_STATE));
        }
        crate::machine_check::set_up();
        crate::percpu::set_flags();
        // AC may be set from boot code; with SMAP it would open user pages.
        if has(feature::SMAP) {
            asm!("clac", options(nomem, nostack));
        }
    }
}

/// Branches are predicted anew from here on, whatever programs have had them learn (pitfalls, H17); where the processor can do that.
pub fn forget_branches() {
    const PREDICTOR_COMMAND: u32 = 0x49;
    const BARRIER: u64 = 1;
    if has(feature::IBPB) {
        // SAFETY: CPUID says that the register exists; what is forgotten is no state that code can see.
        unsafe { wrmsr(PREDICTOR_COMMAND, BARRIER) };
    }
}

/// Makes a page-table root current; flushes what was cached of the old one.
///
/// The root must come from [`crate::tables`], whose tables all share the kernel's upper half.
#[inline]
pub fn load_root(root: u64) {
    // SAFETY: every root made by `tables` maps the kernel, so execution continues.
    unsafe { asm!("mov cr3, {}", in(reg) root, options(nostack, preserves_flags)) }
}

/// The current page-table root.
pub fn root() -> u64 {
    Cr3::read().0.start_address().as_u64()
}

/// Forgets everything cached of the current view on this processor.
pub fn flush_tlb() {
    load_root(root());
}

/// Forgets what is cached of one page of the current view on this processor.
pub fn forget_page(address: u64) {
    // SAFETY: a translation that is forgotten is looked up again.
    unsafe { core::arch::asm!("invlpg [{}]", in(reg) address, options(nostack, preserves_flags)) };
}

/// Cycles since reset.
#[inline]
pub fn tsc() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// A pause in a spin loop.
#[inline]
pub fn relax() {
    core::hint::spin_loop();
}

/// TF, DF, NT and AC: flags of programs that must not be found set in the kernel.
pub const FLAGS_LEFT: u64 = 0x4_4500;

/// The processor's flags.
pub fn flags() -> u64 {
    let flags: u64;
    // SAFETY: reads a register, by way of a word below the stack pointer, which the kernel's code leaves free.
    unsafe { asm!("pushfq", "pop {}", out(reg) flags, options(preserves_flags)) }
    flags
}

/// Waits for an interrupt with interrupts on, then turns them off again. For a processor that idles or dozes: interrupts
/// taken here are noted in the per-processor block and served by the caller.
pub fn idle_wait() {
    // SAFETY: `sti; hlt` is atomic, handlers entered from kernel mode only note the vector.
    on_this_stack(|| unsafe { asm!("sti", "hlt", "cli") });
}

/// Interrupts are taken on the kernel's own stack during `does`, and not where the registers of the thread are that ran last.
#[inline(always)]
fn on_this_stack(does: impl FnOnce()) {
    let place = crate::percpu::word::<{ core::mem::offset_of!(crate::percpu::Block, entry_stack) }>() as *mut u64;
    // SAFETY: the word of this processor's TSS, which it reads with the next interrupt; interrupts are off here. Below the stack
    // pointer nothing is in use, and what an interrupt pushes there it takes away again.
    unsafe {
        let before = place.read_unaligned();
        let here: u64;
        asm!("lea {0}, [rsp - 512]", "and {0}, -16", out(reg) here, options(nomem, nostack));
        place.write_unaligned(here);
        does();
        place.write_unaligned(before);
    }
}

/// Lets pending interrupts in for one instruction; they are noted as in [`idle_wait`]. No locks may be held.
pub fn let_interrupts_in() {
    // SAFETY: as for `idle_wait`; the instruction after `sti` still runs with interrupts off, the one after it does not.
    on_this_stack(|| unsafe { asm!("sti", "nop", "nop", "cli") });
}

/// Stops this processor for good.
pub fn stop() -> ! {
    loop {
        // SAFETY: nothing runs after this.
        unsafe { asm!("cli", "hlt", options(nomem, nostack)) }
    }
}

/// Writes a model-specific register.
///
/// # Safety
/// The register must exist and the value must keep what the kernel rests on.
pub(crate) unsafe fn wrmsr(register: u32, value: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("wrmsr", in("ecx") register, in("eax") value as u32, in("edx") (value >> 32) as u32,
             options(nostack, preserves_flags));
    }
}

/// Reads a model-specific register.
///
/// # Safety
/// The register must exist.
pub(crate) unsafe fn rdmsr(register: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("rdmsr", in("ecx") register, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}

const FS_BASE: u32 = 0xc000_0100;
const USER_GS_BASE: u32 = 0xc000_0102;

/// Sets the FS and GS bases that user code will see. Both must be canonical lower-half addresses.
pub fn set_segment_bases(fs: u64, gs: u64) {
    debug_assert!(fs < 1 << 47 && gs < 1 << 47);
    // SAFETY: canonical; while the kernel runs, the user's GS base waits in KERNEL_GS_BASE.
    unsafe {
        wrmsr(FS_BASE, fs);
        wrmsr(USER_GS_BASE, gs);
    }
}

/// The faulting address of the last page fault on this processor.
pub(crate) fn fault_address() -> u64 {
    let address: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, cr2", out(reg) address, options(nomem, nostack, preserves_flags)) }
    address
}
