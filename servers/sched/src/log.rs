//! What has happened, the latest lines.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use musubi::rt::time;

const LINES_MAX: usize = 200;

pub struct Log(VecDeque<String>);

impl Log {
    pub const fn new() -> Log {
        Log(VecDeque::new())
    }

    pub fn add(&mut self, line: String) {
        if self.0.len() == LINES_MAX {
            self.0.pop_front();
        }
        let ms = time::now_ns() / 1_000_000;
        self.0.push_back(format!("{:4}.{:03} {line}", ms / 1000, ms % 1000));
    }

    pub fn line(&self, index: usize) -> Option<String> {
        self.0.get(index).cloned()
    }
}
