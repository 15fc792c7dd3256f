//! A person at the machine itself: what its screen shows, read from a picture of it, and keys that are pressed, both by QEMU's monitor.

use crate::lab::{Failure, Lab};
use crate::session::Session;
use anyhow::{Context, Error, anyhow};
use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long an answer may take on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
const HEIGHT: usize = 16;

pub struct Screen {
    session: Session,
    /// The characters by their pixels: which of them are ink.
    font: HashMap<Vec<bool>, char>,
    picture: PathBuf,
    _dir: tempfile::TempDir,
}

impl Screen {
    /// Boots to the prompt, with the firmware's screen, and is at the monitor from then on.
    pub fn start(lab: &Lab, options: &[&str]) -> Result<Screen, Failure> {
        let mut session = Session::start(lab, &[&["--via", "bios"], options].concat())?;
        session.keys("\x1dc")?;
        session.expect("(qemu) ")?;
        let dir = tempfile::tempdir().map_err(Error::from)?;
        Ok(Screen { session, font: font(), picture: dir.path().join("screen.ppm"), _dir: dir })
    }

    fn monitor(&mut self, command: &str) -> Result<(), Failure> {
        self.session.keys(&format!("{command}\r"))?;
        // The machine's own output may come between the end of a line and this.
        self.session.expect("(qemu) ")
    }

    /// Presses keys, one after the other, as QEMU calls them.
    pub fn press(&mut self, keys: &[&str]) -> Result<(), Failure> {
        keys.iter().try_for_each(|key| self.monitor(&format!("sendkey {key} 20")))
    }

    /// Types text and the key at its end.
    pub fn types(&mut self, text: &str) -> Result<(), Failure> {
        for character in text.chars() {
            let key = match character {
                'a'..='z' | '0'..='9' => character.to_string(),
                ' ' => "spc".into(),
                '&' => "shift-7".into(),
                '%' => "shift-5".into(),
                '$' => "shift-4".into(),
                '?' => "shift-slash".into(),
                other => return Err(anyhow!("no key for {other:?}").into()),
            };
            self.press(&[&key])?;
        }
        self.press(&["ret"])
    }

    /// The lines on the screen, without the empty ones at the end.
    fn lines(&mut self) -> Result<Vec<String>, Failure> {
        self.monitor(&format!("screendump {}", self.picture.display()))?;
        let picture = std::fs::read(&self.picture).context("QEMU has made no picture")?;
        let mut lines = self.read(&picture).context("the picture is none")?;
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        Ok(lines)
    }

    /// Waits until the screen ends with these lines.
    pub fn expect(&mut self, end: &[&str]) -> Result<(), Failure> {
        let until = Instant::now() + PATIENCE;
        loop {
            let lines = self.lines()?;
            if lines.iter().rev().zip(end.iter().rev()).all(|(shown, wanted)| shown == wanted)
                && lines.len() >= end.len()
            {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(Failure::Failed(format!(
                    "the screen should end with {end:?}, but shows\n{}",
                    lines.join("\n")
                )));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The text in a picture (PPM, three bytes a pixel).
    fn read(&self, picture: &[u8]) -> Option<Vec<String>> {
        let mut parts = picture.splitn(4, |byte| byte.is_ascii_whitespace());
        let mut number = || str::from_utf8(parts.next()?).ok();
        let (kind, width, height) = (number()?, number()?.parse::<usize>().ok()?, number()?.parse::<usize>().ok()?);
        let pixels = parts.next()?.strip_prefix(b"255\n")?;
        if kind != "P6" || pixels.len() != width * height * 3 {
            return None;
        }
        let light =
            |x: usize, y: usize| pixels[(y * width + x) * 3..][..3].iter().map(|&part| u32::from(part)).sum::<u32>();
        let columns = width / cell_width();
        let cell = |row: usize, column: usize| {
            let all = (0..HEIGHT * cell_width()).map(|at| (at % cell_width(), at / cell_width()));
            ink(all.map(|(x, y)| light(column * cell_width() + x, row * HEIGHT + y)))
        };
        let character = |row, column| self.font.get(&cell(row, column)).copied().unwrap_or('\u{fffd}');
        let line = |row| (0..columns).map(|column| character(row, column)).collect::<String>();
        Some((0..height / HEIGHT).map(|row| line(row).trim_end().to_string()).collect())
    }
}

fn cell_width() -> usize {
    get_raster_width(FontWeight::Regular, RasterHeight::Size16)
}

/// Which pixels are nearer to the brightest than to the darkest: the same whatever the colours. None where all are the same, as in a cell
/// that is empty, or only the cursor's.
fn ink(light: impl Iterator<Item = u32> + Clone) -> Vec<bool> {
    let (least, most) = light.clone().fold((u32::MAX, 0), |(least, most), one| (least.min(one), most.max(one)));
    light.map(|one| most > least && 2 * one > least + most).collect()
}

/// The font that the console draws with.
fn font() -> HashMap<Vec<bool>, char> {
    let drawn = |character| {
        let raster = get_raster(character, FontWeight::Regular, RasterHeight::Size16)?;
        let rows: Vec<&[u8]> = raster.rows().collect();
        let pixel = |at: usize| {
            rows.get(at / cell_width()).and_then(|row| row.get(at % cell_width())).map_or(0, |pixel| *pixel)
        };
        Some((ink((0..HEIGHT * cell_width()).map(|at| u32::from(pixel(at)))), character))
    };
    (' '..='~').filter_map(drawn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_differ() {
        assert_eq!(font().len(), (' '..='~').count());
    }
}
