//! Where output goes.

use crate::host::ToHost;
use crate::screen::Screen;
use crate::serial;
use alloc::boxed::Box;
use alloc::vec::Vec;
use musubi::order::Order;
use musubi::rt::Mutex;
use musubi::rt::section::{Device, Ports};
use musubi::rt::serve::away;
use musubi::{Caller, Error};

pub enum Output {
    /// The host's tool, which has the output and the errors apart.
    Exec {
        host: ToHost,
        orders: [Order; 2],
    },
    Terminal {
        serial: Option<Ports>,
        line: Mutex<()>,
        screen: Option<Box<Mutex<(Device, Screen)>>>,
        order: Order,
    },
}

impl Output {
    pub fn exec(host: ToHost) -> Output {
        Output::Exec { host, orders: [const { Order::new() }; 2] }
    }

    pub fn terminal(serial: Option<Ports>, screen: Option<(Device, Screen)>) -> Output {
        if let Some(ports) = serial {
            serial::begin(ports);
        }
        let screen = screen.map(|s| Box::new(Mutex::new(s)));
        Output::Terminal { serial, line: Mutex::new(()), screen, order: Order::new() }
    }

    pub fn is_exec(&self) -> bool {
        matches!(self, Output::Exec { .. })
    }

    /// Most bytes taken over by one call. A line may take a millisecond for ten, and a screen as long for each line feed: whoever is killed meanwhile is to be
    /// through with it, since it is shown with a lock in hand.
    pub fn most(&self) -> usize {
        if self.is_exec() { 64 << 10 } else { 4 << 10 }
    }

    pub fn serial(&self) -> Option<Ports> {
        match self {
            Output::Exec { .. } => None,
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

    /// Writes to the output (1) or the errors (2), when it is the caller's turn ([`Order`]).
    pub fn write(&self, caller: &Caller, id: u64, bytes: &[u8]) -> Result<(), Error> {
        match self {
            // Byte for byte what programs write: another one's half line is not ended for him.
            Output::Exec { host, orders } => {
                let order = &orders[usize::from(id == 2)];
                in_turn(order, caller, bytes, |_| host.write(id as u8, bytes))
            }
            Output::Terminal { order, .. } => in_turn(order, caller, bytes, |broken| {
                if broken {
                    self.show(b"\n")?;
                }
                self.show(bytes)
            }),
        }
    }

    /// What is shown of what somebody types.
    pub fn echo(&self, bytes: &[u8]) {
        if let Output::Terminal { order, .. } = self {
            order.echo(bytes, || _ = self.show(bytes));
        }
    }

    fn show(&self, bytes: &[u8]) -> Result<(), Error> {
        let Output::Terminal { serial, line, screen, .. } = self else { return Ok(()) };
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

/// When it is the turn of the caller's program. By a post, another thread serves meanwhile, if there is one to be had: it is not for long.
fn in_turn(
    order: &Order,
    caller: &Caller,
    bytes: &[u8],
    write: impl FnOnce(bool) -> Result<(), Error>,
) -> Result<(), Error> {
    order.write(caller.task, bytes, || away(caller).ok(), write)
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
