//! A clock server in a program of its own, which is sent a message at each tick (K1-M3). In the paper the timer interrupts in either
//! case, and sends the message or does not: what is compared is the message and the server's run. So here the player sends it,
//! after so many rounds, and gives way. And a program is sent messages by the machine's own clock, whose alarm interrupts whoever runs.

use crate::pool::{self, CLOCK, Posts};
use crate::rendezvous::Rendezvous;
use alloc::string::String;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::clock::Ticks;
use musubi::command::Child;
use musubi::interfaces::clock::ClockClient;
use musubi::rt::post::{self, FOR_EVER, Post};
use musubi::rt::{Answers, thread, time};
use musubi::{Error, names};

const TICK: u32 = 1;
/// Asks for an answer.
const SETTLE: u32 = 2;

/// A clock that goes.
pub struct Clock {
    server: Child,
    tasks: [Post; 3],
    by_rendezvous: bool,
}

impl Clock {
    /// It hears of ticks by messages of this way.
    pub fn start(posts: &Posts, way: &str) -> Result<Clock, String> {
        let by_rendezvous = way == "rendezvous";
        let server = posts.partner(if by_rendezvous { "clock-rendezvous" } else { "clock-pool" })?;
        let clock = Clock { server, tasks: posts.all(), by_rendezvous };
        // It is there, and everything is known that is found out once.
        (0..4).try_for_each(|now| clock.tick(now)).map_err(|e| alloc::format!("a tick: {e}"))?;
        Ok(clock)
    }

    /// One that the machine's clock sends a message every `every` ns.
    pub fn beside(posts: &Posts, every: u64) -> Result<Clock, String> {
        let server = posts.partner(&alloc::format!("ticks-{every}"))?;
        let clock = Clock { server, tasks: posts.all(), by_rendezvous: false };
        while clock.settle().map_err(|e| alloc::format!("the clock: {e}"))? < 4 {
            thread::yield_now();
        }
        Ok(clock)
    }

    /// A tick, the `now`th.
    pub fn tick(&self, now: u64) -> Result<(), Error> {
        if self.by_rendezvous {
            return Rendezvous { tasks: &self.tasks, me: CLOCK }.send(CLOCK, TICK, [now; 6]);
        }
        self.tasks[CLOCK].send(TICK, [now; 6], None)?;
        thread::yield_now();
        Ok(())
    }

    /// Waits until the server has heard of all ticks so far. How many it has received.
    pub fn settle(&self) -> Result<u64, Error> {
        self.tasks[CLOCK].ask(SETTLE, [0; 6], FOR_EVER).map(|answer| answer.words[0])
    }

    pub fn stop(self) -> Result<(), String> {
        pool::end(self.server)
    }
}

/// The server's main function.
pub fn serve(way: &str, tasks: &[Post; 3]) -> Result<(), Error> {
    let (me, mut now, mut heard) = (Rendezvous { tasks, me: CLOCK }, 0, 0);
    loop {
        let words = if way == "rendezvous" {
            let received = me.receive()?;
            if received.op == SETTLE {
                received.answer(SETTLE, [heard; 6])?;
                continue;
            }
            received.words
        } else {
            let message = tasks[CLOCK].receive(FOR_EVER)?;
            if message.op == SETTLE {
                post::answer(message.back, SETTLE, [heard; 6])?;
                continue;
            }
            message.words
        };
        heard += 1;
        now = words[0].max(now);
        core::hint::black_box(now);
    }
}

/// The main function of one that the machine's clock tells.
pub fn hear(every: &str, tasks: &[Post; 3]) -> Result<(), Error> {
    static HEARD: AtomicU64 = AtomicU64::new(0);
    let every = every.parse().map_err(|_| Error::BadArgument)?;
    thread::spawn(move || _ = count(every, &HEARD), 0)?;
    loop {
        let question = tasks[CLOCK].receive(FOR_EVER)?;
        post::answer(question.back, SETTLE, [HEARD.load(Ordering::SeqCst); 6])?;
    }
}

fn count(every: u64, heard: &AtomicU64) -> Result<(), Error> {
    let clock = ClockClient::bind(names::lookup("clock")?)?;
    let answers = Answers::new()?;
    let mut ticks = Ticks::new(&clock, &answers, time::now_ns() + every, every)?;
    loop {
        ticks.wait()?;
        heard.fetch_add(1, Ordering::SeqCst);
    }
}
