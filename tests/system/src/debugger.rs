//! QEMU's own debugger (`gdbserver`; GDB's remote protocol), as far as a test needs it: to stop a machine at an instruction, and to have its processor do what an exception does.

use crate::lab::Failure;
use crate::session::Session;
use anyhow::{Context, Result, bail, ensure};
use elf::ElfBytes;
use elf::endian::LittleEndian;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long the machine may take to come to an instruction.
const PATIENCE: Duration = Duration::from_secs(60);

/// A machine that stands still until it is let go on.
pub struct Debugger {
    stream: UnixStream,
    _folder: TempDir,
}

impl Debugger {
    /// Stops the machine of this session.
    pub fn attach(session: &mut Session) -> Result<Self, Failure> {
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let path = folder.path().join("gdb");
        // Another one may have been there before.
        session.keys(&format!("\x1dcgdbserver none\ngdbserver unix:{},server=on,wait=off\n\x1dc", path.display()))?;
        let mut debugger = Self { stream: connect(&path)?, _folder: folder };
        debugger.be_quiet()?;
        Ok(debugger)
    }

    /// It says that the machine has stopped, once or twice, and perhaps not at once.
    fn be_quiet(&mut self) -> Result<()> {
        self.stream.set_read_timeout(Some(PATIENCE))?;
        self.ask("?")?;
        self.stream.set_read_timeout(Some(Duration::from_millis(500)))?;
        while self.stream.read(&mut [0; 256]).is_ok_and(|len| len > 0) {}
        Ok(self.stream.set_read_timeout(Some(PATIENCE))?)
    }

    /// Lets it go on until it is to execute the instruction at this address.
    pub fn run_to(&mut self, address: u64) -> Result<()> {
        self.has_done(&format!("Z1,{address:x},1"))?;
        let stopped = self.ask("c")?;
        ensure!(stopped.starts_with(['T', 'S']), "the machine did not stop: {stopped:?}");
        self.has_done(&format!("z1,{address:x},1"))
    }

    /// Lets it go on until it is found in a program, in user mode, with this value of the flag AC. Value: where.
    pub fn run_in_user_mode(&mut self, alignment_check: u32) -> Result<u64> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            self.send("c")?;
            std::thread::sleep(Duration::from_millis(50));
            self.stream.write_all(b"\x03").context("the debugger is gone")?;
            let stopped = self.answer()?;
            ensure!(stopped.starts_with(['T', 'S']), "the machine did not stop: {stopped:?}");
            let at = Registers(self.ask("g")?);
            if at.word(CS)? & 3 == 3 && at.word(FLAGS)? & 0x4_0000 == alignment_check {
                return at.long(RIP);
            }
        }
        bail!("no program is found in user mode")
    }

    /// Has the processor, which is in user mode, do what an exception does (Intel SDM 3A, 6.14): a frame on the stack that the kernel names, with an error
    /// code of 0 where there is one, kernel segments, no interrupts. `vectors`: where the kernel begins with each, 16 bytes apart.
    pub fn raise(&mut self, vectors: u64, vector: u64) -> Result<()> {
        let mut registers = Registers(self.ask("g")?);
        let context = self.memory(registers.long(KERNEL_GS)?)? & !15;
        let code = matches!(vector, 8 | 10..=14 | 17 | 21 | 29 | 30).then_some(0);
        let frame = [
            registers.long(RIP)?,
            u64::from(registers.word(CS)?),
            u64::from(registers.word(FLAGS)?),
            registers.long(RSP)?,
            u64::from(registers.word(SS)?),
        ];
        let words: Vec<u64> = code.into_iter().chain(frame).collect();
        let at = context - 8 * words.len() as u64;
        let bytes: String =
            words.iter().flat_map(|word| word.to_le_bytes()).map(|byte| format!("{byte:02x}")).collect();
        self.has_done(&format!("M{at:x},{:x}:{bytes}", bytes.len() / 2))?;
        let flags = registers.word(FLAGS)? & !INTERRUPTS_AND_STEPS;
        registers.set(RIP, &(vectors + 16 * vector).to_le_bytes());
        registers.set(RSP, &at.to_le_bytes());
        registers.set(FLAGS, &flags.to_le_bytes());
        registers.set(CS, &KERNEL_CODE.to_le_bytes());
        registers.set(SS, &KERNEL_DATA.to_le_bytes());
        self.has_done(&format!("G{}", registers.0))
    }

    /// Eight bytes there.
    fn memory(&mut self, at: u64) -> Result<u64> {
        Registers(self.ask(&format!("m{at:x},8"))?).long(0)
    }

    /// Lets it go on for good.
    pub fn detach(mut self) -> Result<()> {
        self.has_done("D")
    }

    fn has_done(&mut self, packet: &str) -> Result<()> {
        match self.ask(packet)?.as_str() {
            "OK" => Ok(()),
            answer => bail!("the debugger answers {answer:?} to {packet:?}"),
        }
    }

    fn ask(&mut self, packet: &str) -> Result<String> {
        self.send(packet)?;
        self.answer()
    }

    fn send(&mut self, packet: &str) -> Result<()> {
        let sum = packet.bytes().fold(0_u8, u8::wrapping_add);
        write!(self.stream, "${packet}#{sum:02x}").context("the debugger is gone")
    }

    fn answer(&mut self) -> Result<String> {
        let mut next = || -> Result<u8> {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).context("the debugger does not answer")?;
            Ok(byte[0])
        };
        while next()? != b'$' {}
        let mut answer = String::new();
        loop {
            match next()? {
                b'#' => break,
                byte => answer.push(char::from(byte)),
            }
        }
        (next()?, next()?);
        self.stream.write_all(b"+").context("the debugger is gone")?;
        Ok(answer)
    }
}

