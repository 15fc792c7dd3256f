//! A hundred boots in a row without a hang. Slow: each runs only when it is named.

use crate::case::{Case, sh};

pub fn cases() -> Vec<Case> {
    let boots = |name, cpus| sh(name, "echo up").out("up\n").cpus(cpus).times(100).timeout(30).by_name();
    vec![boots("one_processor", 1), boots("two_processors", 2), boots("four_processors", 4)]
}
