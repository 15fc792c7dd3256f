//! What a machine prints: what is expected of it, and how it is shown.

use machine::Finished;

/// What is expected of a stream.
pub enum Text {
    Exact(Vec<u8>),
    Contains(Vec<&'static str>),
    /// True if it is as it should be.
    Check(fn(&str) -> bool),
    /// As it says, or why not.
    Judged(fn(&str) -> Result<(), String>),
    /// The same as this command prints on the host.
    AsHost(Vec<&'static str>),
    Any,
}

/// Text as far as a reader wants it.
pub fn excerpt(bytes: &[u8]) -> String {
    const MUCH: usize = 4000;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MUCH)]).into_owned();
    if bytes.len() > MUCH { format!("{text}\n... and {} bytes more", bytes.len() - MUCH) } else { text }
}

/// What is told of a command that did not do as it should.
pub fn report(words: &[Vec<u8>], time: u32, complaints: &[String], finished: &Finished) -> String {
    let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
    let time = if time > 1 { format!(" (run {time})") } else { String::new() };
    format!(
        "command: {words:?}{time}\n{}\nstandard output ({} bytes):\n{}\nstandard error ({} bytes):\n{}\nconsole:\n{}",
        complaints.join("\n"),
        finished.out.len(),
        excerpt(&finished.out),
        finished.err.len(),
        excerpt(&finished.err),
        finished.tail(200),
    )
}
