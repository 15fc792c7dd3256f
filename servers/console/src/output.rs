//! Where output goes.

use crate::host::ToHost;
use crate::screen::Screen;
use crate::serial;
use alloc::boxed::Box;
use alloc::vec::Vec;
use musubi::Error;
use musubi::rt::Mutex;
use musubi::rt::section::{Device, Ports};

pub enum Output {
    /// The host's tool.
    Exec(ToHost),
    Terminal {
        serial: Option<Ports>,
        line: Mutex<()>,
        screen: Option<Box<Mutex<(Device, Screen)>>>,
    },
}

impl Output {
    pub fn terminal(serial: Option<Ports>, screen: Option<(Device, Screen)>) -> Output {
        if let Some(ports) = serial {
            serial::begin(ports);
        }
        Output::Terminal { serial, line: Mutex::new(()), screen: screen.map(|s| Box::new(Mutex::new(s))) }
    }

    pub fn is_exec(&self) -> bool {
        matches!(self, Output::Exec(_))
    }

    pub fn serial(&self) -> Option<Ports> {
        match self {
            Output::Exec(_) => None,
            Output::Terminal { serial, .. } => *serial,
        }
    }

    /// Columns and rows.
    pub fn size(&self) -> (u64, u64) {
        match self {
            Output::Terminal { screen: Some(screen), .. } => screen.lock().1.size(),
            _ => (80, 25),
        }
    }

    pub fn write(&self, id: u64, bytes: &[u8]) -> Result<(), Error> {
        match self {
            Output::Exec(host) => host.write(id as u8, bytes),
            Output::Terminal { serial, line, screen } => {
                let bytes = with_returns(bytes);
                if let Some(ports) = serial {
                    let _whole = line.lock();
                    serial::write(*ports, &bytes)?;
                }
                if let Some(screen) = screen {
                    let (memory, screen) = &mut *screen.lock();
                    screen.write(&bytes);
                    screen.show(|offset, pixels| memory.write(offset as u64, pixels));
                }
                Ok(())
            }
        }
    }
}

/// Terminals want a carriage return before a line feed.
fn with_returns(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 16);
    for &byte in bytes {
        if byte == b'\n' && out.last() != Some(&b'\r') {
            out.push(b'\r');
        }
        out.push(byte);
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn line_feeds_get_one_return() {
        assert_eq!(super::with_returns(b"a\nb\r\n\n"), b"a\r\nb\r\n\r\n");
    }
}
