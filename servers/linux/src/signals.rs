//! Signals of one program: what it wants done about each, which wait, and the record on its stack that a handler
//! returns through. A signal is taken at the end of a system call, or where one waits; a program that makes no calls hears
//! of none but those of its own faults, unless it ends by it.

pub mod fault;
pub mod frame;

use alloc::vec::Vec;

use linux_raw_sys::general as linux;

use crate::field;
use fault::Fault;

/// Signals are numbered from 1.
pub const COUNT: u64 = 64;
/// Cannot be caught, blocked or ignored.
const UNTOUCHABLE: u64 = bit(linux::SIGKILL as u64) | bit(linux::SIGSTOP as u64);
pub const ACTION_LEN: usize = size_of::<linux::kernel_sigaction>();
pub const DEFAULT: u64 = 0;
pub const IGNORE: u64 = 1;
/// Only these flags of a handler do anything here.
const FLAGS_KNOWN: u64 = (linux::SA_NOCLDSTOP
    | linux::SA_NOCLDWAIT
    | linux::SA_SIGINFO
    | linux::SA_ONSTACK
    | linux::SA_RESTART
    | linux::SA_NODEFER
    | linux::SA_RESETHAND
    | linux::SA_RESTORER) as u64;

/// The bit of a signal in a mask.
#[must_use]
pub const fn bit(signal: u64) -> u64 {
    1 << (signal - 1)
}

/// What a program wants done about a signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Action {
    /// [`DEFAULT`], [`IGNORE`] or the address of a handler.
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    pub mask: u64,
}

impl Action {
    #[must_use]
    pub fn load(bytes: &[u8; ACTION_LEN]) -> Action {
        // The first and third field are function pointers, so they are read as words.
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| bytes[at + i]));
        Action {
            handler: word(core::mem::offset_of!(linux::kernel_sigaction, sa_handler_kernel)),
            // A C library has them in an `int`, of which SA_RESETHAND is the sign.
            flags: field!(bytes, linux::kernel_sigaction, sa_flags) & u64::from(u32::MAX),
            restorer: word(core::mem::offset_of!(linux::kernel_sigaction, sa_restorer)),
            mask: word(core::mem::offset_of!(linux::kernel_sigaction, sa_mask)),
        }
    }

    #[must_use]
    pub fn store(&self) -> [u8; ACTION_LEN] {
        let mut bytes = [0; ACTION_LEN];
        let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        put(core::mem::offset_of!(linux::kernel_sigaction, sa_handler_kernel), self.handler);
        put(core::mem::offset_of!(linux::kernel_sigaction, sa_flags), self.flags);
        put(core::mem::offset_of!(linux::kernel_sigaction, sa_restorer), self.restorer);
        put(core::mem::offset_of!(linux::kernel_sigaction, sa_mask), self.mask);
        bytes
    }

    /// Whether a function of the program is called.
    #[must_use]
    pub fn is_handled(&self) -> bool {
        self.handler != DEFAULT && self.handler != IGNORE
    }

    /// Flags that nothing here implements.
    #[must_use]
    pub fn unknown_flags(&self) -> u64 {
        self.flags & !FLAGS_KNOWN
    }
}

/// An alternative stack for handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AltStack {
    pub address: u64,
    pub len: u64,
}

impl AltStack {
    /// Whether a program with this stack pointer is on it.
    #[must_use]
    pub fn holds(&self, rsp: u64) -> bool {
        rsp > self.address && rsp - self.address <= self.len
    }
}

/// Who raised a signal, for `siginfo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    pub code: i32,
    pub task: u64,
    pub user: u64,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    Nothing,
    /// The program ends by this signal.
    End(u64),
    Handle(Handling),
}

/// Where a signal comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Sent(Sender),
    Fault(Fault),
}

/// A handler is to be called. `mask`: the one to come back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handling {
    pub signal: u64,
    pub action: Action,
    pub origin: Origin,
    pub mask: u64,
}

#[derive(Clone, Debug)]
pub struct Signals {
    actions: [Action; COUNT as usize],
    pub mask: u64,
    pub alt_stack: Option<AltStack>,
    pending: Vec<(u64, Sender)>,
    /// The mask to come back to, while another one is in force for one call (`rt_sigsuspend`).
    before: Option<u64>,
}

impl Default for Signals {
    fn default() -> Signals {
        Signals {
            actions: [Action::default(); COUNT as usize],
            mask: 0,
            alt_stack: None,
            pending: Vec::new(),
            before: None,
        }
    }
}

impl Signals {
    /// The action of a signal; `None` if there is no such signal.
    #[must_use]
    pub fn action(&self, signal: u64) -> Option<Action> {
        self.actions.get(signal.checked_sub(1)? as usize).copied()
    }

