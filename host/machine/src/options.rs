//! What the machine is like.

use crate::accel::Wish;
use abi::boot::SERVERS;
use anyhow::{Context, Result, bail, ensure};

const MIB: u64 = 1 << 20;

/// A turn that is short enough for nobody to wait for long, and long enough for a machine that is not slow.
pub const TURN_US: u32 = 50;

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
    /// Whom the processors say they are made by, if not whom the emulator says.
    pub vendor: Option<&'static str>,
    /// Instructions are time: runs are exact and repeatable.
    pub icount: bool,
    /// How long one of several processors goes on before the next one, where instructions are time: us of the machine's.
    pub turn_us: u32,
    pub wish: Wish,
    /// Servers that are left out, of [`SERVERS`].
    pub without: Vec<String>,
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
            vendor: None,
            icount: false,
            turn_us: TURN_US,
            wish: Wish::Any,
            without: Vec::new(),
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
        ensure!(!self.icount || self.cpus() <= 128, "--cpus takes 1 to 128 where instructions are counted");
        if let Some(name) = self.without.iter().find(|name| !SERVERS.contains(&name.as_str())) {
            bail!("--without {name}: there is no such server; these may be left out: {}", SERVERS.join(", "));
        }
        self.memory().map(drop)
    }

    /// Memory in MiB.
    fn memory(&self) -> Result<u64> {
        let digits = self.mem.trim_end_matches(['M', 'G', 'm', 'g']);
        let unit = if self.mem.ends_with(['G', 'g']) { 1024 } else { 1 };
        let number = digits.parse::<u32>().ok().filter(|&n| n > 0 && self.mem.len() - digits.len() <= 1);
        let number = number.with_context(|| format!("--mem takes a size like 512M or 2G, not {:?}", self.mem))?;
        Ok(u64::from(number) * unit)
    }

    /// Refuses less memory than a machine needs that is started with a pack of `pack` bytes.
    pub(crate) fn check_memory(&self, pack: u64) -> Result<()> {
        let least = self.least(pack);
        ensure!(
            self.memory()? >= least,
            "--mem {} is too little: {least}M is the least for this machine (programs and files put in: {}M)",
            self.mem,
            pack.div_ceil(MIB)
        );
        Ok(())
    }

    /// The least memory in MiB: tried on 1 to 32 processors, with a small pack and one of 100 MiB.
    fn least(&self, pack: u64) -> u64 {
        let pack = pack.div_ceil(MIB);
        // What the kernel keeps for each processor.
        let processors = (3 * u64::from(self.cpus())).div_ceil(2);
        match self.via {
            Via::Kernel | Via::Bios => pack + 24 + processors,
            // GRUB under UEFI loads the pack and then moves it.
            Via::Uefi => 2 * pack + 71 + processors,
        }
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
    fn only_servers_can_be_left_out() {
        let check = |names: &[&str]| {
            let without = names.iter().map(|name| (*name).into()).collect();
            Options { without, ..Options::default() }.check().map_err(|error| error.to_string())
        };
        assert!(check(&SERVERS).is_ok());
        let said = check(&["files", "shell"]).unwrap_err();
        assert!(said.starts_with("--without shell: ") && said.contains("names, loader, files, processes"), "{said}");
        assert!(check(&[""]).is_err());
    }

    #[test]
    fn too_little_memory_is_refused_with_the_least() {
        let check = |mem: &str, via, pack| Options { mem: mem.into(), via, ..Options::default() }.check_memory(pack);
        let said = check("1", Via::Kernel, 3 * MIB - 1).unwrap_err().to_string();
        assert!(said.starts_with("--mem 1 is too little: 30M is the least") && said.contains("3M)"), "{said}");
        assert!(check("30M", Via::Kernel, 3 * MIB).is_ok() && check("29M", Via::Kernel, 3 * MIB).is_err());
        assert!(check("1G", Via::Kernel, 997 * MIB).is_ok() && check("1G", Via::Bios, 998 * MIB).is_err());
        assert!(check("76m", Via::Uefi, MIB).is_ok() && check("76", Via::Uefi, MIB + 1).is_err());
    }

    #[test]
    fn counting_instructions_wants_one_processor_unless_told() {
        assert_eq!(Options::default().cpus(), 2);
        assert_eq!(Options { icount: true, ..Options::default() }.cpus(), 1);
        assert_eq!(Options { icount: true, cpus: Some(4), ..Options::default() }.cpus(), 4);
    }
}
