//! The client's side of a call: a text bound to a block of gates.

use abi::calls::stub;
use abi::gate::{Binding, ENTER, GATE, grade};
use abi::rights::{ANY_TEXT, principal};
use abi::{AclEntry, Error, Rights, gate as contract};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::marker::PhantomData;
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::elsewhere::{self, Elsewhere};
use crate::lend::{Loan, Loans, Slice, marks};
use crate::line::{LINE_LEN, Line};
use crate::post::Post;
use crate::serve::opener;
use crate::trap::WIDE_MAX;
use crate::{Trap, trap};

/// Length of an argument section where the client asks for none in particular.
pub const ARGS_DEFAULT: u64 = 64 << 10;

/// A bound block of gates, with an argument section from which memory is lent to the called program.
#[derive(Debug)]
pub struct Bound {
    gate: u64,
    /// Which gate the stub calls, and what it tells it.
    via: u64,
    slot: u64,
    binding: Binding,
    /// Shared by all ways that calls go.
    loans: Arc<Loans>,
    /// Calls are served there, if there is such a place.
    elsewhere: Option<Box<Elsewhere>>,
}

/// Which gate a stub calls.
fn via_of(binding: &Binding) -> u64 {
    if binding.grade == grade::EPC_H { GATE } else { ENTER }
}

/// A server without further ways has no gate behind those of its methods.
pub(crate) fn not_offered(error: Error) -> Error {
    if matches!(error, Error::BadArgument | Error::NotFound) { Error::NotSupported } else { error }
}

impl Bound {
    /// Binds this program to the block of gates at `gate`, with an argument section of `args_len` bytes (0: none): by the best grade of
    /// call that is to be had. Where the kernel has no room for one more binding, and nothing is to be lent, that is a plain call.
    ///
    /// # Errors
    /// A refusal without the right call, `NotFound`, or what the kernel answers.
    pub fn bind(gate: u64, args_len: u64) -> Result<Bound, Error> {
        match Bound::bind_with(gate, args_len, 0) {
            Err(Error::TooBig) if args_len == 0 => {
                let plain = Bound::plain(gate);
                Ok(Bound { binding: Binding { why: contract::why::NO_ROOM, ..plain.binding }, ..plain })
            }
            bound => bound,
        }
    }

    /// The same on the caller's own stack, where both sides want it.
    ///
    /// # Errors
    /// As [`Bound::bind`].
    pub fn bind_on_own_stack(gate: u64, args_len: u64) -> Result<Bound, Error> {
        Bound::bind_with(gate, args_len, contract::flag::CALLER_STACK)
    }

    /// A binding of just this grade (`abi::gate::grade`).
    ///
    /// # Errors
    /// As [`Bound::bind`]; `NotSupported` if what was asked for is not to be had: `Bound::bind` says why.
    pub fn bind_as(gate: u64, args_len: u64, wanted: u64) -> Result<Bound, Error> {
        let bound = match wanted {
            grade::PLAIN => return Ok(Bound::plain(gate)),
            grade::EPC_S => Bound::bind_with(gate, args_len, contract::flag::BY_KERNEL)?,
            grade::EPC_H => Bound::bind_with(gate, args_len, 0)?,
            _ => return Err(Error::BadArgument),
        };
        if bound.binding.grade == wanted {
            return Ok(bound);
        }
        bound.unbind()?;
        Err(Error::NotSupported)
    }

    fn bind_with(gate: u64, args_len: u64, flags: u64) -> Result<Bound, Error> {
        let mut binding = Binding::default();
        stub::gate_bind(&Trap, gate, args_len, flags, core::ptr::from_mut(&mut binding) as u64)?;
        let loans = Arc::new(Loans::new(binding.args, binding.args_len));
        if binding.grade == grade::EPC_H {
            let_callees_fetch();
        }
        Ok(Bound { gate, via: via_of(&binding), slot: contract::slot(binding.number), binding, loans, elsewhere: None })
    }

    /// Calls by plain `call` instructions, without a binding: pointers must lie where the called program may go.
    #[must_use]
    pub fn plain(gate: u64) -> Bound {
        let binding = Binding { grade: grade::PLAIN, ..Binding::default() };
        Bound { gate, via: trap::plain_way(gate), slot: gate, binding, loans: Arc::new(Loans::none()), elsewhere: None }
    }

    /// Calls by a line: a thread of the called program serves them, and may do so later ([`Later`](crate::later::Later)). `methods`
    /// is the number of the interface's methods. Only the calling thread may call.
    ///
    /// # Errors
    /// As [`Bound::bind`]; `NotSupported` or `NotFound` if the server offers no lines, `Busy` if it has no more.
    pub fn bind_line(gate: u64, args_len: u64, methods: u64) -> Result<Bound, Error> {
        let args_len = args_len.checked_add(LINE_LEN).ok_or(Error::TooBig)?;
        let mut bound = Bound::bind_with(gate, args_len, 0)?;
        let opened = bound
            .lend_to_threads()
            .and_then(|()| bound.call(methods, [opener::LINE, 0, 0, 0, 0, 0]))
            .and_then(result_of)
            .and_then(|server| Line::open(&bound.binding, server));
        match opened {
            Ok(line) => {
                bound.serve(Elsewhere::Line(line));
                bound.loans = Arc::new(Loans::new(bound.binding.args + LINE_LEN, bound.binding.args_len - LINE_LEN));
                Ok(bound)
            }
            Err(error) => {
                bound.unbind()?;
                Err(error)
            }
        }
    }

