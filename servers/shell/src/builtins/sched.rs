//! Which scheduler the processors have.

use super::{misused, text};
use crate::io::Io;
use crate::say;
use crate::shell::Shell;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::interfaces::sched::SchedService;
use musubi::{Error, why};

pub fn sched(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    let rest: Vec<&str> = words[1..].iter().map(|word| text(word)).collect();
    let done = match rest.as_slice() {
        [] => tell(0, io),
        ["log"] => tell(1, io),
        ["trace"] => tell(2, io),
        ["calls"] => tell(3, io),
        ["use", name] => client().and_then(|sched| sched.choose(name)),
        _ => return misused(words, io),
    };
    match done {
        Ok(()) => 0,
        Err(e) => {
            io.complain("sched", format_args!("{}", why(e)));
            1
        }
    }
}

fn client() -> Result<SchedService, Error> {
    musubi::names::server("sched").map(|gate| SchedService::new_with_args(gate, 4096))
}

fn tell(log: u64, io: &mut Io) -> Result<(), Error> {
    let sched = client()?;
    let mut line = [0; 2048];
    for index in 0.. {
        match sched.line(log, index, &mut line) {
            Ok(len) => say!(io, "{}", String::from_utf8_lossy(&line[..(len as usize).min(line.len())])),
            Err(Error::NotFound) => break,
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
