//! Which of QEMU's engines runs the guest.

use anyhow::{Result, bail};
use std::path::Path;

/// What the user asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// The fastest that certainly works.
    #[default]
    Any,
    Kvm,
    Tcg,
}

/// What is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accel {
    Kvm,
    /// Translation, with one host thread per processor.
    TcgMulti,
    /// Translation with all processors on one host thread.
    TcgSingle,
}

impl Accel {
    /// Chooses for this machine.
    pub fn choose(wish: Wish, cpus: u32, icount: bool) -> Result<Self> {
        let kvm = kvm_missing(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default(), Path::new("/dev/kvm"));
        Self::decide(wish, cpus, icount, kvm)
    }

    fn decide(wish: Wish, cpus: u32, icount: bool, kvm_missing: Option<String>) -> Result<Self> {
        let tcg = if cpus > 1 && !icount { Self::TcgMulti } else { Self::TcgSingle };
        match (wish, kvm_missing) {
            (Wish::Kvm, _) if icount => {
                bail!("--icount counts translated instructions, it does not go with --kvm")
            }
            (Wish::Kvm, Some(why)) => bail!("--kvm is not possible here: {why}"),
            (Wish::Kvm, None) => Ok(Self::Kvm),
            (Wish::Any, None) if !icount => Ok(Self::Kvm),
            (Wish::Any | Wish::Tcg, _) => Ok(tcg),
        }
    }

    /// The value of QEMU's `-accel`.
    pub fn argument(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::TcgMulti => "tcg,thread=multi",
            Self::TcgSingle => "tcg,thread=single",
        }
    }
}

/// Why KVM cannot run us; `None` if it can. A `/dev/kvm` on a processor that itself shows neither vmx nor svm is
/// nested somewhere below us and has been seen to fail, so it does not count.
fn kvm_missing(cpuinfo: &str, device: &Path) -> Option<String> {
    let shown = cpuinfo
        .lines()
        .filter(|line| line.starts_with("flags"))
        .any(|line| line.split_whitespace().any(|flag| flag == "vmx" || flag == "svm"));
    if !shown {
        return Some("the processor shows neither vmx nor svm".into());
    }
    let open = std::fs::OpenOptions::new().read(true).write(true).open(device);
    open.err().map(|error| format!("{}: {error}", device.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no() -> Option<String> {
        Some("no vmx".into())
    }

    #[test]
    fn kvm_only_where_the_processor_shows_it() {
        let device = Path::new("/dev/null");
        assert!(kvm_missing("flags\t\t: fpu vme hypervisor\n", device).is_some());
        assert!(kvm_missing("flags\t\t: fpu vmxnet\n", device).is_some());
        assert!(kvm_missing("vmx flags\t: vmx-ept\n", device).is_some());
        assert_eq!(kvm_missing("flags\t\t: fpu vmx sse\n", device), None);
        assert_eq!(kvm_missing("flags\t\t: svm\n", device), None);
        assert!(kvm_missing("flags\t\t: svm\n", Path::new("/nonexistent/kvm")).is_some());
    }

    #[test]
    fn a_wish_that_cannot_be_met_is_an_error_with_its_reason() {
        let error = Accel::decide(Wish::Kvm, 1, false, no()).unwrap_err().to_string();
        assert!(error.contains("no vmx"), "{error}");
        assert!(Accel::decide(Wish::Kvm, 1, true, None).is_err());
    }

    #[test]
    fn counting_instructions_is_single_threaded() {
        assert_eq!(Accel::decide(Wish::Any, 4, true, None).unwrap(), Accel::TcgSingle);
        assert_eq!(Accel::decide(Wish::Any, 4, false, no()).unwrap(), Accel::TcgMulti);
        assert_eq!(Accel::decide(Wish::Tcg, 4, false, None).unwrap(), Accel::TcgMulti);
        assert_eq!(Accel::decide(Wish::Any, 1, false, None).unwrap(), Accel::Kvm);
    }
}