    /// Calls as questions at the post of the server that `gate` leads to, with an argument section of `args_len` bytes. `methods` and
    /// `identity` are the interface's. What is passed by pointer is lent with each question, until it is answered.
    ///
    /// # Errors
    /// As [`Bound::bind`]; `NotSupported`: the server has no post; `Refused`: its interface is another one.
    pub fn bind_post(gate: u64, args_len: u64, methods: u64, identity: u32) -> Result<Bound, Error> {
        let mut bound = Bound::bind_with(gate, args_len, 0)?;
        match bound.lending_post_of(methods, identity) {
            Ok(post) => {
                bound.serve(Elsewhere::Post { post, identity });
                bound.loans = Arc::new(Loans::of_questions(bound.binding.args, bound.binding.args_len));
                Ok(bound)
            }
            Err(error) => {
                bound.unbind()?;
                Err(error)
            }
        }
    }

    /// From now on calls are served there.
    fn serve(&mut self, elsewhere: Elsewhere) {
        let there = Box::new(elsewhere);
        (self.via, self.slot) = (trap::elsewhere(), core::ptr::from_ref(&*there) as u64);
        self.elsewhere = Some(there);
    }

    /// Whether calls go by a line.
    #[must_use]
    pub fn line(&self) -> Option<&Line> {
        match self.elsewhere.as_deref() {
            Some(Elsewhere::Line(line)) => Some(line),
            _ => None,
        }
    }

    /// Where the server receives requests by message: it is asked by the gate, and what this binding lends may be named there from now
    /// on.
    pub(crate) fn post_of(&self, methods: u64, identity: u32) -> Result<Post, Error> {
        self.lend_to_threads()?;
        self.lending_post_of(methods, identity)
    }

    /// The same, and what this binding lends is used by those only that messages lend it to.
    pub(crate) fn lending_post_of(&self, methods: u64, identity: u32) -> Result<Post, Error> {
        let opened = self.by_gate(methods, [opener::POST, identity.into(), 0, 0, 0, 0]).map_err(not_offered);
        result_of(opened?).map(Post)
    }

    /// The argument section is lent for as long as a call lasts, to the thread that makes it. Where the called program's own threads do the
    /// work they may use it, too, until the binding ends.
    fn lend_to_threads(&self) -> Result<(), Error> {
        let Binding { args, text, .. } = self.binding;
        if args == 0 {
            return Ok(());
        }
        let rights = (Rights::READ | Rights::WRITE).bits();
        let threads = AclEntry { principal: principal::TASK, rights, id: crate::section::owner(text)?, text };
        crate::section::grant(args, &threads)
    }

    /// The same binding, with calls by the gate, however its own go: an EPC and not an ITC, on any thread.
    #[must_use]
    pub fn gate_way(&self) -> Bound {
        let (via, slot) = self.gate_of();
        Bound { gate: self.gate, via, slot, binding: self.binding, loans: self.loans.clone(), elsewhere: None }
    }

    /// Calls gate `index` by the gate, however calls go otherwise.
    ///
    /// # Errors
    /// As [`Bound::call`].
    pub(crate) fn by_gate(&self, index: u64, words: [u64; 6]) -> Result<[u64; 2], Error> {
        let (via, slot) = self.gate_of();
        trap::bound_call(via, slot, index, words)
    }

    /// The gate that this binding goes through where calls are not served elsewhere, and what it is told.
    fn gate_of(&self) -> (u64, u64) {
        match &self.elsewhere {
            Some(_) => (via_of(&self.binding), contract::slot(self.binding.number)),
            None => (self.via, self.slot),
        }
    }

