//! The server's side of a call: gates, and what stands between a gate and a Rust function.

use abi::calls::stub;
use abi::gate::{GATES_MAX, Record};
use abi::{AclEntry, Error, Rights, rights};
use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::Trap;
pub use crate::arguments::{Read, ReadArray, TEXT_MAX, Text, Write, WriteArray, arguments};
use crate::post::Post;
use crate::serve::{Offered, Ways};

/// Who called, told by the kernel: `task`, `user`, `text` and the other fields of [`Record`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Caller(pub Record);

impl core::ops::Deref for Caller {
    type Target = Record;

    fn deref(&self) -> &Record {
        &self.0
    }
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

/// What `derive` makes of an interface: decodes a call of gate `index` and runs the method.
pub trait Skeleton: Sync {
    /// Which interface it is of, in messages (below `rt::request::IDENTITIES`).
    const IDENTITY: u32 = 0;

    fn dispatch(&self, caller: &Caller, index: u64, words: &[u64; 6]) -> Values;
}

/// A block of exported gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    address: u64,
    count: u64,
    post: Option<Post>,
}

/// Everybody may call, and read and fetch the code with his own rights: with protection keys the gate then crosses without
/// the kernel.
pub const ANYBODY: AclEntry = AclEntry {
    principal: rights::principal::ANY,
    rights: Rights::CALL.union(Rights::READ).union(Rights::EXECUTE).bits(),
    id: 0,
    text: rights::ANY_TEXT,
};

/// Everybody may call, and nothing else: the kernel makes the calls.
pub const ANYBODY_BY_KERNEL: AclEntry = AclEntry { rights: Rights::CALL.bits(), ..ANYBODY };

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
    pub fn export_with<S: Skeleton + 'static>(skeleton: S, count: u64, flags: u64) -> Result<Gates, Error> {
        Gates::export_of(Box::leak(Box::new(skeleton)), count, flags)
    }

    /// A call may be under way for as long as the program lives: so the object is never freed.
    fn export_of<S: Skeleton>(object: &'static S, count: u64, flags: u64) -> Result<Gates, Error> {
        let object = core::ptr::from_ref(object) as u64;
        let bodies = (0..count.min(GATES_MAX)).map(|index| body_of::<S>(index) as *const () as u64);
        let service: &'static [u64] = Vec::leak([object].into_iter().chain(bodies).collect());
        let cookie = service[1..].as_ptr() as u64;
        let address = stub::gate_create(&Trap, machine::enter as *const () as u64, count, cookie, flags)?;
        Ok(Gates { address, count, post: None })
    }

    /// The same with one gate more, which leads to further ways: lines and a post, by which threads of this program serve callers.
    /// Methods can then not ask the kernel about their caller's rights (`abi::gate::record::BY_LINE`): what a caller
    /// passes by pointer has to lie in its argument section.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn export_by<S: Skeleton + 'static, const METHODS: u64>(skeleton: S, ways: Ways) -> Result<Gates, Error> {
        // On a thread of this program: a caller's may not change who may come in.
        crate::guard::prepare()?;
        crate::spare::keep()?;
        let offered: &'static _ = Box::leak(Box::new(Offered::<S, METHODS>::new(skeleton, &ways)));
        let gates = Gates::export_of(offered, METHODS + 1, 0)?;
        offered.open()?;
        Ok(Gates { post: ways.post, ..gates })
    }

    /// Exports one gate that leads to a function of the C convention with more than six arguments, as it is: callers bind on
    /// their own stack, and the seventh argument and further ones are found there (CUBIX-30). Who calls it otherwise is refused.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn export_function(function: impl Function) -> Result<Gates, Error> {
        let (entry, cookie) = (machine::enter_function as *const () as u64, function.address());
        let address = stub::gate_create(&Trap, entry, 1, cookie, abi::gate::flag::CALLER_STACK)?;
        Ok(Gates { address, count: 1, post: None })
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

    /// Adds an entry to the ACL of this program's text, where the right `call` decides who may come in, and (with that right)
    /// to the post's, if there is one.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn admit(&self, entry: &AclEntry) -> Result<(), Error> {
        crate::section::grant(crate::section::info(self.address)?.base, entry)?;
        self.post.map_or(Ok(()), |post| crate::serve::admit(post, entry))
    }

    /// Takes the gates back.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn close(self) -> Result<(), Error> {
        stub::gate_delete(&Trap, self.address).map(drop)
    }
}

/// A function of the C convention that takes more words than there are registers for.
pub trait Function: sealed::Function {
    fn address(&self) -> u64;
}

mod sealed {
    pub trait Function {}
}

