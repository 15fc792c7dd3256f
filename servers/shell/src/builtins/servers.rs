//! The servers of the system: what they are doing, and who wants them restarted.

use super::table::{Table, time};
use super::{misused, text};
use crate::io::Io;
use crate::say;
use crate::shell::Shell;
use alloc::format;
use alloc::vec::Vec;
use musubi::servers::{Server, acts as act, state};
use musubi::{Error, why};

pub fn servers(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    let rest: Vec<&str> = words[1..].iter().map(|word| text(word)).collect();
    let done = match rest.as_slice() {
        [] => table(io).map_err(|e| format!("{}", why(e))),
        [what, name] => {
            let acts = [("restart", act::RESTART), ("stop", act::STOP), ("start", act::START), ("kill", act::KILL)];
            let Some((_, what)) = acts.iter().find(|(word, _)| word == what) else { return misused(words, io) };
            musubi::servers::act(name, *what).map_err(|e| match e {
                Error::NotFound => format!("{name}: there is no such server"),
                Error::Refused => format!("{name}: the machine is of no use without it"),
                Error::Dead => format!("{name}: it is stopped, or was given up"),
                e => format!("{name}: {}", why(e)),
            })
        }
        _ => return misused(words, io),
    };
    match done {
        Ok(()) => 0,
        Err(why) => {
            io.complain("servers", format_args!("{why}"));
            1
        }
    }
}

fn table(io: &mut Io) -> Result<(), Error> {
    let now = musubi::rt::time::now_ns();
    let mut table = Table::new(&["server", "state", "for", "task", "restarts", "last end"], &[2, 3, 4]);
    for Server { name, info, why } in musubi::servers::list()? {
        let state = match info.state {
            state::STARTING => "starting",
            state::RUNNING => "running",
            state::WAITING => "waiting",
            state::STOPPED => "stopped",
            _ => "given up",
        };
        table.row([
            format!("{name}{}", if info.needed != 0 { "!" } else { "" }),
            state.into(),
            time(now.saturating_sub(info.since)),
            if info.task == 0 { "-".into() } else { format!("{}", info.task) },
            format!("{}", info.restarts),
            why,
        ]);
    }
    table.print(io);
    say!(io, "!: the machine is of no use without it");
    Ok(())
}
