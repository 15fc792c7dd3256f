//! The machine's switch: whoever asks does it on its own thread, which may not switch anything off; a thread of this
//! program may.

use musubi::abi::task::{USER_PERSON, USER_SYSTEM};
use musubi::interfaces::power::Power;
use musubi::rt::{Condition, Mutex};
use musubi::{Caller, Error};

pub struct Switch {
    asked: Mutex<Option<u64>>,
    changed: Condition,
}

impl Switch {
    pub const fn new() -> Switch {
        Switch { asked: Mutex::new(None), changed: Condition::new() }
    }

    /// Waits until somebody asks. Value: the code.
    pub fn wait(&self) -> u64 {
        let mut asked = self.asked.lock();
        loop {
            if let Some(code) = *asked {
                return code;
            }
            let _ = self.changed.wait(&mut asked, u64::MAX);
        }
    }
}

impl Power for Switch {
    fn off(&self, caller: &Caller, code: u64) -> Result<(), Error> {
        if caller.user != USER_SYSTEM && caller.user != USER_PERSON {
            return Err(Error::Denied);
        }
        *self.asked.lock() = Some(code);
        self.changed.notify_all();
        Ok(())
    }
}
