//! What a system call answers: a value, an error number, or that the program does not go on as usual.

pub use linux_raw_sys::errno;

/// A Linux error number (`errno`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub u32);

/// Why a call has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    Error(Errno),
    /// The program ends.
    End(End),
    /// Nothing was done: the call is to be made again when something has changed, or at that moment (nanoseconds since the machine was
    /// started; `u64::MAX`: at none).
    Wait(u64),
    /// The frame was replaced as a whole (`execve`, `rt_sigreturn`): `rax` is not touched.
    Resume,
}

/// How a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exit(u8),
    Signal(u8),
}

impl End {
    /// By this signal, which has a number of at most 64.
    #[must_use]
    pub fn by(signal: u64) -> End {
        End::Signal(signal as u8)
    }

    /// The exit code that a shell shows.
    #[must_use]
    pub fn code(self) -> u64 {
        match self {
            End::Exit(code) => code.into(),
            End::Signal(signal) => 128 + u64::from(signal),
        }
    }

    /// What `wait4` writes.
    #[must_use]
    pub fn status(self) -> u32 {
        match self {
            End::Exit(code) => u32::from(code) << 8,
            End::Signal(signal) => signal.into(),
        }
    }
}

pub type Answer = Result<u64, Stop>;

/// `Err` of an error number, for `return fail(errno::EINVAL)`.
///
/// # Errors
/// Always.
pub fn fail<T, E: From<Errno>>(number: u32) -> Result<T, E> {
    Err(Errno(number).into())
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        Stop::Error(errno)
    }
}

impl From<abi::Error> for Errno {
    /// The nearest word that Linux has for a refused call of the kernel.
    fn from(error: abi::Error) -> Errno {
        use abi::Error as E;
        use abi::refusal::Object;
        Errno(match error {
            E::Denied | E::Refused => errno::EACCES,
            E::NotFound => errno::ENOENT,
            E::BadArgument | E::TooBig | E::TooDeep => errno::EINVAL,
            E::BadAddress => errno::EFAULT,
            E::ThreadQuota | E::TaskQuota | E::MessageQuota => errno::EAGAIN,
            error if error == E::NoMemory || error.is_quota() => errno::ENOMEM,
            E::Dead | E::Faulted => errno::EPIPE,
            E::Busy | E::Changed => errno::EAGAIN,
            E::TimedOut => errno::ETIMEDOUT,
            E::NotSupported | E::NoSuchCall => errno::ENOSYS,
            E::Exists => errno::EEXIST,
            E::Killed => errno::EINTR,
            E::BadProgram => errno::ENOEXEC,
            E::NotADirectory => errno::ENOTDIR,
            E::IsADirectory => errno::EISDIR,
            E::NotEmpty => errno::ENOTEMPTY,
            other => match other.refusal().map(|refusal| refusal.object) {
                Some(Object::Section(..)) => errno::EACCES,
                Some(Object::Task(_) | Object::Thread(_) | Object::System) => errno::EPERM,
                None => errno::EIO,
            },
        })
    }
}

impl Errno {
    /// The same, where it is about files.
    #[must_use]
    pub fn of_file(error: abi::Error) -> Errno {
        match error {
            error if error == abi::Error::NoMemory || error.is_quota() => Errno(errno::ENOSPC),
            abi::Error::TooBig => Errno(errno::EFBIG),
            other => other.into(),
        }
    }
}

impl From<abi::Error> for Stop {
    fn from(error: abi::Error) -> Stop {
        Stop::Error(error.into())
    }
}
