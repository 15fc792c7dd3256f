//! What a machine prints: what is expected of it, and how it is shown.

/// What is expected of a stream.
pub enum Text {
    Exact(Vec<u8>),
    Contains(Vec<&'static str>),
    /// True if it is as it should be.
    Check(fn(&str) -> bool),
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
