//! The servers of this machine, in the order in which they are started.

/// A server. Each answers messages, too, at a post that outlives it.
#[derive(Debug)]
pub struct Server {
    pub path: &'static str,
    /// The name that it publishes when it is ready. (The name service says so otherwise.)
    pub name: &'static str,
    /// Whether the machine is of no use without it.
    pub needed: bool,
    /// Whether what it knows is kept for the next one (interface `ledger`).
    pub ledger: bool,
}

const fn server(path: &'static str, name: &'static str) -> Server {
    Server { path, name, needed: false, ledger: false }
}

pub const SERVERS: [Server; 9] = [
    Server { needed: true, ledger: true, ..server("bin/names", NAMES) },
    Server { needed: true, ..server("bin/files", FILES) },
    Server { needed: true, ledger: true, ..server("bin/processes", "processes") },
    server("bin/clock", "clock"),
    server("bin/keyboard", "keyboard"),
    Server { needed: true, ..server("bin/console", "console") },
    server("bin/pipes", "pipes"),
    server("bin/linux", "linux"),
    Server { ledger: true, ..server("bin/sched", "sched") },
];

/// The one that everything else needs.
pub const NAMES: &str = "names";
/// The one that the loader is told of.
pub const FILES: &str = "files";
pub const SHELL: &str = "bin/shell";

/// What the shell finds in its environment.
pub const ENVIRONMENT: [&str; 4] = ["PATH=/bin", "HOME=/", "PWD=/", "TERM=linux"];
