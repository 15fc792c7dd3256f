//! The servers of this machine, in the order in which they are started.

/// A server.
pub struct Server {
    pub path: &'static str,
    /// The name that it publishes when it is ready.
    pub name: &'static str,
    /// Whether the machine is of use without it.
    pub optional: bool,
}

/// After the name service, which everything else needs.
pub const SERVERS: [Server; 5] = [
    Server { path: "bin/keyboard", name: "keyboard", optional: true },
    Server { path: "bin/console", name: "console", optional: false },
    Server { path: "bin/pipes", name: "pipes", optional: true },
    Server { path: "bin/linux", name: "linux", optional: true },
    Server { path: "bin/sched", name: "sched", optional: true },
];

pub const NAMES: &str = "bin/names";
pub const SHELL: &str = "bin/shell";

/// What the shell finds in its environment.
pub const ENVIRONMENT: [&str; 4] = ["PATH=/bin", "HOME=/", "PWD=/", "TERM=linux"];
