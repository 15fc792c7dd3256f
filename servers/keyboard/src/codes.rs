//! Scan codes of set 1 (as the controller translates them) to bytes, US layout.

use alloc::vec::Vec;

/// Keys from code 1 on: alone and with shift; 0: no byte.
const PLAIN: &[u8; 57] = b"\x1b1234567890-=\x7f\tqwertyuiop[]\r\0asdfghjkl;'`\0\\zxcvbnm,./\0*\0 ";
const SHIFTED: &[u8; 57] = b"\x1b!@#$%^&*()_+\x7f\tQWERTYUIOP{}\r\0ASDFGHJKL:\"~\0|ZXCVBNM<>?\0*\0 ";

/// What is held down, between codes.
#[derive(Debug, Default)]
pub struct Decoder {
    shift: bool,
    control: bool,
    alt: bool,
    caps: bool,
    extended: bool,
}

impl Decoder {
    /// The bytes that a scan code means.
    pub fn code(&mut self, code: u8) -> Vec<u8> {
        if code == 0xe0 || code == 0xe1 {
            self.extended = true;
            return Vec::new();
        }
        let extended = core::mem::take(&mut self.extended);
        let (key, down) = (code & 0x7f, code & 0x80 == 0);
        match key {
            // Extended shifts are noise that some keys send around themselves.
            0x2a | 0x36 if !extended => self.shift = down,
            0x1d => self.control = down,
            0x38 => self.alt = down,
            0x3a if down => self.caps = !self.caps,
            _ if down && extended => return special(key).to_vec(),
            _ if down => return self.plain(key),
            _ => {}
        }
        Vec::new()
    }

    fn plain(&self, key: u8) -> Vec<u8> {
        let table = if self.shift { SHIFTED } else { PLAIN };
        let mut byte = match usize::from(key).checked_sub(1).and_then(|i| table.get(i)) {
            Some(&0) | None => return Vec::new(),
            Some(&byte) => byte,
        };
        if self.caps && byte.is_ascii_alphabetic() {
            byte ^= 0x20;
        }
        if self.control && matches!(byte, b'@'..=b'_' | b'a'..=b'z') {
            byte &= 0x1f;
        }
        if self.alt { Vec::from([0x1b, byte]) } else { Vec::from([byte]) }
    }
}

/// Keys that terminals send as sequences.
fn special(key: u8) -> &'static [u8] {
    match key {
        0x48 => b"\x1b[A",
        0x50 => b"\x1b[B",
        0x4d => b"\x1b[C",
        0x4b => b"\x1b[D",
        0x47 => b"\x1b[H",
        0x4f => b"\x1b[F",
        0x53 => b"\x1b[3~",
        0x49 => b"\x1b[5~",
        0x51 => b"\x1b[6~",
        0x1c => b"\r",
        0x35 => b"/",
        _ => b"",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(codes: &[u8]) -> Vec<u8> {
        let mut decoder = Decoder::default();
        codes.iter().flat_map(|&code| decoder.code(code)).collect()
    }

    #[test]
    fn keys_by_place() {
        assert_eq!(typed(&[0x1e, 0x9e, 0x2c, 0x39, 0x02, 0x0b, 0x1c]), b"az 10\r");
        assert_eq!(typed(&[0x2a, 0x1e, 0x28, 0xaa, 0x28]), b"A\"'");
        assert_eq!(typed(&[0x2b, 0x35, 0x27, 0x29, 0x0e]), b"\\/;`\x7f");
    }

    #[test]
    fn modifiers_and_sequences() {
        assert_eq!(typed(&[0x1d, 0x2e, 0x9d, 0x2e]), b"\x03c");
        assert_eq!(typed(&[0x3a, 0xba, 0x1e, 0x02]), b"A1", "caps lock changes letters only");
        assert_eq!(typed(&[0xe0, 0x48, 0xe0, 0xc8]), b"\x1b[A");
        assert_eq!(typed(&[0xe0, 0x2a, 0xe0, 0x53, 0x1e]), b"\x1b[3~a", "fake shifts are noise");
    }
}