macro_rules! functions {
    ($(($($word:ty),*))*) => { $(
        impl sealed::Function for extern "C" fn($($word),*) -> u64 {}
        impl Function for extern "C" fn($($word),*) -> u64 {
            fn address(&self) -> u64 {
                *self as *const () as u64
            }
        }
    )* };
}

functions! {
    (u64, u64, u64, u64, u64, u64, u64)
    (u64, u64, u64, u64, u64, u64, u64, u64)
    (u64, u64, u64, u64, u64, u64, u64, u64, u64)
    (u64, u64, u64, u64, u64, u64, u64, u64, u64, u64)
    (u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64)
    (u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64)
    (u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64)
    (u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64)
}

/// The body of one gate: six words, who calls, and the gate's index. A cookie points to the bodies of a block, behind the
/// address of the object that they are methods of.
type Body = extern "C" fn(u64, u64, u64, u64, u64, u64, &Caller, u64) -> Values;

fn service<S: Skeleton>(caller: &Caller) -> &S {
    // SAFETY: the kernel gives back the cookie of the block, which `export` made from a reference that never ends; no
    // caller can choose it.
    unsafe { &*(*(caller.cookie as *const *const S).sub(1)) }
}

/// The body of a gate whose index is known when it is compiled: nothing is left to be looked up.
extern "C" fn known<S: Skeleton, const INDEX: u64>(
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    e: u64,
    f: u64,
    caller: &Caller,
    _: u64,
) -> Values {
    service::<S>(caller).dispatch(caller, INDEX, &[a, b, c, d, e, f])
}

extern "C" fn any<S: Skeleton>(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, caller: &Caller, index: u64) -> Values {
    service::<S>(caller).dispatch(caller, index, &[a, b, c, d, e, f])
}

fn body_of<S: Skeleton>(index: u64) -> Body {
    match index {
        0 => known::<S, 0>,
        1 => known::<S, 1>,
        2 => known::<S, 2>,
        3 => known::<S, 3>,
        4 => known::<S, 4>,
        5 => known::<S, 5>,
        6 => known::<S, 6>,
        7 => known::<S, 7>,
        _ => any::<S>,
    }
}

#[cfg(target_os = "musubi")]
mod machine {
    /// Where a gate is entered (abi::gate): the six words as a C function has them, who calls, and the index. Goes back
    /// the way that it was told.
    #[unsafe(naked)]
    pub extern "C" fn enter() {
        core::arch::naked_asm!(
            "mov rdx, r12",
            "mov rcx, r13",
            "mov rax, [rbx + {cookie}]",
            "push r14",
            "push rbx",
            "call [rax + r14 * 8]",
            "jmp [rbx + {back}]",
            cookie = const core::mem::offset_of!(abi::gate::Record, cookie),
            back = const core::mem::offset_of!(abi::gate::Record, back),
        )
    }

    /// The same for a function that finds further words on the stack: the kernel has put the doorstep three words below
    /// where the caller's `call` has left its return address, and above that lie the words. Only on the caller's stack,
    /// where the record has no gates: on this program's own, the function would take its callers' frames for its arguments.
    #[unsafe(naked)]
    pub extern "C" fn enter_function() {
        core::arch::naked_asm!(
            "cmp qword ptr [rbx + {gates}], 0",
            "jne 2f",
            "mov rdx, r12",
            "mov rcx, r13",
            "mov r12, [rsp + 24]",
            "add rsp, 32",
            "call [rbx + {cookie}]",
            "push r12",
            "sub rsp, 24",
            "mov rdx, rax",
            "xor eax, eax",
            "jmp [rbx + {back}]",
            "2:",
            "mov eax, {refused}",
            "xor edx, edx",
            "jmp [rbx + {back}]",
            gates = const core::mem::offset_of!(abi::gate::Record, gates),
            cookie = const core::mem::offset_of!(abi::gate::Record, cookie),
            back = const core::mem::offset_of!(abi::gate::Record, back),
            refused = const abi::Error::NotSupported.word(),
        )
    }
}

#[cfg(not(target_os = "musubi"))]
mod machine {
    pub extern "C" fn enter() {}
    pub extern "C" fn enter_function() {}
}

/// The body that a cookie leads to, for the tests of interfaces on another system.
#[cfg(not(target_os = "musubi"))]
pub(crate) fn dispatch(caller: &Caller, index: u64, w: &[u64; 6]) -> Values {
    // SAFETY: as in `service`; the gate's index is below the count of its block.
    let body = unsafe { *(caller.cookie as *const Body).add(index as usize) };
    body(w[0], w[1], w[2], w[3], w[4], w[5], caller, index)
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
