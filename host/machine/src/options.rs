//! What the machine is like.

use crate::accel::Wish;
use anyhow::{Result, ensure};

/// How the machine gets to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Via {
    /// QEMU itself loads it (PVH).
    #[default]
    Kernel,
    /// A disk image, under a PC's BIOS.
    Bios,
    /// The same image, under UEFI.
    Uefi,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub via: Via,
    /// Number of processors; `None` is 2, or 1 if instructions are counted.
    pub cpus: Option<u32>,
    /// Memory, as QEMU writes it: `512M`, `2G`.
    pub mem: String,
    /// Whether the processors show protection keys.
    pub pku: bool,
    /// Instructions are time: runs are exact and repeatable.
    pub icount: bool,
    pub wish: Wish,
    /// Further words for the kernel's command line.
    pub append: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            via: Via::Kernel,
            cpus: None,
            mem: "512M".into(),
            pku: true,
            icount: false,
            wish: Wish::Any,
            append: Vec::new(),
        }
    }
}

impl Options {
    pub fn cpus(&self) -> u32 {
        self.cpus.unwrap_or(if self.icount { 1 } else { 2 })
    }

    /// Refuses what QEMU would refuse in its own words, or take for something else.
    pub fn check(&self) -> Result<()> {
        ensure!((1..=255).contains(&self.cpus()), "--cpus takes 1 to 255");
        let digits = self.mem.trim_end_matches(['M', 'G', 'm', 'g']);
        let good = digits.parse::<u32>().is_ok_and(|n| n > 0) && self.mem.len() - digits.len() <= 1;
        ensure!(good, "--mem takes a size like 512M or 2G, not {:?}", self.mem);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_counts_are_checked() {
        let mem = |mem: &str| Options { mem: mem.into(), ..Options::default() }.check().is_ok();
        assert!(mem("512M") && mem("2G") && mem("256"));
        assert!(!mem("") && !mem("M") && !mem("0M") && !mem("1GM") && !mem("1,slots=2") && !mem("-1"));
        let cpus = |n| Options { cpus: Some(n), ..Options::default() }.check().is_ok();
        assert!(cpus(1) && cpus(8) && !cpus(0) && !cpus(256));
    }

    #[test]
    fn counting_instructions_wants_one_processor_unless_told() {
        assert_eq!(Options::default().cpus(), 2);
        assert_eq!(Options { icount: true, ..Options::default() }.cpus(), 1);
        assert_eq!(Options { icount: true, cpus: Some(4), ..Options::default() }.cpus(), 4);
    }
}
