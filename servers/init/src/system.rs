//! The servers of this machine, in the order in which they are started.

/// A server. Each answers messages, too, at a post that outlives it.
#[derive(Debug)]
pub struct Server {
    pub path: &'static str,
    /// The name that it publishes when it is ready. (The name service says so otherwise.)
    pub name: &'static str,
    /// Whether the machine is of no use without it.
    pub needed: bool,
    /// Whether it offers streams, too, which have a post for themselves.
    pub streams: bool,
    /// Whether what it knows is kept for the next one (interface `ledger`).
    pub ledger: bool,
}

const fn server(path: &'static str, name: &'static str) -> Server {
    Server { path, name, needed: false, streams: false, ledger: false }
}

pub const SERVERS: [Server; 10] = [
    Server { needed: true, ledger: true, ..server("bin/names", NAMES) },
    Server { needed: true, streams: true, ..server("bin/files", FILES) },
    Server { needed: true, ledger: true, ..server("bin/processes", "processes") },
    server("bin/clock", "clock"),
    Server { ledger: true, ..server("bin/memory", "memory") },
    server("bin/keyboard", "keyboard"),
    Server { needed: true, streams: true, ..server("bin/console", "console") },
    Server { streams: true, ..server("bin/pipes", "pipes") },
    server("bin/linux", "linux"),
    Server { ledger: true, ..server("bin/sched", "sched") },
];

/// The one that everything else needs.
pub const NAMES: &str = "names";
/// The one that the loader is told of.
pub const FILES: &str = "files";
/// Programs that the `sched` server starts.
pub const SCHEDULERS: [&str; 3] = ["sched-fast", "sched-initial", "fast-initial"];
pub const SHELL: &str = "bin/shell";

/// What the shell finds in its environment.
pub const ENVIRONMENT: [&str; 4] = ["PATH=/bin", "HOME=/", "PWD=/", "TERM=linux"];
