//! Marks for who counts a machine's instructions from outside: `nop`s with a number in them. Without such a one they do
//! nothing.

macro_rules! marks {
    ($($(#[doc = $doc:literal])+ $name:ident $number:literal;)*) => { $(
        $(#[doc = $doc])+
        #[inline(always)]
        pub fn $name() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: an instruction that does nothing: nopl disp32(%rax,%rax). It counts as touching memory, so that what
            // stands before it in the source is done before it.
            unsafe {
                core::arch::asm!(
                    ".byte 0x0f, 0x1f, 0x84, 0x00, {number}, 0x00, 0x5a, 0xa5",
                    number = const $number,
                    options(nostack, preserves_flags),
                );
            }
        }
    )* };
}

marks! {
    /// A case begins: its rounds follow.
    case_begins 0x10;
    /// A round begins.
    round_begins 0x11;
    /// The round is over.
    round_ends 0x12;
    /// The case is over.
    case_ends 0x13;
}
