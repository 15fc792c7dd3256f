//! No driver has to be of a class (SSS-21): there is one that has its device, and knows nothing that drivers have in common but whom to ask.

use std::path::Path;

use anyhow::Result;

use crate::{Problems, tree};

/// The driver that is of none.
const OWN: &str = "tests/guest/own-driver/src/";
/// Where it asks for its device.
const ASKED: &str = "devices";

pub fn check(root: &Path) -> Result<Problems> {
    let mut problems = Problems::new();
    let mut claims = false;
    for file in tree::files(root)?.into_iter().filter(|file| file.starts_with(OWN)) {
        let Some(text) = tree::text(root, &file) else { continue };
        claims |= text.contains(".claim(");
        for name in uses(&text).filter(|name| *name != ASKED) {
            problems.push(format!("{file}: needs the interface '{name}'; a driver is to need '{ASKED}' alone"));
        }
        if text.contains("musubi::driver") {
            problems.push(format!("{file}: needs `musubi::driver`, which is for those who want it"));
        }
    }
    if !claims {
        problems.push(format!("{OWN}: there is no driver that claims its device"));
    }
    // Who asks for a device says which, and nothing about what he offers.
    let asked = tree::text(root, "interfaces/src/devices.rs").unwrap_or_default();
    if !asked.contains("fn claim(&self, caller: &Caller, kind: u64, index: u64, record: &mut [u8; RECORD])") {
        problems.push("interfaces/src/devices.rs: `claim` asks for more than which device".into());
    }
    Ok(problems)
}

/// The interfaces that a source names.
fn uses(text: &str) -> impl Iterator<Item = &str> {
    let is_of_a_name = |c: char| c.is_ascii_lowercase() || c == '_';
    text.split("interfaces::").skip(1).map(move |rest| rest.split(|c| !is_of_a_name(c)).next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #[test]
    fn interfaces_are_found() {
        let text = "use musubi::interfaces::devices::{A, B};\nuse interfaces::colour_map::C;";
        assert_eq!(super::uses(text).collect::<Vec<_>>(), ["devices", "colour_map"]);
    }
}
