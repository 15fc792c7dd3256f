//! Which benchmarks there are. What cases they have, and what they are called, is told by the guest's `bench`.

use std::time::Duration;

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
    /// Memory of the machine.
    pub mem: &'static str,
    /// Words of the shell before it: what it may use, if that is more than usual.
    pub limits: &'static [&'static str],
}

pub const BENCHES: [Bench; 11] = [
    Bench {
        name: "calls",
        about: "a call without data and back, by each way; and a call that is refused",
        timeout: Duration::from_secs(300),
        cpus: 1,
        also_cpus: &[],
        mem: "512M",
        limits: &[],
    },
    Bench {
        name: "entry",
        about: "the number of the own task, by each way into the kernel; and giving way, alone and with another thread that does",
        timeout: Duration::from_secs(300),
        cpus: 1,
        also_cpus: &[],
        mem: "512M",
        limits: &[],
    },
    Bench {
        name: "files",
        about: "one operation on a file, by 1, 2 and 4 threads at once on four processors: the instructions of all, by the operations of all",
        timeout: Duration::from_secs(900),
        cpus: 4,
        also_cpus: &[],
        mem: "512M",
        limits: &[],
    },
    Bench {
        name: "jobs",
        about: "two parallel jobs, each alone on four processors and both side by side: rounds in the same time",
        timeout: Duration::from_secs(900),
        cpus: 4,
        also_cpus: &[],
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
    },
    Bench {
        name: "keys",
        about: "a call into each of so many servers; a change of an access list, and the fault after it",
        timeout: Duration::from_secs(900),
        cpus: 1,
        also_cpus: &[],
        mem: "4G",
        limits: &["limit", "frames=900000", "sections=60000", "threads=4000", "reserve=1270G"],
    },
    Bench {
        name: "memory",
        about: "pages made invalid, and valid again, that are in one view or in several",
        timeout: Duration::from_secs(300),
        cpus: 1,
        also_cpus: &[],
        mem: "512M",
        limits: &[],
    },
    Bench {
        name: "pool",
        about: "a message of 48 bytes to another program and one back, on machines with more and more processors; and a service that computes",
        timeout: Duration::from_secs(1800),
        cpus: 1,
        also_cpus: &[2, 4, 8],
        mem: "512M",
        limits: &[],
    },
    Bench {
        name: "sched",
        about: "one switch from a thread to another, in turn and by schedulers outside, and what it consists of",
        timeout: Duration::from_secs(300),
        cpus: 1,
        also_cpus: &[],
        mem: "512M",
        limits: &[],
    },
    Bench {
        name: "sizes",
        about: "a call with data and back, by each way: the patterns of the Cubix paper over sizes",
        timeout: Duration::from_secs(900),
        cpus: 1,
        also_cpus: &[],
        mem: "512M",
        limits: &[],
    },
    Bench {
        name: "spawn",
        about: "a program's life, from the request until its end is known",
        timeout: Duration::from_secs(300),
        cpus: 1,
        also_cpus: &[],
        mem: "512M",
        limits: &[],
    },
];

impl Bench {
    pub fn find(name: &str) -> Option<Self> {
        BENCHES.into_iter().find(|bench| bench.name == name)
    }
}
