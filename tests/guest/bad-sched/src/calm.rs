//! So that nothing else is going on by the time that a scheduler goes wrong.

use musubi::rt::time;

/// Until when it is not to, as its second word says in ms from now.
pub fn calm(word: Option<&str>) -> u64 {
    let ms: u64 = word.and_then(|word| word.parse().ok()).unwrap_or(0);
    time::now_ns() + ms * 1_000_000
}
