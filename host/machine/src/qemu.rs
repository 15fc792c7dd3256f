//! QEMU's command line.

use crate::accel::Accel;
use crate::guard::{self, Farewell};
use crate::options::{Options, Via};
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Which program is QEMU, and what it is told beside what makes the machine. Tests put another in its place.
#[derive(Clone, Debug)]
pub struct Emulator {
    pub program: PathBuf,
    /// Arguments before ours.
    pub lead: Vec<OsString>,
    /// Started through [`guard`]: needs a program that calls [`guard::enter`].
    pub guarded: bool,
}

impl Default for Emulator {
    fn default() -> Self {
        Self { program: "qemu-system-x86_64".into(), lead: Vec::new(), guarded: true }
    }
}

impl Emulator {
    pub(crate) fn command(&self, farewell: Farewell) -> Result<Command> {
        let program = self.program.clone().into_os_string();
        let mut command = if self.guarded {
            guard::command(program, farewell).context("cannot find myself")?
        } else {
            Command::new(program)
        };
        command.args(&self.lead);
        Ok(command)
    }
}

/// UEFI for QEMU, from Debian's package ovmf: code, and the variables that each machine has its own copy of.
const OVMF_CODE: &str = "/usr/share/OVMF/OVMF_CODE_4M.fd";
const OVMF_VARS: &str = "/usr/share/OVMF/OVMF_VARS_4M.fd";

/// Names in the machine's folder, which is QEMU's working directory: QEMU's commas and colons do not meet paths.
pub(crate) const PACK: &str = "pack";
pub(crate) const IMAGE: &str = "image.iso";
pub(crate) const CONSOLE: &str = "console.log";
const VARS: &str = "vars.fd";

pub(crate) const MEMORY: &str = "memory";

/// The debug consoles of an exec: named pipe in the machine's folder, I/O port.
pub(crate) const CONSOLES: [(&str, u16); 2] = [("output", 0xe0), ("status", 0xe2)];

/// Where the first serial port goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Console {
    /// The terminal, shared with QEMU's monitor.
    Terminal,
    /// A file, with the debug consoles beside it.
    Log,
}

/// Copies what the machine writes to, beside the pack and the image.
pub(crate) fn prepare(options: &Options, dir: &Path) -> Result<()> {
    if options.via == Via::Uefi {
        std::fs::copy(OVMF_VARS, dir.join(VARS)).with_context(|| format!("{OVMF_VARS} (package ovmf)"))?;
    }
    Ok(())
}

pub(crate) fn arguments(
    options: &Options,
    accel: Accel,
    kernel: &Path,
    words: &str,
    console: Console,
) -> Vec<OsString> {
    let mut args: Vec<OsString> = Vec::new();
    let mut add = |line: &str| args.extend(line.split_whitespace().map(OsString::from));
    add("-machine q35 -nodefaults -no-reboot -display none");
    add(&format!("-accel {} -smp {} -m {}", accel.argument(), smp(options), options.mem));
    let vendor = options.vendor.map(|vendor| format!(",vendor={vendor}")).unwrap_or_default();
    add(&format!("{}{vendor}", cpu(options.pku)));
    if options.icount {
        add("-icount shift=0,sleep=off -rtc base=2026-01-01,clock=vm");
        if takes_turns(options) {
            // Processors take turns until the next of the emulator's timers is due: one that comes often makes them short.
            let turn = options.turn_us;
            add(&format!(
                "-netdev hubport,id=turns,hubid=0 -object filter-buffer,id=turn,netdev=turns,interval={turn}"
            ));
        }
    }
    add("-device isa-debug-exit,iobase=0xf4,iosize=1");
    match console {
        Console::Terminal => {
            add(
                "-chardev stdio,id=tty,signal=off,mux=on -serial chardev:tty -mon chardev=tty,mode=readline -echr 0x1d",
            );
        }
        Console::Log => {
            add(&format!("-chardev file,id=tty,path={CONSOLE} -serial chardev:tty"));
            let len = abi::boot::output::MEMORY;
            add(&format!("-object memory-backend-file,id=shared,share=on,mem-path={MEMORY},size={len}"));
            add("-device ivshmem-plain,memdev=shared");
            for (name, port) in CONSOLES {
                add(&format!("-chardev file,id={name},path={name}"));
                add(&format!("-device isa-debugcon,iobase={port:#x},chardev={name}"));
            }
        }
    }
    match options.via {
        Via::Kernel => {
            add(&format!("-initrd {PACK}"));
            args.extend(["-kernel".into(), kernel.into(), "-append".into(), words.into()]);
        }
        Via::Bios => add(&format!("-vga std -cdrom {IMAGE}")),
        Via::Uefi => {
            add(&format!("-vga std -cdrom {IMAGE}"));
            add(&format!("-drive if=pflash,format=raw,readonly=on,file={OVMF_CODE}"));
            add(&format!("-drive if=pflash,format=raw,file={VARS}"));
        }
    }
    args
}

