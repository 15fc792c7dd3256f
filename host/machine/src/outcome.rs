//! What an `exec` came to, and the status that says so.

/// QEMU's exit status after the guest powered off (`(0 << 1) | 1`) and after a panic (`(0x7f << 1) | 1`).
const POWERED_OFF: i32 = 1;
const PANICKED: i32 = 0xff;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The command ended with this status (126 refused, 127 not found, 128 + 11 fault, 128 + 9 killed).
    Exited(u8),
    /// The time was up first.
    TimedOut,
    /// Nobody reads what it prints (as in `| head -1`), so it was stopped.
    Unread,
    /// What it prints cannot be written, so it was stopped; the words say why.
    Unwritten(String),
    /// The kernel panicked.
    Panicked,
    /// The machine ended without telling an outcome: how QEMU ended.
    Died(String),
}

impl Outcome {
    /// The status that `exec` exits with.
    pub fn status(&self) -> u8 {
        match self {
            Self::Exited(status) => *status,
            Self::TimedOut => 124,
            // As a shell shows a program that a closed pipe ended.
            Self::Unread => 128 + 13,
            Self::Unwritten(_) | Self::Panicked | Self::Died(_) => 125,
        }
    }

    /// One of our own streams could not be written.
    pub(crate) fn unwritten(stream: &str, error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::Unread,
            _ => Self::Unwritten(format!("cannot write to {stream}: {error}")),
        }
    }

    /// From what the guest wrote to its status console, and how QEMU ended: its exit status (`None`: by a signal),
    /// if it ended by itself.
    pub(crate) fn judge(status: &[u8], qemu: Option<Option<i32>>, timed_out: bool) -> Self {
        if qemu == Some(Some(PANICKED)) {
            return Self::Panicked;
        }
        if let Some(status) = told(status) {
            return Self::Exited(status);
        }
        if timed_out {
            return Self::TimedOut;
        }
        Self::Died(match qemu {
            Some(Some(POWERED_OFF)) => "it powered off without telling how the command ended".into(),
            Some(Some(0)) => "it was reset, or QEMU was told to quit".into(),
            Some(Some(code)) => format!("QEMU exited with status {code}"),
            Some(None) => "QEMU was killed".into(),
            None => "its status console was closed".into(),
        })
    }
}

/// The status in the line `exit N`, once it is complete.
pub(crate) fn told(status: &[u8]) -> Option<u8> {
    let line = status.split(|byte| *byte == b'\n').next().filter(|line| line.len() < status.len())?;
    std::str::from_utf8(line).ok()?.strip_prefix("exit ")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_line_tells() {
        assert_eq!(told(b"exit 42\n"), Some(42));
        assert_eq!(told(b"exit 0\r\n"), Some(0));
        for bad in [&b""[..], b"exit 4", b"exit\n", b"exit 256\n", b"exit -1\n", b"\nexit 1\n", b"\xff\n"] {
            assert_eq!(told(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn the_status_is_the_programs_own_unless_the_machine_failed() {
        let judge = |status: &[u8], qemu, timed_out| Outcome::judge(status, qemu, timed_out).status();
        assert_eq!(judge(b"exit 42\n", Some(Some(1)), false), 42);
        assert_eq!(judge(b"exit 0\n", None, false), 0);
        assert_eq!(judge(b"exit 0\n", Some(Some(0xff)), false), 125, "a panic while powering off is a panic");
        assert_eq!(judge(b"", None, true), 124);
        assert_eq!(judge(b"", Some(Some(0xff)), true), 125);
        assert_eq!(judge(b"", Some(Some(1)), false), 125);
        assert_eq!(judge(b"exit 4", Some(None), false), 125);
    }
}
