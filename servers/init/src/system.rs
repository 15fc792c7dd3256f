//! The servers of this machine, in the order in which they are started.

/// A server. Each answers messages, too, at a post that outlives it.
#[derive(Debug)]
pub struct Server {
    pub path: &'static str,
    /// The name that it publishes when it is ready. (The name service says so otherwise.)
    pub name: &'static str,
    /// What a machine is like without it.
    pub lost: &'static str,
    /// Whether a machine that has it is of no use without it.
    pub needed: bool,
    /// Whether it offers streams, too, which have a post for themselves.
    pub streams: bool,
    /// Whether what it knows is kept for the next one (interface `ledger`).
    pub ledger: bool,
    /// Nobody needs it before the shell: the others are started meanwhile.
    pub alongside: bool,
}

const fn server(path: &'static str, name: &'static str, lost: &'static str) -> Server {
    Server { path, name, lost, needed: false, streams: false, ledger: false, alongside: false }
}

pub const SERVERS: [Server; 11] = [
    Server {
        needed: true,
        ledger: true,
        ..server("bin/names", NAMES, "no services but the system's own, no schedulers, no Linux programs")
    },
    Server { needed: true, alongside: true, ..server("bin/loader", LOADER, "no programs but the shell") },
    Server { needed: true, streams: true, ..server("bin/files", FILES, "no files, and programs of the image alone") },
    Server { needed: true, ledger: true, ..server("bin/processes", "processes", "no programs but the shell") },
    server("bin/clock", "clock", "nobody says what time it is, or waits for it"),
    Server { ledger: true, ..server("bin/memory", "memory", "no pager is asked for memory when it runs short") },
    server("bin/keyboard", "keyboard", "no keys but the serial line's"),
    Server {
        needed: true,
        streams: true,
        ..server("bin/console", CONSOLE, "nothing is printed but this log, and nothing typed")
    },
    Server { streams: true, ..server("bin/pipes", "pipes", "no pipes between programs") },
    server("bin/linux", LINUX, "no Linux programs"),
    Server { ledger: true, ..server("bin/sched", "sched", "no scheduler but the kernel's round robin") },
];

/// The one that everything else needs.
pub const NAMES: &str = "names";
/// The one that starts all others but these.
pub const LOADER: &str = "loader";
/// The one that the loader is told of.
pub const FILES: &str = "files";
/// The other one that the loader is told of.
pub const LINUX: &str = "linux";
/// The one that the shell talks to people by.
pub const CONSOLE: &str = "console";
/// Programs that the `sched` server starts.
pub const SCHEDULERS: [&str; 3] = ["sched-fast", "sched-initial", "fast-initial"];
pub const SHELL: &str = "bin/shell";

/// What the shell finds in its environment.
pub const ENVIRONMENT: [&str; 4] = ["PATH=/bin", "HOME=/", "PWD=/", "TERM=linux"];

#[cfg(test)]
mod tests {
    use super::SERVERS;

    #[test]
    fn the_host_leaves_out_what_may_be_left_out() {
        assert_eq!(SERVERS.map(|server| server.name), musubi::abi::boot::SERVERS);
        assert!(SERVERS.iter().all(|server| server.path.strip_prefix("bin/") == Some(server.name)));
    }
}
