//! Marks for who counts a machine's instructions from outside: `nop`s with a number in them. Without such a one they do
//! nothing.

/// The instruction of a mark, for code that is put together elsewhere: nopl disp32(%rax,%rax).
#[must_use]
pub const fn bytes(number: u8) -> [u8; 8] {
    [0x0f, 0x1f, 0x84, 0x00, number, 0x00, 0x5a, 0xa5]
}

macro_rules! marks {
    ($($(#[doc = $doc:literal])+ $name:ident $constant:ident $number:literal;)*) => { $(
        #[doc = concat!("The number of [`", stringify!($name), "`].")]
        pub const $constant: u8 = $number;

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
    case_begins CASE_BEGINS 0x10;
    /// A round begins.
    round_begins ROUND_BEGINS 0x11;
    /// The round is over.
    round_ends ROUND_ENDS 0x12;
    /// The case is over.
    case_ends CASE_ENDS 0x13;
}
