//! The machines in which a test runs: how many processors, with keys or without, and where the system's servers execute.

/// In which machines a test runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Matrix {
    One,
    Spread,
    Full,
}

/// One run of a test. `None`: as the test itself says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    pub cpus: Option<u32>,
    pub pku: Option<bool>,
    pub placed: Option<Placement>,
}

/// In which runs a test's machines have the servers in each placement, besides. The usual run has so much that it takes no longer than an hour.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    Never,
    /// In thorough ones.
    Thoroughly,
    /// In all, if it is a matrix; otherwise in thorough ones.
    Usually,
}

impl Placed {
    pub fn is_now(self, matrix: Matrix, thorough: bool) -> bool {
        match self {
            Placed::Never => false,
            Placed::Thoroughly => thorough,
            Placed::Usually => thorough || matrix == Matrix::Full,
        }
    }
}

/// Where the system's servers and the fast levels of schedulers execute, that of the bad ones among them: a word for it, and what the image says
/// (`etc/placement`).
pub type Placement = (&'static str, &'static str);

pub const PLACEMENT: &str = "etc/placement";
/// In supervisor mode with preemption, and without it.
pub const PLACEMENTS: [Placement; 2] = [
    (
        "psys",
        "names psys\nfiles psys\nprocesses psys\nclock psys\nconsole psys\npipes psys\nsched psys\nsched-fast psys\nfast-initial psys\n\
         fast-bad psys\n",
    ),
    (
        "nsys",
        "files nsys\nclock nsys\nconsole nsys io\nkeyboard nsys io\npipes nsys\nsched-fast nsys\nfast-initial nsys\nfast-bad nsys\n",
    ),
];

impl Matrix {
    /// If there are keys, with and without; otherwise without. What is full is spread unless the run is thorough.
    pub fn variants(self, keys: bool, thorough: bool) -> Vec<Variant> {
        let with = |cpus, pku| Variant { cpus, pku, placed: None };
        let spread = self == Matrix::Full && !thorough;
        match (if spread { Matrix::Spread } else { self }, keys) {
            (Matrix::One, true) => vec![with(None, None)],
            (Matrix::One, false) => vec![with(None, Some(false))],
            (Matrix::Spread, true) => {
                vec![with(Some(1), Some(true)), with(Some(2), Some(false)), with(Some(4), Some(true))]
            }
            (Matrix::Full, true) => {
                let both = |cpus| [with(Some(cpus), Some(true)), with(Some(cpus), Some(false))];
                [1, 2, 4].into_iter().flat_map(both).collect()
            }
            (Matrix::Spread | Matrix::Full, false) => [1, 2, 4].map(|cpus| with(Some(cpus), Some(false))).to_vec(),
        }
    }
}

/// The machine as the test has it, with the servers in each placement.
pub fn placed(keys: bool) -> [Variant; 2] {
    let pku = if keys { None } else { Some(false) };
    PLACEMENTS.map(|placed| Variant { cpus: None, pku, placed: Some(placed) })
}

impl Variant {
    /// The full name of a test in it.
    pub fn name(self, stage: &str, name: &str) -> String {
        let name = format!("system::{stage}::{name}");
        let cpus = self.cpus.map(|cpus| format!("cpus={cpus}"));
        let pku = self.pku.map(|pku| if pku { "pku" } else { "no-pku" }.to_string());
        let placed = self.placed.map(|placed| placed.0.to_string());
        match [cpus, pku, placed].into_iter().flatten().collect::<Vec<_>>().as_slice() {
            [] => name,
            parts => format!("{name}[{}]", parts.join(",")),
        }
    }
}
