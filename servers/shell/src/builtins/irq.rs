//! Interrupts: who has them, which processor they come to.

use super::known::{Known, name};
use super::table::{Table, time};
use super::{misused, number, text};
use crate::io::Io;
use crate::say;
use crate::shell::Shell;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::info::way;
use musubi::interfaces::devices::DevicesClient;
use musubi::{Error, why};

pub fn irq(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    let rest: Vec<&str> = words[1..].iter().map(|word| text(word)).collect();
    let done = match rest.as_slice() {
        [] => table(io).map_err(|e| format!("{}", why(e))),
        [line, "--to", to] => {
            let processor =
                if *to == "any" { Some(u64::MAX) } else { number(to.as_bytes()).filter(|n| *n != u64::MAX) };
            let (Some(line), Some(processor)) = (number(line.as_bytes()), processor) else {
                return misused(words, io);
            };
            route(line, processor).map_err(|e| match e {
                Error::NotFound => format!("there is no interrupt {line} with a driver, or no processor {to}"),
                e => format!("{}", why(e)),
            })
        }
        _ => return misused(words, io),
    };
    match done {
        Ok(()) => 0,
        Err(why) => {
            io.complain("irq", format_args!("{why}"));
            1
        }
    }
}

fn route(line: u64, processor: u64) -> Result<(), Error> {
    let devices = DevicesClient::bind_with_args(musubi::names::lookup("devices")?, 4096)?;
    let done = devices.route(line, processor);
    let _ = devices.unbind();
    done
}

fn table(io: &mut Io) -> Result<(), Error> {
    let titles = ["irq", "to", "came", "to idle", "to busy", "longest", "mark", "how", "driver"];
    let mut table = Table::new(&titles, &[0, 1, 2, 3, 4, 5, 6]);
    let known = Known::look()?;
    let (tasks, own) = (known.tasks(), known.own_tasks());
    for line in known.all.interrupts() {
        let to = match (line.processor, line.pinned) {
            (u64::MAX, _) => String::from("-"),
            (to, u64::MAX) => format!("{to}"),
            (to, _) => format!("{to}!"),
        };
        let how = match line.way {
            way::CALL => "called by the scheduler",
            way::POST => "message",
            _ => "nobody",
        };
        table.row([
            format!("{}", line.number - 1),
            to,
            format!("{}", line.came),
            format!("{}", line.idle),
            format!("{}", line.missed),
            time(line.longest_ns),
            time(line.longest_mark_ns),
            how.into(),
            tasks
                .iter()
                .find(|task| task.number == line.task)
                .map(|task| name(task, own.get(&task.number)))
                .unwrap_or_default(),
        ]);
    }
    table.print(io);
    say!(
        io,
        "to: !: by irq N --to CPU. to busy: though another processor was idle. longest: in the kernel, for one. mark: longest until its driver's thread ran"
    );
    Ok(())
}
