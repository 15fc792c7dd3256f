//! Which benchmarks there are. What cases they have, and what they are called, is told by the guest's `bench`.

use std::time::Duration;

/// The one of programs that nobody here wrote (K1-U6).
pub const PROGRAMS: &str = "apps";
/// The one of the ways into the kernel, which it measures in supervisor mode, too.
const ENTRY: &str = "entry";
/// Processors of its machine in which one counts beside them.
const BESIDE_PROGRAMS: u32 = 14;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bench {
    pub name: &'static str,
    /// What one round of it is.
    pub about: &'static str,
    /// When the machine is stopped.
    pub timeout: Duration,
    pub cpus: u32,
    /// Measured again, where nobody counts from outside, on machines with so many processors.
    pub also_cpus: &'static [u32],
    /// Measured on a kernel that tells programs nothing, too.
    pub untold: bool,
    /// Memory of the machine.
    pub mem: &'static str,
    /// Words of the shell before it: what it may use, if that is more than usual.
    pub limits: &'static [&'static str],
}

pub const BENCHES: [Bench; 20] = [
    Bench {
        name: PROGRAMS,
        about: "an unmodified program or several, from the start until the last end is known; and what several do in the time of one",
        timeout: Duration::from_secs(1800),
        cpus: 1,
        // And one that counts, places for six, and as many that want no turn.
        also_cpus: &[2, 4, BESIDE_PROGRAMS],
        untold: false,
        mem: "512M",
        limits: &[],
    },
    Bench {
        name: "calls",
        about: "a call without data and back, by each way; and a call that is refused",
        timeout: Duration::from_secs(300),
        cpus: 1,
        also_cpus: &[],
        untold: false,
        mem: "512M",
        limits: &[],
    },
    Bench {
        name: ENTRY,
        about: "the number of the own task, by each way into the kernel, in user mode and in supervisor mode; and giving way, alone and with another thread that does",
        timeout: Duration::from_secs(300),
        cpus: 1,
        also_cpus: &[],
        untold: false,
        mem: "512M",
        limits: &[],
    },
    Bench {
        name: "fights",
        about: "what as many threads as processors fight over, which all send to one post, serve, or work on files: locks asked for, and turns of loops that wait",
        timeout: Duration::from_secs(1800),
        cpus: 16,
        also_cpus: &[32],
        untold: false,
        mem: "1G",
        limits: &[],
    },
    Bench {
        name: "files",
        about: "one operation on a file, by 1, 2 and 4 threads at once, each on a processor: the instructions of all, by the operations of all",
        timeout: Duration::from_secs(900),
        // One more, which counts, and as many that want no turn.
        cpus: 10,
        also_cpus: &[],
        untold: false,
        mem: "512M",
        limits: &[],
    },
    Bench {
        name: "handlers",
        about: "the longest that each way into the kernel takes with interrupts off at a stretch, calls at their bounds",
        timeout: Duration::from_secs(900),
        cpus: 1,
        also_cpus: &[],
        untold: false,
        mem: "4G",
        limits: &["limit", "frames=700000", "sections=4000", "threads=1000"],
    },
    Bench {
        name: "info",
        about: "what it costs that programs are told what the kernel knows: calls and messages on a kernel that writes it, and on one that does not (-untold)",
        timeout: Duration::from_secs(300),
        cpus: 1,
        also_cpus: &[],
        untold: true,
        mem: "512M",
        limits: &[],
    },
    Bench {
        name: "jobs",
        about: "two parallel jobs, each alone on four processors and both side by side: rounds in the same time",
        timeout: Duration::from_secs(900),
        cpus: 4,
        also_cpus: &[],
        untold: false,
        mem: "512M",
        limits: &[],
    },
    Bench {
        name: "ipc",
        about: "as `sizes`, and by ITC: the callee's own thread serves, and a scheduler outside the kernel switches to it and back",
        timeout: Duration::from_secs(1800),
        mem: "512M",
        limits: &[],
        cpus: 1,
        also_cpus: &[],
        untold: false,
    },
    Bench {
        name: "keys",
        about: "a call into each of so many servers; a change of an access list, and the fault after it",
        timeout: Duration::from_secs(900),
        cpus: 1,
        also_cpus: &[],
        untold: false,
        mem: "4G",
        limits: &["limit", "frames=900000", "sections=60000", "threads=4000", "reserve=1270G"],
    },
    Bench {
        name: "memory",
        about: "pages made invalid, and valid again, in one view or several, on one processor or several; real pages had, looked at, given back",
        timeout: Duration::from_secs(300),
        cpus: 1,
        also_cpus: &[3],
        untold: false,
        mem: "512M",
        limits: &[],
    },
    Bench {
        name: "messages",
        about: "the single rounds of `pool`, few of each, on one processor and on two",
        timeout: Duration::from_secs(300),
        cpus: 1,
        also_cpus: &[2],
        untold: false,
        mem: "512M",
        limits: &[],
    },
    Bench {
        name: "pager",
        about: "a fault on an invalid page that a pager outside the kernel deals with, and the access made once more",
        timeout: Duration::from_secs(300),
        cpus: 1,
        also_cpus: &[],
        untold: false,
        mem: "512M",
        limits: &[],
    },
    Bench {
        name: "placement",
        about: "the console, the files and the fast scheduler in user mode, in supervisor mode, and there without preemption",
        timeout: Duration::from_secs(300),
        cpus: 1,
        also_cpus: &[],
        untold: false,
        mem: "512M",
        limits: &[],
    },
    Bench {
        name: "pool",
        about: "a message of 48 bytes to another program and one back, on machines with more and more processors; and a service that computes",
        timeout: Duration::from_secs(1800),
        cpus: 1,
        also_cpus: &[2, 4, 8],
        untold: false,
        mem: "512M",
        limits: &[],
    },
    Bench {
        name: "service",
        about: "a service that computes, with 2, 4 and 8 threads, each on a processor: what they do in the time of one",
        timeout: Duration::from_secs(900),
        // One for the client and one that counts, and as many that want no turn.
        cpus: 20,
        also_cpus: &[],
        untold: false,
        mem: "512M",
        limits: &[],
    },
    Bench {
        name: "sched",
        about: "one switch from a thread to another, in turn and by schedulers outside, and what it consists of",
        timeout: Duration::from_secs(300),
        cpus: 1,
        also_cpus: &[],
        untold: false,
        mem: "512M",
        limits: &[],
    },
    Bench {
        name: "sizes",
        about: "a call with data and back, by each way: the patterns of the Cubix paper over sizes",
        timeout: Duration::from_secs(900),
        cpus: 1,
        also_cpus: &[],
        untold: false,
        mem: "512M",
        limits: &[],
    },
    Bench {
        name: "spawn",
        about: "a program's life, from the request until its end is known",
        timeout: Duration::from_secs(300),
        cpus: 1,
        also_cpus: &[],
        untold: false,
        mem: "512M",
        limits: &[],
    },
    Bench {
        name: "turns",
        about: "what takes long, once: a section of 1 GiB and a program that has one; and how long somebody who is ready waits for his turn meanwhile",
        timeout: Duration::from_secs(300),
        cpus: 1,
        also_cpus: &[],
        untold: false,
        mem: "4G",
        limits: &["limit", "frames=800000", "sections=20000", "threads=500", "reserve=300G"],
    },
];

