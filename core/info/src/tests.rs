//! The real code under shuttle's interleavings, and tables against plain lists.

use crate::tells;
use abi::task::USER_SYSTEM;

#[test]
fn what_is_a_persons_is_told_to_that_person_and_to_the_system() {
    assert!(tells(1, 1) && tells(1, USER_SYSTEM) && !tells(1, 2) && !tells(2, 1));
    assert!(tells(USER_SYSTEM, 1) && tells(USER_SYSTEM, USER_SYSTEM));
}

mod model;
mod race;
