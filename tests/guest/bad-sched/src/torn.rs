//! A scheduler that does what it should in its seat, and goes wrong on the threads that call it.

use alloc::boxed::Box;
use musubi::interfaces::passing::{Passing, passing_serve};
use musubi::rt::gate::ANYBODY;
use musubi::rt::probe;
use musubi::{Caller, Error};

struct Torn {
    loops: bool,
}

pub fn offer(mode: &str) -> Result<(), Error> {
    let gates = passing_serve(Box::leak(Box::new(Torn { loops: mode == "passing-loop" })))?;
    gates.admit(&ANYBODY)?;
    musubi::names::publish("passing", &gates)
}

impl Torn {
    fn go_wrong(&self) -> Result<(), Error> {
        while self.loops {
            core::hint::spin_loop();
        }
        probe::read(0x1000);
        Ok(())
    }
}

impl Passing for Torn {
    fn sleep(&self, _: &Caller) -> Result<(), Error> {
        self.go_wrong()
    }

    fn wake_up(&self, _: &Caller, _: u64) -> Result<(), Error> {
        self.go_wrong()
    }

    fn pass(&self, _: &Caller, _: u64) -> Result<(), Error> {
        self.go_wrong()
    }

    fn entered(&self, _: u64) -> Result<u64, Error> {
        Ok(0)
    }
}