impl Bench {
    pub fn find(name: &str) -> Option<Self> {
        BENCHES.into_iter().find(|bench| bench.name == name)
    }

    /// How long a processor's turn is where instructions are counted, in us: where it is to be seen who waits for whom, shorter than what is waited for.
    pub fn turn_us(&self) -> u32 {
        if self.has_one_beside() || ["fights", "files", "service"].contains(&self.name) { 4 } else { machine::TURN_US }
    }

    /// Whether programs run beside one that counts: then nothing is printed of rounds between marks.
    pub fn has_one_beside(&self) -> bool {
        self.name == PROGRAMS && self.cpus == BESIDE_PROGRAMS
    }

    /// Files of the host that go into the machine, as `--put` takes them.
    pub fn puts(&self) -> &'static [&'static str] {
        match self.name {
            PROGRAMS => &["/bin/busybox"],
            ENTRY => &[concat!(env!("CARGO_MANIFEST_DIR"), "/placement.txt:etc/placement")],
            _ => &[],
        }
    }

    /// On how many processors that run at once it is counted besides, where the host has so many: there who waits for whom is no matter of turns.
    pub fn at_once(&self) -> Option<u32> {
        (self.name == "fights").then_some(2)
    }

    /// Processors of the machines in which its time is taken on a host of so many: where one thread is compared with several, no more
    /// than run at once.
    pub fn side_by_side(&self, host: u32) -> Vec<u32> {
        let first = if self.name == "files" { self.cpus.min(host) } else { self.cpus };
        [first].into_iter().chain(self.also_cpus.iter().copied().filter(|cpus| *cpus <= host)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_processors_than_run_at_once_where_that_is_the_question() {
        let of = |name, host| Bench::find(name).unwrap().side_by_side(host);
        assert_eq!((of("pool", 1), of("pool", 2), of("pool", 6)), (vec![1], vec![1, 2], vec![1, 2, 4]));
        assert_eq!((of("files", 1), of("files", 2), of("files", 8)), (vec![1], vec![2], vec![8]));
        assert_eq!((of("calls", 2), of("jobs", 2)), (vec![1], vec![4]));
    }

    #[test]
    fn what_is_put_in_is_there() {
        for file in Bench::find(ENTRY).unwrap().puts() {
            let put = machine::Put::parse(file.as_ref()).unwrap();
            assert_eq!((put.guest.as_slice(), put.read().unwrap().0.is_empty()), (&b"etc/placement"[..], false));
        }
    }

    #[test]
    fn turns_are_short_where_one_counts_beside_programs() {
        let programs = Bench::find(PROGRAMS).unwrap();
        let turn = |cpus| Bench { cpus, ..programs }.turn_us();
        assert_eq!([1, 2, 4].map(turn), [machine::TURN_US; 3]);
        assert!(turn(BESIDE_PROGRAMS) < machine::TURN_US && programs.also_cpus.contains(&BESIDE_PROGRAMS));
    }
}
