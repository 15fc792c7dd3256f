//! What a server of the system offers by messages is thrown anything at by `check services wild`: an interface that its list has not got is tried by nobody.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::{Problems, tree};

const SERVERS: &str = "servers/";
const TRIED: &str = "tests/guest/check/src/services/wild.rs";
/// What a server makes its gates and its post with, behind the interface's name.
const SERVES: &str = "_serve_by(";

pub fn check(root: &Path) -> Result<Problems> {
    let tried = tree::text(root, TRIED).with_context(|| format!("{TRIED} cannot be read"))?;
    let files = tree::files(root)?;
    let servers = files.iter().filter(|file| file.starts_with(SERVERS) && tree::extension(file) == "rs");
    let served: Vec<(String, String)> = servers
        .filter_map(|file| Some((file, tree::text(root, file)?)))
        .flat_map(|(file, text)| served(&text).into_iter().map(move |name| (file.clone(), name)).collect::<Vec<_>>())
        .collect();
    ensure!(!served.is_empty(), "no server has an interface: they are made otherwise now");
    let missing = served.iter().filter(|(_, name)| !is_tried(&tried, name));
    Ok(missing.map(|(file, name)| format!("{file}: {TRIED} does not try the skeleton of `{name}`")).collect())
}

/// The interfaces that a server offers so.
fn served(text: &str) -> Vec<String> {
    let names = text.match_indices(SERVES).map(|(at, _)| {
        let is_part = |c: &char| c.is_alphanumeric() || *c == '_';
        text[..at].chars().rev().take_while(is_part).collect::<Vec<char>>().into_iter().rev().collect()
    });
    names.collect()
}

/// Whether the list has it: `one_two` as `OneTwoClient`.
fn is_tried(tried: &str, name: &str) -> bool {
    let client: String = name
        .split('_')
        .map(|word| {
            word.chars().take(1).map(|c| c.to_ascii_uppercase()).chain(word.chars().skip(1)).collect::<String>()
        })
        .collect();
    tried.contains(&format!(", {client}Client::INTERFACE,"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_served_is_tried() {
        let text = "use a::colour_map_serve_by;\nlet gates = colour_map_serve_by(service, ways)?;\n";
        assert_eq!(served(text), ["colour_map"]);
        assert!(is_tried("    (\"maps\", ColourMapClient::INTERFACE, 1),\n", "colour_map"));
        assert!(!is_tried("    (\"maps\", ColourMapClient::INTERFACE, 1),\n", "map"));
    }
}
