//! Bytes that wait in a pipe.

use alloc::collections::VecDeque;

/// Bytes that fit.
const LEN: usize = 64 << 10;

#[derive(Debug, Default)]
pub struct Ring {
    bytes: VecDeque<u8>,
    /// Nobody will read any more.
    pub no_reader: bool,
    /// Nobody will write any more.
    pub no_writer: bool,
}

impl Ring {
    pub fn new() -> Ring {
        Ring::default()
    }

    /// Takes as much as fits. Value: how much.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        let n = bytes.len().min(LEN - self.bytes.len());
        self.bytes.extend(&bytes[..n]);
        n
    }

    /// Gives as much as there is. Value: how much.
    pub fn pop(&mut self, buffer: &mut [u8]) -> usize {
        let n = buffer.len().min(self.bytes.len());
        for (to, from) in buffer.iter_mut().zip(self.bytes.drain(..n)) {
            *to = from;
        }
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let mut ring = Ring::new();
        let sent: std::vec::Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
        let (mut at, mut got) = (0, std::vec::Vec::new());
        let mut buffer = [0; 777];
        while got.len() < sent.len() {
            at += ring.push(&sent[at..sent.len().min(at + 5000)]);
            let n = ring.pop(&mut buffer);
            got.extend_from_slice(&buffer[..n]);
        }
        assert_eq!(got, sent);
        assert_eq!(ring.push(&sent), LEN);
    }
}
