//! Another system, measured in the same run.

use crate::benches::Bench;
use crate::figure::Figure;
use anyhow::{Result, bail};

/// Who is measured beside us.
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

    /// Measures the same cases on the peer. Its figures are like ours: the same words for cases, its own for ways.
    ///
    /// # Errors
    /// Why it could not be run: then there are no figures, and never old ones.
    pub fn measure(self, _bench: &Bench) -> Result<Vec<Figure>> {
        match self {
            Self::None => Ok(Vec::new()),
            Self::Linux => bail!("a Linux guest to compare with is not built yet"),
        }
    }
}
