//! The stages, in the order in which things depend on each other. A stage is a file that lists its tests.

mod s10_boot;
mod s70_linux;

use crate::case::Case;

/// All tests.
pub fn all() -> Vec<Case> {
    let stages = [("s10_boot", s10_boot::cases()), ("s70_linux", s70_linux::cases())];
    let mut all = Vec::new();
    for (stage, cases) in stages {
        all.extend(cases.into_iter().map(|mut case| {
            case.stage = stage;
            case
        }));
    }
    all
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_used_once() {
        let mut names: Vec<_> =
            super::all().iter().flat_map(|case| case.names().into_iter().map(|name| (case.stage, name))).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