    /// Lets the called program use what `slices` say, until the loan is over: see `Loans::lend`.
    pub(crate) fn lend(&self, words: &mut [u64; 6], slices: &[Slice]) -> Result<Option<Loan<'_>>, Error> {
        slices.iter().for_each(|slice| slice.say_where(words));
        self.loans.lend(words, slices)
    }

    /// The records of its argument section.
    pub(crate) fn loans(&self) -> &Loans {
        &self.loans
    }

    /// Calls gate `index` of the block.
    ///
    /// # Errors
    /// `Dead`, `Faulted` or `NoMemory` if the called program ended in the middle, or what the kernel answers.
    #[inline]
    pub fn call(&self, index: u64, words: [u64; 6]) -> Result<[u64; 2], Error> {
        trap::bound_call(self.via, self.slot, index, words)
    }

    /// Calls a function with more arguments than there are registers, by a binding on the caller's own stack: the seventh
    /// and further ones lie there, where a C function has them (CUBIX-30; [`Gates::export_function`](crate::Gates::export_function)).
    ///
    /// # Errors
    /// `BadArgument` for more than 14 arguments; `NotSupported` if the binding is none on the caller's stack; as [`Bound::call`].
    pub fn call_function(&self, arguments: &[u64]) -> Result<u64, Error> {
        let mut all = [0; 6 + WIDE_MAX];
        all.get_mut(..arguments.len()).ok_or(Error::BadArgument)?.copy_from_slice(arguments);
        let [words, more] = [&all[..6], &all[6..]];
        let (Ok(words), Ok(more)) = (words.try_into(), more.try_into()) else { return Err(Error::BadArgument) };
        if self.elsewhere.is_some() || self.binding.grade == grade::PLAIN {
            return Err(Error::NotSupported);
        }
        trap::wide_call(self.slot, 0, words, more).and_then(result_of)
    }

    /// As [`Bound::call_with`], by the gate. Besides, whether the call was made.
    pub(crate) fn call_or_not(
        &self,
        index: u64,
        mut words: [u64; 6],
        slices: &mut [Slice],
    ) -> (Result<[u64; 2], Error>, bool) {
        let mut made = false;
        slices.iter().for_each(|slice| slice.say_where(&mut words));
        let outcome = self.loans.copying(&mut words, slices, |words| {
            let (outcome, was_made) = trap::bound_call_or_not(self.via, self.slot, index, *words);
            made = was_made;
            outcome
        });
        (outcome, made)
    }

    #[must_use]
    pub fn binding(&self) -> &Binding {
        &self.binding
    }

    /// Entry address of the block.
    #[must_use]
    pub fn gate(&self) -> u64 {
        self.gate
    }

    /// Memory in the argument section: what is passed from there is not copied.
    ///
    /// # Errors
    /// `TooBig` if the argument section is not that long, `Busy` if it is in use.
    pub fn alloc(&self, len: usize) -> Result<Loan<'_>, Error> {
        self.loans.alloc(len)
    }

    /// As [`Bound::call`], with slices where the called program may use them: as they are if they lie in the argument
    /// section (or the call is a plain one, which lends nothing), otherwise copied there and back. Their addresses are
    /// filled in, lengths are the caller's part.
    ///
    /// # Errors
    /// As [`Bound::call`]; `TooBig` if the argument section is not long enough for all that is to be copied.
    #[inline(always)]
    pub fn call_with<const N: usize>(
        &self,
        index: u64,
        mut words: [u64; 6],
        slices: [Slice; N],
    ) -> Result<[u64; 2], Error> {
        slices.iter().for_each(|slice| slice.say_where(&mut words));
        if slices.iter().all(|slice| self.loans.reaches(slice)) {
            return self.call(index, words);
        }
        let mut slices = slices;
        self.call_copying(index, words, &mut slices)
    }

    #[cold]
    #[inline(never)]
    fn call_copying(&self, index: u64, mut words: [u64; 6], slices: &mut [Slice]) -> Result<[u64; 2], Error> {
        match self.elsewhere.as_deref() {
            Some(Elsewhere::Post { post, identity }) => {
                let lend = marks(&words, slices)?;
                self.loans.copying(&mut words, slices, |words| elsewhere::ask(*post, *identity, index, words, lend))
            }
            _ => self.loans.copying(&mut words, slices, |words| self.call(index, *words)),
        }
    }

    /// Bytes that calls through this binding have copied to lend what lay outside of the argument section, and back.
    #[must_use]
    pub fn copied(&self) -> crate::Copied {
        self.loans.copied()
    }

    /// Ends the binding, and with it the argument section.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn unbind(self) -> Result<(), Error> {
        if self.binding.grade == grade::PLAIN {
            return Ok(());
        }
        if let Some(line) = self.line() {
            line.close();
        }
        stub::gate_unbind(&Trap, self.binding.number).map(drop)
    }
}

/// A client by another way of the same binding, as long as that lasts.
#[derive(Debug)]
pub struct Way<'a, C>(C, PhantomData<&'a C>);

impl<'a, C> Way<'a, C> {
    /// `client` goes by the binding of `_of`.
    pub fn new(_of: &'a C, client: C) -> Way<'a, C> {
        Way(client, PhantomData)
    }
}

impl<C> Deref for Way<'_, C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.0
    }
}

/// Who is called without the kernel runs in the same view, where fetches are not told apart: this program's text has to
/// say that whoever it calls may execute it (with his own rights). Without that, calls go through the kernel.
fn let_callees_fetch() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if !DONE.swap(true, Ordering::Relaxed) {
        let start = crate::start();
        let entry =
            AclEntry { principal: principal::TASK, rights: Rights::EXECUTE.bits(), id: start.task(), text: ANY_TEXT };
        let _ = crate::section::grant(start.text(), &entry);
    }
}

/// The result in a pair (status, value), as skeletons return it. What a server was itself refused for it does not tell.
///
/// # Errors
/// What the status says.
#[inline]
pub fn result_of(values: [u64; 2]) -> Result<u64, Error> {
    match values[0] {
        0 => Ok(values[1]),
        status => Err(told_by(status)),
    }
}

#[cold]
#[inline(never)]
pub(crate) fn told_by(status: u64) -> Error {
    Error::from_word(status).map_or(Error::BadArgument, Error::told)
}
