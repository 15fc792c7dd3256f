//! cargo's progress, shown only when something is built: an `exec` that finds everything fresh prints nothing of
//! its own, and a script that compares standard error relies on it.

use anyhow::{Context, Result, ensure};
use std::io::{IsTerminal, Read, Write};
use std::process::{Command, Stdio};

/// Words by which cargo says that it has work to do, or cannot do it.
const WORK: [&str; 5] = ["Compiling", "Download", "Updating", "Installing", "error"];

/// Runs cargo. What it says about nothing (finished, waiting for a lock, old warnings) is dropped.
pub(crate) fn run(mut command: Command) -> Result<()> {
    if std::io::stderr().is_terminal() {
        let bar = [
            ("CARGO_TERM_COLOR", "always"),
            ("CARGO_TERM_PROGRESS_WHEN", "always"),
            ("CARGO_TERM_PROGRESS_WIDTH", "80"),
        ];
        command.envs(bar);
    }
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let child = child.as_mut().map_err(|error| anyhow::anyhow!("{}: {error}", command.get_program().display()))?;
    let mut said = child.stderr.take().context("cargo has a standard error")?;
    let held = relay(&mut said, &mut std::io::stderr())?;
    let ended = child.wait()?;
    if !ended.success() {
        std::io::stderr().write_all(&held)?;
    }
    ensure!(ended.success(), "cargo: {ended}");
    Ok(())
}

/// Passes on what is said from the first sign of work; returns what was held back if there was none.
fn relay(from: &mut impl Read, to: &mut impl Write) -> Result<Vec<u8>> {
    let mut held = Vec::new();
    let mut open = false;
    let mut buffer = [0; 4096];
    loop {
        let len = from.read(&mut buffer)?;
        if len == 0 {
            return Ok(held);
        }
        held.extend_from_slice(&buffer[..len]);
        let text = String::from_utf8_lossy(&held);
        open = open || WORK.iter().any(|word| text.contains(word));
        if open {
            to.write_all(&held)?;
            to.flush()?;
            held.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_shown_when_nothing_is_built() {
        let mut shown = Vec::new();
        let said = b"    Blocking waiting for file lock\nwarning: unused\n    Finished `release` profile\n";
        assert_eq!(relay(&mut &said[..], &mut shown).unwrap(), said);
        assert!(shown.is_empty());
    }

    #[test]
    fn everything_is_shown_when_something_is() {
        let mut shown = Vec::new();
        let said = b"    Blocking\n   Compiling musubi-kernel\n    Finished\n";
        assert!(relay(&mut &said[..], &mut shown).unwrap().is_empty());
        assert_eq!(shown, said);
    }
}
