//! The order of locks by which the kernel tells, asks and puts out, under every interleaving that shuttle finds: first the
//! thread is ready, then it is announced; first the seat is empty, then the threads are looked through.

use super::*;
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;

#[derive(Default)]
struct Machine {
    life: Mutex<Life>,
    seat: Mutex<(Seat<()>, Vec<u64>)>,
    /// Whether the thread has been named and is not here yet. Under the seat's lock.
    named: Mutex<bool>,
    queue: Mutex<Vec<u64>>,
    runs: Mutex<u32>,
}

impl Machine {
    /// A wake-up.
    fn wake(&self) {
        let Some(turn) = self.life.lock().unwrap().ready() else { return };
        let mut seat = self.seat.lock().unwrap();
        if seat.0.holder().is_some() {
            seat.1.push(turn);
        } else {
            drop(seat);
            self.queue.lock().unwrap().push(turn);
        }
    }

    fn dismiss(&self) {
        {
            let mut seat = self.seat.lock().unwrap();
            if seat.0.dismiss(Reason::Slow, 0).is_none() {
                return;
            }
            if std::mem::take(&mut *self.named.lock().unwrap()) {
                self.life.lock().unwrap().ready();
            }
        }
        let life = *self.life.lock().unwrap();
        if life.phase() == Phase::Ready {
            self.queue.lock().unwrap().push(life.turn());
        }
    }

    /// One turn of the thread, by whoever gets it; then it waits.
    fn run(&self, turn: u64) {
        if self.life.lock().unwrap().claim(turn, 0).is_ok() {
            self.has_run();
        }
    }

    fn has_run(&self) {
        let mut runs = self.runs.lock().unwrap();
        *runs += 1;
        drop(runs);
        assert!(self.life.lock().unwrap().wait());
    }

    /// A thread that does not sit in the seat passes the processor on: who sits there may be put out by another processor
    /// meanwhile.
    fn passes(&self) {
        let known: Vec<u64> = self.seat.lock().unwrap().1.drain(..).collect();
        for turn in known {
            if self.life.lock().unwrap().claim(turn, 0).is_err() {
                continue;
            }
            let seat = self.seat.lock().unwrap();
            if seat.0.holder().is_some() {
                *self.named.lock().unwrap() = true;
                continue;
            }
            drop(seat);
            let turn = self.life.lock().unwrap().ready().unwrap();
            self.queue.lock().unwrap().push(turn);
        }
        self.goes_on();
    }

    /// The processor goes on with whom it was told.
    fn goes_on(&self) {
        let seat = self.seat.lock().unwrap();
        if seat.0.holder().is_some() && std::mem::take(&mut *self.named.lock().unwrap()) {
            drop(seat);
            self.has_run();
        }
    }

    fn scheduler(&self) {
        let known: Vec<u64> = self.seat.lock().unwrap().1.drain(..).collect();
        known.into_iter().for_each(|turn| self.run(turn));
    }

    fn round_robin(&self) {
        let queue: Vec<u64> = self.queue.lock().unwrap().drain(..).collect();
        queue.into_iter().for_each(|turn| self.run(turn));
    }
}

#[test]
fn every_wake_up_runs_once_while_a_scheduler_is_put_out() {
    let body = || {
        let machine = Arc::new(Machine::default());
        machine.seat.lock().unwrap().0.sit((), 0);
        let also = |what: fn(&Machine)| {
            let machine = machine.clone();
            thread::spawn(move || what(&machine))
        };
        let all = [
            also(Machine::wake),
            also(Machine::scheduler),
            also(Machine::passes),
            also(Machine::dismiss),
            also(Machine::round_robin),
        ];
        for one in all {
            one.join().unwrap();
        }
        // The processor goes on in turn.
        machine.round_robin();
        assert_eq!(*machine.runs.lock().unwrap(), 1);
        assert_eq!(machine.life.lock().unwrap().phase(), Phase::Waiting);
    };
    shuttle::check_random(body, 20_000);
    shuttle::check_pct(body, 5_000, 3);
}
