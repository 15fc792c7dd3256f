//! The 16550 serial line.

use musubi::Error;
use musubi::driver::Arrivals;
use musubi::rt::section::Ports;

// Ports of the chip, counted from its first.
const DATA: u64 = 0;
const INTERRUPTS: u64 = 1;
const FIFO: u64 = 2;
const LINE: u64 = 3;
const MODEM: u64 = 4;
const STATUS: u64 = 5;

const RECEIVED: u64 = 1;
const SENT: u64 = 0x20;
/// Bytes that the chip takes at once when it has sent everything.
const FIFO_LEN: usize = 16;
/// A chip that never becomes ready is given up after so many looks.
const PATIENCE: usize = 1_000_000;

/// 115200 bits a second, eight bits, an interrupt for each byte received.
pub fn begin(ports: Ports) {
    let steps = [
        (INTERRUPTS, 0),
        (LINE, 0x80),
        (DATA, 1),
        (INTERRUPTS, 0),
        (LINE, 3),
        (FIFO, 7),
        (MODEM, 0x0b),
        (INTERRUPTS, 1),
    ];
    for (port, value) in steps {
        let _ = ports.write(port, 1, value);
    }
}

pub fn write(ports: Ports, bytes: &[u8]) -> Result<(), Error> {
    for part in bytes.chunks(FIFO_LEN) {
        let mut looks = 0;
        while ports.read(STATUS, 1)? & SENT == 0 {
            looks += 1;
            if looks > PATIENCE {
                return Err(Error::TimedOut);
            }
        }
        ports.write_shared(DATA, part)?;
    }
    Ok(())
}

/// Hands on what is received, for ever.
pub fn listen(ports: Ports, arrive: impl Fn(u8)) {
    let mut arrivals = Arrivals::of(ports);
    loop {
        while ports.read(STATUS, 1).is_ok_and(|status| status & RECEIVED != 0) {
            if let Ok(byte) = ports.read(DATA, 1) {
                // Terminals send a return for the enter key; 0xff alone is what an absent chip reads as.
                arrive(byte as u8);
            }
        }
        // The time limit is for chips whose interrupt gets lost.
        if arrivals.and_then(|arrivals| arrivals.wait(1_000_000_000)).is_err() {
            musubi::rt::time::sleep_ns(50_000_000);
            arrivals = Arrivals::of(ports);
        }
    }
}
