//! The commands that are built in.

mod access;
mod basic;
mod call;
mod files;
mod help;
mod inspect;
mod irq;
mod known;
mod machine;
mod place;
mod posts;
mod processes;
mod sched;
mod sections;
mod servers;
mod table;
mod top;
mod tour;
mod trace;

pub use processes::{Timer, end_children, limited};

use crate::io::Io;
use crate::shell::Shell;
use alloc::vec::Vec;

/// A built-in command.
pub struct Builtin {
    pub name: &'static str,
    /// What may follow the name.
    pub usage: &'static str,
    pub about: &'static str,
    run: fn(&mut Shell, &[Vec<u8>], &mut Io) -> i32,
}

/// Commands that belong together.
pub struct Group {
    pub title: &'static str,
    pub builtins: &'static [Builtin],
}

const fn command(
    name: &'static str,
    usage: &'static str,
    about: &'static str,
    run: fn(&mut Shell, &[Vec<u8>], &mut Io) -> i32,
) -> Builtin {
    Builtin { name, usage, about, run }
}

pub const GROUPS: &[Group] = &[
    Group {
        title: "Look at the system",
        builtins: &[
            command("tour", "", "one minute that shows what is different here", tour::tour),
            command("ps", "[-t | -g]", "tasks (-t: threads, -g: who has started which, in which group)", processes::ps),
            command(
                "top",
                "[COUNT]",
                "who uses the processors (COUNT: so many pictures, one below the other)",
                top::top,
            ),
            command("sections", "[TASK]", "address, length, kind, owner and name of your sections", sections::sections),
            command("acl", "ADDRESS [set WHO TEXT RIGHTS]", "who may do what to a section", access::acl),
            command("names", "", "services that have a name", call::names),
            command(
                "call",
                "[--grade plain|epc-s|epc-h] [--times N] NAME [METHOD [N...]]",
                "calls a method of a service",
                call::call,
            ),
            command(
                "mem",
                "[-k | -s]",
                "memory of the machine and of each task (-k: protection keys, -s: what the memory server keeps free)",
                machine::mem,
            ),
            command("posts", "", "posts of your programs, and who waits there", posts::posts),
            command("cpus", "", "processors and what they did", machine::cpus),
            command("irq", "[N --to CPU|any]", "interrupts: who has them, and which processor they come to", irq::irq),
            command(
                "sched",
                "[use NAME | use none | log | calls | trace]",
                "who schedules, and what became of it",
                sched::sched,
            ),
            command(
                "servers",
                "[restart|stop|start|kill NAME]",
                "the system's servers, and who restarts them (kill: as if it had failed)",
                servers::servers,
            ),
            command(
                "place",
                "[SERVER CLASS [GROUP] | --run CLASS[:GROUP] PROGRAM...]",
                "who is executed in supervisor mode, preempted or not (CLASS: pusr, psys, nsys)",
                place::place,
            ),
            command(
                "trace",
                "on | off | show [N] | handlers | -- COMMAND...",
                "what happens on each processor, in order of time",
                trace::trace,
            ),
            command(
                "inspect",
                "ADDRESS [BYTES] | thread:N | task:N | %JOB",
                "what lies at an address, as far as you may read it; where a thread is, its registers if you started it",
                inspect::inspect,
            ),
            command("linux-unknown", "", "what Linux programs asked for and did not get", machine::linux_unknown),
        ],
    },
    Group {
        title: "Programs",
        builtins: &[
            command("jobs", "", "what was started with &", processes::jobs),
            command("kill", "TASK|%JOB...", "ends a task, or a job and what it has started", processes::kill),
            command(
                "limit",
                "[frames=N] [sections=N] [reserve=BYTES] [threads=N] COMMAND...",
                "what a program may use at most (N: 1 or more), it and what it starts",
                processes::limit,
            ),
            command(
                "debug",
                "COMMAND...",
                "runs a program that, if it faults, shows its registers, its calls and its stack",
                inspect::debug,
            ),
            command("time", "COMMAND...", "how long a command takes", processes::time),
            command(
                "quota",
                "TASK [frames=N] [sections=N] [reserve=BYTES] [threads=N]",
                "what a program may use, and uses; sets it, too, for what this shell has started",
                processes::quota,
            ),
            command("sleep", "SECONDS", "waits", basic::sleep),
            command("date", "", "what time it is", basic::date),
        ],
    },
    Group {
        title: "Files and text",
        builtins: &[
            command("ls", "[PATH]", "files: mode, length, section, name", files::ls),
            command("cat", "[FILE...]", "copies files, or the input, to the output", files::cat),
            command("cp", "FILE... TARGET", "copies files", files::cp),
            command("mv", "PATH... TARGET", "gives files and directories other names", files::mv),
            command("mkdir", "DIRECTORY...", "makes directories", files::mkdir),
            command("rm", "[-r] PATH...", "takes files away (-r: directories, too)", files::rm),
            command("rmdir", "DIRECTORY...", "takes empty directories away", files::rmdir),
            command("echo", "[-n] [WORD...]", "prints words", basic::echo),
            command("env", "", "the environment of programs; NAME=VALUE sets it", basic::env),
        ],
    },
    Group {
        title: "The shell",
        builtins: &[
            command("help", "[COMMAND]", "this list", help::help),
            command(
                ".",
                "FILE [WORD...]",
                "runs the lines of a file here (`sh FILE [WORD...]`: in a shell of their own); there the words are $1, $2 ...",
                basic::batch,
            ),
            command("shift", "[COUNT]", "takes away the first of the words that a file was given", basic::shift),
            command("history", "", "lines typed before", basic::history),
            command("true", "[WORD...]", "succeeds", |_, _, _| 0),
            command("false", "[WORD...]", "fails", |_, _, _| 1),
            command("exit", "[STATUS]", "leaves the shell", basic::exit),
            command("poweroff", "", "switches the machine off", machine::poweroff),
        ],
    },
];

