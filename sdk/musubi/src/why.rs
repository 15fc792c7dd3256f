//! An error as a line for people, who know sections by their names.

use crate::ended::{named, section_name};
use alloc::string::String;
use core::fmt;
use rt::Error;
use rt::abi::refusal::who;

/// The error with the names that the kernel keeps for the sections in it.
#[must_use]
pub fn why(error: Error) -> impl fmt::Display {
    Why(error, section_name)
}

struct Why<F>(Error, F);

impl<F: Fn(u64) -> Option<String>> fmt::Display for Why<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.refusal() {
            Some(refusal) => refusal.write(f, who(), |base| named(base, &self.1)),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString;
    use rt::Rights;
    use rt::abi::refusal::{Object, Who, set_who};

    #[test]
    fn sections_have_names() {
        let object = Object::Section(0x6000_0000, Rights::CHANGE_ACL);
        let names = |base| (base == 0x6000_0000).then(|| "diary".to_string());
        let error = Error::no_right(object, 7);
        set_who(|| Who { thread: 9, text: 0x4000_0000 });
        assert_eq!(
            format!("{}", Why(error, names)),
            "no right change-acl on section diary 0x60000000, by (thread 7, text 0x40000000)"
        );
        assert_eq!(format!("{}", Why(Error::Busy, names)), "busy");
    }
}
