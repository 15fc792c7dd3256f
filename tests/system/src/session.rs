//! A person at the prompt: `./musubi run` on a terminal of its own.

use crate::lab::{Failure, Lab};
use anyhow::{Context, Error};
use nix::pty::{Winsize, openpty};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// What the shell shows when it waits for a line: a prompt with nothing behind it, on a line of its own.
pub const PROMPT: &str = "\nmusubi> \x1b[K";
/// How long an answer may take on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// The same until the first prompt: the front tool looks whether there is something to build, and an image takes a boot loader its time.
const TO_PROMPT: Duration = Duration::from_secs(180);

pub struct Session {
    child: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    /// What came and is not yet a whole character.
    bytes: Vec<u8>,
    /// All that was shown, without returns of the carriage (whoever sits between adds some).
    shown: String,
    /// How much of it was waited for.
    seen: usize,
}

impl Session {
    /// Boots to the prompt.
    pub fn start(lab: &Lab, options: &[&str]) -> Result<Self, Failure> {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).context("cannot make a terminal")?;
        let slave = || pty.slave.try_clone().map(File::from);
        let child = Command::new("sh")
            .arg("musubi")
            .arg("run")
            .args(lab.flags())
            .args(lab.puts()?)
            .args(options)
            .current_dir(lab.workspace().top())
            .stdin(slave().map_err(Error::from)?)
            .stdout(slave().map_err(Error::from)?)
            .stderr(slave().map_err(Error::from)?)
            .spawn()
            .context("./musubi run does not start")?;
        drop(pty.slave);
        let keyboard = File::from(pty.master);
        let mut reader = keyboard.try_clone().map_err(Error::from)?;
        let (bytes, screen) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The end is an error of the terminal: its other side is gone.
            while let Ok(len @ 1..) = reader.read(&mut buffer) {
                if bytes.send(buffer[..len].to_vec()).is_err() {
                    return;
                }
            }
        });
        let mut session = Self { child, keyboard, screen, bytes: Vec::new(), shown: String::new(), seen: 0 };
        session.expect_within(PROMPT, TO_PROMPT)?;
        Ok(session)
    }

    /// Types.
    pub fn keys(&mut self, keys: &str) -> Result<(), Failure> {
        Ok(self.keyboard.write_all(keys.as_bytes()).context("the terminal is gone")?)
    }

    /// Waits until `text` is shown behind what was waited for before.
    pub fn expect(&mut self, text: &str) -> Result<(), Failure> {
        self.expect_within(text, PATIENCE)
    }

    fn expect_within(&mut self, text: &str, patience: Duration) -> Result<(), Failure> {
        let until = Instant::now() + patience;
        loop {
            if let Some(at) = self.shown[self.seen..].find(text) {
                self.seen += at + text.len();
                return Ok(());
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.screen.recv_timeout(left) {
                Ok(bytes) => {
                    self.bytes.extend(bytes.iter().filter(|&&byte| byte != b'\r'));
                    // A character may come in parts: only what is whole is text.
                    let whole = match str::from_utf8(&self.bytes) {
                        Err(error) if error.error_len().is_none() => error.valid_up_to(),
                        _ => self.bytes.len(),
                    };
                    self.shown.push_str(&String::from_utf8_lossy(&self.bytes[..whole]));
                    self.bytes.drain(..whole);
                }
                Err(_) => {
                    let rest = &self.shown[self.seen..];
                    return Err(Failure::Failed(format!("{text:?} was not shown, but after what was: {rest:?}")));
                }
            }
        }
    }

    /// How much was shown and waited for.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// What was shown from there to what was waited for last.
    pub fn shown_since(&self, from: usize) -> &str {
        &self.shown[from..self.seen]
    }

    /// Types a line, waits for what it prints as lines of their own, and for the next prompt.
    pub fn line(&mut self, line: &str, answers: &[&str]) -> Result<(), Failure> {
        self.keys(&format!("{line}\r"))?;
        for answer in answers {
            self.expect(&format!("\n{answer}\n"))?;
            // The end of one line is the beginning of the next.
            self.seen -= 1;
        }
        self.expect(PROMPT)
    }

    /// Switches the machine off and waits for the end. Value: the status of `./musubi run`.
    pub fn power_off(mut self) -> Result<Option<i32>, Failure> {
        self.keys("poweroff\r")?;
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().context("waiting for ./musubi run")? {
                return Ok(status.code());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(Failure::Failed("the machine is not off".into()))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // It takes its machine with it; the errors would be that it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
