//! What it costs that a thread passes on to another and gets it back: two switches between threads, by the kernel's round
//! robin and by schedulers outside the kernel (CUBIX-M7).

use crate::report::{Case, Report};
use crate::rounds::Plan;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::sync::atomic::{AtomicBool, Ordering};
use musubi::interfaces::passing::PassingClient;
use musubi::interfaces::sched::SchedClient;
use musubi::rt::{sched, task, thread};
use musubi::{Error, names};

const ROUNDS: usize = 500;
/// What it is called in the table, and what is asked for.
const WAYS: [(&str, &str); 4] =
    [("in-turn", "none"), ("improved", "ageing"), ("passing", "ageing"), ("initial", "initial")];

static STOP: AtomicBool = AtomicBool::new(false);

pub fn run(report: &Report) -> Result<(), String> {
    let chooser = names::lookup("sched").and_then(|gate| SchedClient::bind_with_args(gate, 4096));
    let chooser = chooser.map_err(|e| format!("sched: {e}"))?;
    let mut outcome = Ok(());
    for (way, name) in WAYS {
        let measured = chooser.choose(name).and_then(|()| match way {
            "passing" => names::lookup("passing")
                .and_then(PassingClient::bind)
                .and_then(|p| measure(report, way, &*Box::leak(Box::new(p)))),
            _ => measure(report, way, Calls),
        });
        outcome = measured.map_err(|e| format!("{way}: {e}"));
        if outcome.is_err() {
            break;
        }
    }
    chooser.choose("none").map_err(|e| format!("none: {e}"))?;
    outcome
}

/// How the scheduler is asked.
trait Ask: Copy + Send + 'static {
    fn sleep(self) -> Result<(), Error>;
    fn wake_up(self, thread: u64) -> Result<(), Error>;
    fn pass(self, thread: u64) -> Result<(), Error>;
}

/// By a call of the kernel.
#[derive(Clone, Copy)]
struct Calls;

impl Ask for Calls {
    fn sleep(self) -> Result<(), Error> {
        sched::sleep(u64::MAX)
    }
    fn wake_up(self, thread: u64) -> Result<(), Error> {
        sched::wake_up(thread)
    }
    fn pass(self, thread: u64) -> Result<(), Error> {
        sched::pass(thread, u64::MAX)
    }
}

/// By a call of the scheduler itself.
impl Ask for &'static PassingClient {
    fn sleep(self) -> Result<(), Error> {
        PassingClient::sleep(self)
    }
    fn wake_up(self, thread: u64) -> Result<(), Error> {
        PassingClient::wake_up(self, thread)
    }
    fn pass(self, thread: u64) -> Result<(), Error> {
        PassingClient::pass(self, thread)
    }
}

fn measure(report: &Report, way: &str, ask: impl Ask) -> Result<(), Error> {
    let me = task::identity().thread;
    STOP.store(false, Ordering::SeqCst);
    let other = thread::spawn(
        move || {
            let _ = ask.sleep();
            while !STOP.load(Ordering::SeqCst) {
                let _ = ask.pass(me);
            }
        },
        0,
    )?;
    let mut failed = Ok(());
    let first = || {
        let _ = ask.pass(other.number());
    };
    let rounds = Plan::after(ROUNDS, &first).measure(|| failed = ask.pass(other.number()));
    STOP.store(true, Ordering::SeqCst);
    ask.wake_up(other.number())?;
    other.join()?;
    failed?;
    report.case(Case { case: "pass-and-back", way, bytes: 0 }, &rounds, &[]);
    Ok(())
}
