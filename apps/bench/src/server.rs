//! The server that is called: a second instance of this program.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::gate::flag;
use musubi::command::{Child, Command};
use musubi::interfaces::measure::{Measure, measure_serve_by};
use musubi::rt::gate::{ANYBODY, Skeleton, Values};
use musubi::rt::post::Post;
use musubi::rt::serve::Ways;
use musubi::rt::{Condition, Gates, Mutex, thread};
use musubi::{AclEntry, Caller, Error, eprintln, why};

struct Server {
    copied: AtomicU64,
    copies: AtomicU64,
    on_callers_stack: AtomicU64,
    door: Mutex<Door>,
    moved: Condition,
}

#[derive(PartialEq, Eq)]
enum Door {
    Open,
    ToClose,
    Closed(Result<(), Error>),
}

static SERVER: Server = Server {
    copied: AtomicU64::new(0),
    copies: AtomicU64::new(0),
    on_callers_stack: AtomicU64::new(0),
    door: Mutex::new(Door::Open),
    moved: Condition::new(),
};

/// What the result of `answer` consists of.
pub const PREPARED: u8 = 0x5a;

impl Measure for Server {
    fn null(&self) {}

    fn take(&self, data: &[u8]) {
        look(data);
    }

    fn prepare(&self, result: &mut [u8]) {
        result.fill(PREPARED);
    }

    fn answer(&self, data: &[u8], _result: &mut [u8]) {
        look(data);
    }

    fn copy(&self, data: &[u8], result: &mut [u8]) -> Result<(), Error> {
        result.get_mut(..data.len()).ok_or(Error::BadArgument)?.copy_from_slice(data);
        // One client calls on one thread, so nothing is lost between load and store.
        let add = |to: &AtomicU64, n| to.store(to.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        add(&self.copied, data.len() as u64);
        add(&self.copies, 1);
        Ok(())
    }

    fn copied(&self) -> u64 {
        self.copied.load(Ordering::Relaxed)
    }

    fn copies(&self) -> u64 {
        self.copies.load(Ordering::Relaxed)
    }

    fn on_callers_stack(&self) -> u64 {
        self.on_callers_stack.load(Ordering::Relaxed)
    }

    fn close(&self) -> Result<(), Error> {
        // The server's own thread may change who may call; its client's may not.
        let mut door = self.door.lock();
        *door = Door::ToClose;
        self.moved.notify_all();
        loop {
            if let Door::Closed(outcome) = *door {
                return outcome;
            }
            self.moved.wait(&mut door, u64::MAX)?;
        }
    }
}

/// A function that is called on its caller's stack (CUBIX-30), and does nothing.
struct Null;

impl Skeleton for Null {
    fn dispatch(&self, _: &Caller, _: u64, _: &[u64; 6]) -> Values {
        Values(0, 0)
    }
}

impl Server {
    fn keep_the_door(&self, gates: &Gates) -> Result<(), Error> {
        let mut door = self.door.lock();
        while *door != Door::ToClose {
            self.moved.wait(&mut door, u64::MAX)?;
        }
        *door = Door::Closed(gates.admit(&AclEntry { rights: 0, ..ANYBODY }));
        self.moved.notify_all();
        Ok(())
    }
}

/// Looks at the first and the last byte.
#[inline]
pub fn look(data: &[u8]) {
    black_box((data.first().copied(), data.last().copied()));
}

/// The server's main function.
pub fn serve(name: &str) -> i32 {
    let serve = || {
        let gates = measure_serve_by(&SERVER, Ways::default().lines(4).post(Post::any()?))?;
        let on_callers_stack = Gates::export_with(Null, 1, flag::CALLER_STACK)?.address();
        SERVER.on_callers_stack.store(on_callers_stack, Ordering::Relaxed);
        musubi::names::publish(name, &gates)?;
        SERVER.keep_the_door(&gates)
    };
    match serve() {
        Ok(()) => thread::park(),
        Err(e) => {
            eprintln!("bench: {name}: {}", why(e));
            1
        }
    }
}

/// Starts a server, gives `body` the address of its gates, and ends it.
pub fn with(body: impl FnOnce(u64) -> Result<(), String>) -> Result<(), String> {
    with_many(1, |gates| body(gates[0]))
}

/// The same with several servers.
pub fn with_many(count: usize, body: impl FnOnce(&[u64]) -> Result<(), String>) -> Result<(), String> {
    let mut servers = Vec::new();
    let outcome = start(count, &mut servers).and_then(|gates| body(&gates));
    for server in servers {
        let _ = server.kill();
        // Its name is free again when it has ended.
        let _ = server.wait();
    }
    outcome
}

fn start(count: usize, servers: &mut Vec<Child>) -> Result<Vec<u64>, String> {
    let name = |number: usize| format!("bench-{}-{number}", musubi::start().task());
    for number in 0..count {
        let command = Command::new(b"bin/bench").arg(b"serve").arg(name(number).as_bytes());
        servers.push(command.spawn().map_err(|e| format!("bin/bench, number {number}: {e}"))?);
    }
    let ready = |(number, server): (usize, &Child)| {
        musubi::names::await_name(&name(number), 60_000_000_000).map_err(|e| {
            let ended = server.wait_for(1_000_000).map_or(String::from("runs"), |exit| format!("{exit:x?}"));
            format!("server {number}: {e}; it {ended}")
        })
    };
    servers.iter().enumerate().map(ready).collect()
}