    /// Whether the action was taken: not for signals that do not exist or cannot be caught.
    #[must_use]
    pub fn set_action(&mut self, signal: u64, action: Action) -> Option<()> {
        if signal == 0 || signal > COUNT || bit(signal) & UNTOUCHABLE != 0 {
            return None;
        }
        self.actions[signal as usize - 1] = Action { mask: action.mask & !UNTOUCHABLE, ..action };
        Some(())
    }

    pub fn set_mask(&mut self, mask: u64) {
        self.mask = mask & !UNTOUCHABLE;
    }

    /// Another mask until a signal is taken; while that is so, nothing.
    pub fn suspend(&mut self, mask: u64) {
        if self.before.is_none() {
            self.before = Some(self.mask);
            self.set_mask(mask);
        }
    }

    /// A signal arrives. It waits at most once.
    pub fn raise(&mut self, signal: u64, sender: Sender) {
        if !self.pending.iter().any(|(s, _)| *s == signal) {
            self.pending.push((signal, sender));
        }
    }

    /// Whether a call that waits is to end because of a signal: one that has a handler, or ends the program. `Some(true)`: the call is
    /// made again after it.
    #[must_use]
    pub fn interrupts(&self) -> Option<bool> {
        let open = self.pending.iter().filter(|(signal, _)| self.mask & bit(*signal) == 0);
        open.map(|(signal, _)| (*signal, self.action(*signal).unwrap_or_default())).find_map(|(signal, action)| {
            match action.handler {
                IGNORE => None,
                DEFAULT => (!ignored_by_default(signal)).then_some(false),
                _ => Some(action.flags & u64::from(linux::SA_RESTART) != 0),
            }
        })
    }

    /// Whether this signal ends the program as soon as it arrives.
    #[must_use]
    pub fn ends(&self, signal: u64) -> bool {
        let is_default = self.action(signal).is_some_and(|action| action.handler == DEFAULT);
        self.mask & bit(signal) == 0 && is_default && !ignored_by_default(signal)
    }

    /// Those of a child: nothing waits there yet.
    #[must_use]
    pub fn of_child(&self) -> Signals {
        Signals { pending: Vec::new(), ..self.clone() }
    }

    /// The mask of the signals that wait.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.pending.iter().fold(0, |mask, (signal, _)| mask | bit(*signal))
    }

    /// Takes the next signal that is not blocked, and answers what is to be done. For a handler the mask has been set
    /// as it is while the handler runs.
    pub fn take(&mut self) -> Delivery {
        while let Some(at) = self.pending.iter().position(|(signal, _)| self.mask & bit(*signal) == 0) {
            let (signal, sender) = self.pending.remove(at);
            let action = self.action(signal).unwrap_or_default();
            match action.handler {
                IGNORE => {}
                DEFAULT if ignored_by_default(signal) => {}
                DEFAULT => return Delivery::End(signal),
                _ => return Delivery::Handle(self.handle(signal, action, Origin::Sent(sender))),
            }
        }
        Delivery::Nothing
    }

    /// The program has had a fault, whose signal does not wait: `None` if it has no handler now. Who blocks or ignores it ends by it, too, since
    /// going on would be to fault again.
    pub fn fault(&mut self, fault: Fault) -> Option<Handling> {
        let action = self.action(fault.signal).filter(Action::is_handled)?;
        let is_open = self.mask & bit(fault.signal) == 0;
        is_open.then(|| self.handle(fault.signal, action, Origin::Fault(fault)))
    }

    fn handle(&mut self, signal: u64, action: Action, origin: Origin) -> Handling {
        let mask = self.before.take().unwrap_or(self.mask);
        let own = if action.flags & u64::from(linux::SA_NODEFER) == 0 { bit(signal) } else { 0 };
        self.set_mask(self.mask | action.mask | own);
        if action.flags & u64::from(linux::SA_RESETHAND) != 0 {
            self.actions[signal as usize - 1] = Action::default();
        }
        Handling { signal, action, origin, mask }
    }

    /// Another program takes over: handlers are gone, what is ignored stays ignored.
    pub fn exec(&mut self) {
        for action in &mut self.actions {
            if action.handler != IGNORE {
                *action = Action::default();
            }
        }
        self.alt_stack = None;
    }
}

fn ignored_by_default(signal: u64) -> bool {
    matches!(signal as u32, linux::SIGCHLD | linux::SIGCONT | linux::SIGURG | linux::SIGWINCH)
}

/// Whether the default is to stop the program, which is not implemented.
#[must_use]
pub fn stops(signal: u64) -> bool {
    matches!(signal as u32, linux::SIGSTOP | linux::SIGTSTP | linux::SIGTTIN | linux::SIGTTOU)
}

#[cfg(test)]
mod tests;