/// Several processors are run by one thread, whose clock is the instructions that they execute.
fn takes_turns(options: &Options) -> bool {
    options.icount && options.cpus() > 1
}

/// The model of processor, with or without protection keys. Without erms the kernel's copies do not fall into TCG's slow path for `rep movsb`.
/// One without keys is an older processor, which has no pages of 1 GiB either.
pub const fn cpu(pku: bool) -> &'static str {
    if pku { "-cpu max,-erms" } else { "-cpu max,-erms,-pku,-pdpe1gb" }
}

/// Processors of the emulator. Where they take turns there is one between each two of ours that does nothing: until QEMU 8.1, one that runs until the
/// next timer is due leaves nothing to the one after it, which would take its interrupt and not execute an instruction for milliseconds, or for good.
fn smp(options: &Options) -> u32 {
    if takes_turns(options) { 2 * options.cpus() - 1 } else { options.cpus() }
}

/// The kernel's command line.
pub(crate) fn kernel_words(options: &Options, build_id: u64, exec: bool) -> String {
    let mut words = vec![format!("build={build_id:016x}")];
    if exec {
        words.push("exec".into());
    }
    if takes_turns(options) {
        words.push("every=2".into());
    }
    words.extend(options.append.iter().cloned());
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(options: &Options, accel: Accel, console: Console) -> String {
        let args = arguments(options, accel, Path::new("/a b,c/kernel"), "exec x=1", console);
        let shown: Vec<String> = args.iter().map(|arg| arg.display().to_string()).collect();
        shown.join("|")
    }

    #[test]
    fn an_exec_has_two_consoles_shared_memory_and_a_log() {
        let line = line(&Options::default(), Accel::TcgMulti, Console::Log);
        for part in [
            "-accel|tcg,thread=multi|-smp|2|-m|512M",
            "-cpu|max,-erms|",
            "-device|isa-debugcon,iobase=0xe0,chardev=output",
            "mem-path=memory,size=1048576|-device|ivshmem-plain,memdev=shared",
            "-device|isa-debugcon,iobase=0xe2,chardev=status",
            "-chardev|file,id=tty,path=console.log|-serial|chardev:tty",
            "-kernel|/a b,c/kernel|-append|exec x=1",
        ] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
    }

    #[test]
    fn options_show() {
        let options = Options { pku: false, icount: true, ..Options::default() };
        let line = line(&options, Accel::TcgSingle, Console::Terminal);
        assert!(line.contains("max,-erms,-pku,-pdpe1gb") && line.contains("-icount|shift=0,sleep=off"), "{line}");
        assert!(line.contains("thread=single|-smp|1"), "{line}");
        let two = Options { cpus: Some(2), ..options };
        assert!(self::line(&two, Accel::TcgSingle, Console::Log).contains("-smp|3|"), "{two:?}");
        assert_eq!(kernel_words(&two, 1, true), "build=0000000000000001 exec every=2");
        assert!(line.contains("mux=on") && !line.contains("debugcon"), "{line}");
    }

    #[test]
    fn an_image_is_not_given_the_kernel() {
        let options = Options { via: Via::Uefi, ..Options::default() };
        let line = line(&options, Accel::TcgMulti, Console::Log);
        assert!(line.contains("-cdrom|image.iso") && line.contains("pflash") && !line.contains("-kernel"), "{line}");
    }

    #[test]
    fn the_kernel_is_told_its_build_and_whether_it_is_an_exec() {
        let options = Options { append: vec!["trace".into()], ..Options::default() };
        assert_eq!(kernel_words(&options, 0xab, true), "build=00000000000000ab exec trace");
        assert_eq!(kernel_words(&Options::default(), 1, false), "build=0000000000000001");
    }
}