pub fn find(name: &[u8]) -> Option<&'static Builtin> {
    GROUPS.iter().flat_map(|g| g.builtins).find(|b| b.name.as_bytes() == name)
}

/// Built-in commands that wait for somebody, perhaps for ever.
pub fn waits(name: &[u8]) -> bool {
    [&b"cat"[..], b"sleep"].contains(&name)
}

/// Runs one, unless its usage says that it takes fewer words.
pub fn run(builtin: &Builtin, shell: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    if most(builtin.usage).is_some_and(|most| words.len() - 1 > most) {
        return misused(words, io);
    }
    (builtin.run)(shell, words, io)
}

/// How many words may follow, where the usage is as simple as that: none, or one.
fn most(usage: &str) -> Option<usize> {
    match usage.as_bytes() {
        [] => Some(0),
        [b'[', word @ .., b']'] if word.iter().all(u8::is_ascii_alphabetic) => Some(1),
        _ => None,
    }
}

/// The word as text, for what cannot be anything else.
fn text(word: &[u8]) -> &str {
    core::str::from_utf8(word).unwrap_or("?")
}

/// A number as people write them: 12, -3, 0x4000, 64k.
fn number(word: &[u8]) -> Option<u64> {
    let word = core::str::from_utf8(word).ok()?;
    if let Some(rest) = word.strip_prefix('-') {
        return number(rest.as_bytes())?.checked_neg_signed();
    }
    if let Some(hex) = word.strip_prefix("0x") {
        return u64::from_str_radix(&hex.replace('_', ""), 16).ok();
    }
    for (suffix, shift) in [("k", 10), ("M", 20), ("G", 30)] {
        if let Some(rest) = word.strip_suffix(suffix) {
            return rest.parse::<u64>().ok()?.checked_mul(1 << shift);
        }
    }
    word.parse().ok()
}

trait NegSigned {
    fn checked_neg_signed(self) -> Option<u64>;
}

impl NegSigned for u64 {
    fn checked_neg_signed(self) -> Option<u64> {
        i64::try_from(self).ok().map(|n| (-n).cast_unsigned())
    }
}

/// Says how a command is used. Value: its status.
fn misused(words: &[Vec<u8>], io: &Io) -> i32 {
    let name = text(&words[0]);
    let usage = find(&words[0]).map_or("", |b| b.usage);
    io.complain(name, format_args!("usage: {}", alloc::format!("{name} {usage}").trim_end()));
    2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_write_them() {
        assert_eq!(number(b"12"), Some(12));
        assert_eq!(number(b"-3"), Some(u64::MAX - 2));
        assert_eq!(number(b"0x4000_0000_0000"), Some(1 << 46));
        assert_eq!(number(b"64k"), Some(65536));
        assert_eq!(number(b""), None);
        assert_eq!(number(b"-"), None);
        assert_eq!(number(b"12x"), None);
        assert_eq!(number(b"99999999999999999999G"), None);
    }

    #[test]
    fn words_that_may_follow() {
        let of = |name: &[u8]| find(name).and_then(|builtin| most(builtin.usage));
        assert_eq!([&b"posts"[..], b"cpus", b"tour"].map(of), [Some(0); 3]);
        assert_eq!([&b"help"[..], b"sections"].map(of), [Some(1); 2]);
        assert_eq!([&b"echo"[..], b"true", b"acl", b"sched", b"ps", b"mem"].map(of), [None; 6]);
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = GROUPS.iter().flat_map(|g| g.builtins).map(|b| b.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
