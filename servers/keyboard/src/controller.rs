//! The PS/2 controller (8042).

use musubi::Error;
use musubi::rt::section::Ports;

// Ports, counted from 0x60.
const DATA: u64 = 0;
const COMMAND: u64 = 4;
const FULL: u64 = 1;
const BUSY: u64 = 2;
/// What the keyboard answers to a command: no key.
pub const ACKNOWLEDGED: u8 = 0xfa;

/// The controller behind these ports.
#[derive(Clone, Copy, Debug)]
pub struct Controller(pub Ports);

impl Controller {
    /// Keyboard on, interrupt on, translation to set 1 on; firmware mostly did it already.
    pub fn begin(self) -> Result<(), Error> {
        while self.take().is_some() {}
        self.send(COMMAND, 0x20)?;
        let settings = self.receive()?;
        self.send(COMMAND, 0x60)?;
        self.send(DATA, (settings | 0x41) & !0x10)?;
        self.send(COMMAND, 0xae)?;
        self.send(DATA, 0xf4)
    }

    /// The next byte, if there is one.
    pub fn take(self) -> Option<u8> {
        if self.is_full() { self.0.read(DATA, 1).ok().map(|byte| byte as u8) } else { None }
    }

    /// The byte that is written next comes back as if the keyboard had sent it. For a controller that is ready.
    pub fn echo_next(self) -> Result<(), Error> {
        self.0.write(COMMAND, 1, 0xd2)
    }

    /// Whether a byte waits to be taken.
    pub fn is_full(self) -> bool {
        self.0.read(COMMAND, 1).is_ok_and(|status| status & FULL != 0)
    }

    pub fn write(self, byte: u8) -> Result<(), Error> {
        self.0.write(DATA, 1, u64::from(byte))
    }

    /// Sends a byte to a port when the controller is ready.
    fn send(self, port: u64, byte: u64) -> Result<(), Error> {
        let ready = (0..100_000).any(|_| self.0.read(COMMAND, 1).is_ok_and(|status| status & BUSY == 0));
        if ready { self.0.write(port, 1, byte) } else { Err(Error::TimedOut) }
    }

    fn receive(self) -> Result<u64, Error> {
        let ready = (0..100_000).any(|_| self.0.read(COMMAND, 1).is_ok_and(|status| status & FULL != 0));
        if ready { self.0.read(DATA, 1) } else { Err(Error::TimedOut) }
    }
}
