//! The program's streams, and printing.

use crate::order::Order;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::{self, Write};
use interfaces::stream::StreamService;
use rt::abi::start::StreamRef;
use rt::{Error, Mutex};

/// Most bytes passed in one call: several calls fit into one argument section.
const PART: usize = 8 << 10;

/// Of so many calls at a time each finds room for `PART` bytes in one argument section, wherever the others have theirs: who waits for a stream
/// keeps his room as long.
const SHARERS: usize = 4;

/// Bindings to servers of streams, made when they are needed and kept as long as they are among those used last.
static CLIENTS: Mutex<Clients<StreamService>> = Mutex::new(Clients::new());

/// So many: each has an argument section, and a program that works for others (the Linux personality) meets gates without an end.
const MOST: usize = 64;

/// By gate, several for one if many call at a time; the one used last comes last.
struct Clients<T>(Vec<(u64, Arc<T>)>);

impl<T> Clients<T> {
    const fn new() -> Clients<T> {
        Clients(Vec::new())
    }

    /// The one for a gate, and one that has to go for it.
    fn of(&mut self, gate: u64, make: impl FnOnce(u64) -> T) -> (Arc<T>, Option<Arc<T>>) {
        let all = &mut self.0;
        let mut gone = None;
        // (Who was ended in a call counts for good, as what he was lent stays lent.)
        match all.iter().position(|one| one.0 == gate && Arc::strong_count(&one.1) <= SHARERS) {
            Some(at) => all[at..].rotate_left(1),
            None => {
                if all.len() >= MOST {
                    gone = Some(all.remove(0).1);
                }
                all.push((gate, Arc::new(make(gate))));
            }
        }
        (all[all.len() - 1].1.clone(), gone)
    }
}

fn client(gate: u64) -> Result<Arc<StreamService>, Error> {
    if gate == 0 {
        return Err(Error::NotFound);
    }
    // Its binding ends with its last user, without the lock.
    let (client, _gone) = CLIENTS.lock().of(gate, StreamService::new);
    Ok(client)
}

/// A stream that can be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream(pub StreamRef);

/// Standard input.
#[must_use]
pub fn input() -> Stream {
    Stream(rt::start().stream(0))
}

/// Standard output.
#[must_use]
pub fn output() -> Stream {
    Stream(rt::start().stream(1))
}

/// Where errors are printed.
#[must_use]
pub fn errors() -> Stream {
    Stream(rt::start().stream(2))
}

impl Stream {
    /// Reads some bytes. Value: how many; 0 at the end.
    ///
    /// At a console it goes on with the next one if that ends in the middle: what was typed and not read is lost then anyhow
    /// (docs/decisions/0011), and a person types it again. From anything else bytes may be gone that nobody has got, and that is said.
    ///
    /// # Errors
    /// `NotFound` if the stream is closed; `Dead` if its server has ended in the middle; what the server answers.
    pub fn read(self, buffer: &mut [u8]) -> Result<usize, Error> {
        let len = buffer.len().min(PART);
        loop {
            match client(self.0.gate)?.read(self.0.id, &mut buffer[..len]) {
                Err(Error::Dead) if self.is_console() => {}
                n => return Ok((n? as usize).min(len)),
            }
        }
    }

    /// Writes all bytes.
    ///
    /// # Errors
    /// `NotFound` if the stream is closed, `Dead` if nobody will read them; what the server answers.
    pub fn write_all(self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            let part = &bytes[..bytes.len().min(PART)];
            let n = client(self.0.gate)?.write(self.0.id, part)?;
            bytes = &bytes[(n as usize).clamp(1, part.len())..];
        }
        Ok(())
    }

    /// # Errors
    /// What the server answers.
    pub fn close(self) -> Result<(), Error> {
        client(self.0.gate)?.close(self.0.id)
    }

    /// Whether a person sits at the other end.
    #[must_use]
    pub fn is_console(self) -> bool {
        client(self.0.gate).and_then(|c| c.is_console(self.0.id)).unwrap_or(false)
    }
}

impl Write for Stream {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.write_all(s.as_bytes()).map_err(|_| fmt::Error)
    }
}

/// Whose line it is between the threads of this program. Nothing is locked meanwhile: who is ended in the middle is waited for once.
static ORDER: Order = Order::new();

/// Writes what a thread prints, when it is its turn.
fn write_in_turn(stream: usize, text: &str) {
    let write = |_| Stream(rt::start().stream(stream)).write_all(text.as_bytes());
    let _ = ORDER.write(rt::thread::me().into(), text.as_bytes(), || (), write);
}

/// What `print!` calls. The text is made first and written by one call; a line in several pieces is kept whole, too, between threads.
#[doc(hidden)]
pub fn print(stream: usize, arguments: fmt::Arguments<'_>) {
    match arguments.as_str() {
        Some("") => {}
        Some(text) => write_in_turn(stream, text),
        None => {
            let mut text = String::new();
            let _ = text.write_fmt(arguments);
            write_in_turn(stream, &text);
        }
    }
}

#[doc(hidden)]
pub fn print_line(stream: usize, arguments: fmt::Arguments<'_>) {
    let mut text = String::new();
    let _ = text.write_fmt(arguments);
    text.push('\n');
    write_in_turn(stream, &text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_bounded_and_those_used_last_stay() {
        let mut clients = Clients::new();
        let of = |clients: &mut Clients<u64>, gate: u64| clients.of(gate, |gate| gate);
        for gate in 1..1000u64 {
            let (one, gone) = of(&mut clients, gate);
            assert_eq!((*one, gone.is_some()), (gate, clients.0.len() == MOST && gate > MOST as u64));
            // It is used all the time.
            let (first, gone) = of(&mut clients, 1);
            assert_eq!((*first, gone), (1, None));
            assert!(clients.0.len() <= MOST);
        }
        let (last, gone) = of(&mut clients, 2000);
        assert_eq!((*last, gone.as_deref()), (2000, Some(&(999 - MOST as u64 + 2))), "the one used longest ago");
    }

    #[test]
    fn calls_at_one_gate_wait_for_room_of_no_other() {
        let mut clients = Clients::new();
        let mut next = 0;
        let mut of = |clients: &mut Clients<u64>| {
            clients.of(7, |_| {
                next += 1;
                next
            })
        };
        let waiting: Vec<_> = (0..SHARERS * 3).map(|_| of(&mut clients).0).collect();
        for one in 1..=3 {
            assert_eq!(waiting.iter().filter(|client| ***client == one).count(), SHARERS);
        }
        drop(waiting);
        // Later on one is enough.
        for _ in 0..10 {
            let _ = of(&mut clients);
        }
        assert_eq!((next, clients.0.len()), (3, 3));
        // Each keeps its place in the argument section, and a gap for one more is between the others', wherever they are.
        let lent = (SHARERS - 1) * PART;
        assert!((rt::bound::ARGS_DEFAULT as usize - lent) / SHARERS >= PART);
    }
}
