//! The server's side of a call: gates, and what stands between a gate and a Rust function.

use abi::calls::stub;
use abi::{AclEntry, Error, Rights, rights};
use alloc::boxed::Box;

use crate::Trap;
pub use crate::arguments::Arguments;

/// Who called, told by the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Caller {
    /// Task of the calling thread (which need not own the calling text).
    pub task: u64,
    pub user: u64,
    /// The calling text.
    pub text: u64,
    /// The binding's argument section; 0 for a plain call.
    pub args_base: u64,
    pub args_len: u64,
    /// Of the block of gates.
    pub cookie: u64,
    /// Of the gate in its block.
    pub index: u64,
}

impl Caller {
    /// The task that owns the calling text: who is to be held to account for the call.
    ///
    /// # Errors
    /// `NotFound` if the text has ended meanwhile.
    pub fn text_task(&self) -> Result<u64, Error> {
        crate::section::info(self.text).map(|info| info.owner)
    }
}

/// Two words, as a C function returns them in `rax` and `rdx`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Values(pub u64, pub u64);

impl Values {
    /// The pair (status, value) of a result.
    #[must_use]
    pub fn of(result: Result<u64, Error>) -> Values {
        match result {
            Ok(value) => Values(0, value),
            Err(e) => Values(e.told().word(), 0),
        }
    }
}

/// What `derive` makes of an interface: decodes a call and runs the method.
pub trait Skeleton: Sync {
    fn dispatch(&self, caller: &Caller, words: &[u64; 6]) -> Values;
}

/// A block of exported gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    address: u64,
    count: u64,
}

/// Everybody may call.
pub const ANYBODY: AclEntry =
    AclEntry { principal: rights::principal::ANY, rights: Rights::CALL.bits(), id: 0, text: rights::ANY_TEXT };

impl Gates {
    /// Exports `count` gates that lead to `skeleton`. Nobody may call them before [`Gates::admit`].
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn export(skeleton: impl Skeleton + 'static, count: u64) -> Result<Gates, Error> {
        Gates::export_with(skeleton, count, 0)
    }

    /// The same with flags of `abi::gate`.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn export_with(skeleton: impl Skeleton + 'static, count: u64, flags: u64) -> Result<Gates, Error> {
        // Never freed: a call may be under way for as long as the program lives.
        let service: &'static Service = Box::leak(Box::new(Service(Box::new(skeleton))));
        let cookie = core::ptr::from_ref(service) as u64;
        let address = stub::gate_create(&Trap, machine::enter as *const () as u64, count, cookie, flags)?;
        Ok(Gates { address, count })
    }

    /// Entry address of the first gate: what is published.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Adds an entry to the ACL of this program's text, where the right `call` decides who may come in.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn admit(&self, entry: &AclEntry) -> Result<(), Error> {
        crate::section::grant(crate::section::info(self.address)?.base, entry)
    }

    /// Takes the gates back.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn close(self) -> Result<(), Error> {
        stub::gate_delete(&Trap, self.address).map(drop)
    }
}

/// What a cookie points to.
struct Service(Box<dyn Skeleton>);

/// Called by the first instructions of a gate.
pub(crate) extern "C" fn dispatch(caller: &Caller, words: &[u64; 6]) -> Values {
    // SAFETY: the kernel gives back the cookie of the block, which `export` made from a reference that never ends; no
    // caller can choose it.
    let service = unsafe { &*(caller.cookie as *const Service) };
    service.0.dispatch(caller, words)
}

#[cfg(target_os = "musubi")]
mod machine {
    /// Where the kernel enters (abi::gate): makes a [`super::Caller`] and the six words on the callee's stack and
    /// calls `dispatch`. Returns to the doorstep; so plain and bound calls look the same.
    #[unsafe(naked)]
    pub extern "C" fn enter() {
        core::arch::naked_asm!(
            "push rbp",
            "mov rbp, rsp",
            "sub rsp, 112",
            "mov [rsp], rdi",
            "mov [rsp + 8], rsi",
            "mov [rsp + 16], rdx",
            "mov [rsp + 24], rcx",
            "mov [rsp + 32], r8",
            "mov [rsp + 40], r9",
            "mov [rsp + 48], r10",
            "mov [rsp + 56], r14",
            "mov [rsp + 64], r11",
            "mov [rsp + 72], rbx",
            "mov [rsp + 80], r12",
            "mov [rsp + 88], r13",
            "mov [rsp + 96], rax",
            "lea rdi, [rsp + 48]",
            "mov rsi, rsp",
            "call {dispatch}",
            "leave",
            "ret",
            dispatch = sym super::dispatch,
        )
    }
}

#[cfg(not(target_os = "musubi"))]
mod machine {
    pub extern "C" fn enter() {}
}

/// A value that travels in one register.
pub trait Word: Sized {
    /// `None` if no value of the type looks like this.
    fn from_word(word: u64) -> Option<Self>;
    fn into_word(self) -> u64;
}

macro_rules! words {
    ($($ty:ty),*) => { $(
        impl Word for $ty {
            #[inline]
            fn from_word(word: u64) -> Option<$ty> {
                <$ty>::try_from(word).ok()
            }

            #[inline]
            fn into_word(self) -> u64 {
                u64::from(self)
            }
        }
    )* };
}

words!(u64, u32, u16, u8);

impl Word for i64 {
    #[inline]
    fn from_word(word: u64) -> Option<i64> {
        Some(word.cast_signed())
    }

    #[inline]
    fn into_word(self) -> u64 {
        self.cast_unsigned()
    }
}

impl Word for i32 {
    #[inline]
    fn from_word(word: u64) -> Option<i32> {
        i32::try_from(word.cast_signed()).ok()
    }

    #[inline]
    fn into_word(self) -> u64 {
        i64::from(self).cast_unsigned()
    }
}

impl Word for bool {
    #[inline]
    fn from_word(word: u64) -> Option<bool> {
        match word {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    #[inline]
    fn into_word(self) -> u64 {
        u64::from(self)
    }
}

impl Word for () {
    #[inline]
    fn from_word(_: u64) -> Option<()> {
        Some(())
    }

    #[inline]
    fn into_word(self) -> u64 {
        0
    }
}

/// What an interface says about itself.
#[derive(Clone, Copy, Debug)]
pub struct Interface {
    pub name: &'static str,
    pub methods: &'static [Method],
}

/// A method: its gate's index is its place in the interface.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    pub name: &'static str,
    /// Names and types.
    pub arguments: &'static [(&'static str, &'static str)],
    pub returns: Returns,
}

/// What the two words of an answer are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// 0 or the number of an error, and a value.
    Status,
    /// Two values.
    Pair,
}