/// All registers, as the debugger writes them: bytes of two digits.
struct Registers(String);

/// Where they stand among them (QEMU's `i386-64bit.xml`).
const RSP: usize = 7 * 8;
const RIP: usize = 16 * 8;
const FLAGS: usize = RIP + 8;
const CS: usize = FLAGS + 4;
const SS: usize = CS + 4;
const KERNEL_GS: usize = CS + 6 * 4 + 2 * 8;

/// The kernel's segments (`kernel/arch/src/context.rs`), and what an interrupt gate clears: IF, TF, NT and RF.
const KERNEL_CODE: u32 = 0x08;
const KERNEL_DATA: u32 = 0x10;
const INTERRUPTS_AND_STEPS: u32 = 0x1_4300;

impl Registers {
    fn bytes<const N: usize>(&self, at: usize) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        for (n, byte) in bytes.iter_mut().enumerate() {
            let digits = self.0.get(2 * (at + n)..2 * (at + n + 1)).context("too few registers")?;
            *byte = u8::from_str_radix(digits, 16).with_context(|| format!("the debugger answers {:?}", self.0))?;
        }
        Ok(bytes)
    }

    fn word(&self, at: usize) -> Result<u32> {
        self.bytes(at).map(u32::from_le_bytes)
    }

    fn long(&self, at: usize) -> Result<u64> {
        self.bytes(at).map(u64::from_le_bytes)
    }

    fn set(&mut self, at: usize, bytes: &[u8]) {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.0.replace_range(2 * at..2 * at + digits.len(), &digits);
    }
}

fn connect(path: &Path) -> Result<UnixStream> {
    let until = Instant::now() + PATIENCE;
    loop {
        match UnixStream::connect(path) {
            Err(_) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            stream => return stream.with_context(|| path.display().to_string()),
        }
    }
}

/// Where a symbol of this ELF file lies.
pub fn address_of(file: &[u8], name: &str) -> Result<u64> {
    let elf = ElfBytes::<LittleEndian>::minimal_parse(file).context("not an ELF file")?;
    let (symbols, names) = elf.symbol_table()?.context("it has no symbols")?;
    let is_it = |symbol: &elf::symbol::Symbol| names.get(symbol.st_name as usize).is_ok_and(|found| found == name);
    Ok(symbols.iter().find(is_it).with_context(|| format!("no symbol {name}"))?.st_value)
}
