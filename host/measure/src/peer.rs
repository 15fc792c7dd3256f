//! Another system, measured in the same run.

/// Who is measured beside us. `host/peers` does it; its figures are like ours: the same words for cases, its own for ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Peer {
    #[default]
    None,
    /// Debian's Linux, as `linux-best` and `linux-default`.
    Linux,
}

impl Peer {
    /// The systems whose figures it gives, in the order in which they are shown.
    pub const SYSTEMS: [&str; 2] = ["linux-best", "linux-default"];
}
