//! QEMU's own debugger (`gdbserver`; GDB's remote protocol), as far as a test needs it: to stop a machine at an instruction.

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
        session.keys(&format!("\x1dcgdbserver unix:{},server=on,wait=off\n\x1dc", path.display()))?;
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
        let sum = packet.bytes().fold(0_u8, u8::wrapping_add);
        write!(self.stream, "${packet}#{sum:02x}").context("the debugger is gone")?;
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
