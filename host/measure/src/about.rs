//! The machine that our figures are of (K1-31): it is printed beside them.

use crate::benches::Bench;
use crate::figure::MUSUBI;
use crate::ours::Setup;
use machine::{Emulator, cpu};
use std::process::Command;

impl Setup<'_> {
    /// On what a benchmark is measured, in a line: the emulator, the processors and the memory of its machines, and the host.
    pub fn about(&self, bench: &Bench) -> String {
        let said = Command::new(Emulator::default().program).arg("--version").output();
        let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let host = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let counts: Vec<String> = [bench.cpus].iter().chain(bench.also_cpus).map(u32::to_string).collect();
        format!(
            "{MUSUBI}: {}, {}, {}, {} of memory; processors: {}; host: {}, {} processors",
            said.lines().next().unwrap_or("QEMU of an unknown version"),
            if self.kvm { "KVM" } else { "TCG" },
            cpu(self.pku),
            bench.mem,
            counts.join(", "),
            model(&host).unwrap_or("a processor of an unknown model"),
            std::thread::available_parallelism().map_or(1, usize::from)
        )
    }
}

/// What the first processor says that it is.
fn model(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_the_first_processors() {
        let told = "processor\t: 0\nmodel name\t: A processor: fast\n\nprocessor\t: 1\nmodel name\t: Another one\n";
        assert_eq!(model(told), Some("A processor: fast"));
        assert_eq!(model("processor\t: 0\n"), None);
    }
}
