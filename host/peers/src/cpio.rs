//! An initial RAM disk for Linux: a cpio archive of the form `newc`.

use std::io::{self, Write};

const DIRECTORY: u32 = 0o040755;
const PROGRAM: u32 = 0o100755;

/// Writes files that may be executed, by their paths, each with the folders above it.
pub fn write(files: &[(&str, &[u8])], out: &mut impl Write) -> io::Result<()> {
    let mut folders: Vec<&str> = Vec::new();
    for (path, data) in files {
        for (at, _) in path.match_indices('/') {
            if !folders.contains(&&path[..at]) {
                folders.push(&path[..at]);
                member(&path[..at], DIRECTORY, &[], out)?;
            }
        }
        member(path, PROGRAM, data, out)?;
    }
    member("TRAILER!!!", 0, &[], out)
}

fn member(path: &str, mode: u32, data: &[u8], out: &mut impl Write) -> io::Result<()> {
    let len = u32::try_from(data.len()).map_err(|_| io::Error::other("a file of 4 GiB"))?;
    let (inode, user, group, links, time, device) = (0, 0, 0, 1, 0, 0);
    let name_len = path.len() as u32 + 1;
    write!(out, "070701")?;
    for field in [inode, mode, user, group, links, time, len, device, device, device, device, name_len, 0] {
        write!(out, "{field:08x}")?;
    }
    // The header is 110 bytes long; name and data begin and end at multiples of four.
    out.write_all(path.as_bytes())?;
    out.write_all(&[0; 4][..4 - (110 + path.len()) % 4])?;
    out.write_all(data)?;
    out.write_all(&[0; 3][..data.len().wrapping_neg() % 4])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn everything_begins_at_a_multiple_of_four() {
        for len in 0..8 {
            let (mut out, data) = (Vec::new(), vec![b'x'; len]);
            let name = "n".repeat(len + 1);
            member(&name, PROGRAM, &data, &mut out).unwrap();
            assert_eq!(out.len() % 4, 0);
            let begins = (110 + name.len() + 1).next_multiple_of(4);
            assert_eq!((&out[110..110 + name.len()], out[110 + name.len()]), (name.as_bytes(), 0));
            assert_eq!(&out[begins..begins + len], data);
            assert_eq!(out.len(), (begins + len).next_multiple_of(4));
        }
    }

    /// Against the program cpio, where there is one.
    #[test]
    fn cpio_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let cpio = Command::new("cpio").args(["-i", "--quiet"]).current_dir(&dir).stdin(Stdio::piped()).spawn();
        let Ok(mut cpio) = cpio else { return };
        let mut archive = cpio.stdin.take().unwrap();
        write(&[("init", b"1"), ("etc/a/b", b"23456"), ("etc/c", b"")], &mut archive).unwrap();
        drop(archive);
        assert!(cpio.wait().unwrap().success());
        let read = |path| std::fs::read(dir.path().join(path)).unwrap();
        assert_eq!((read("init"), read("etc/a/b"), read("etc/c")), (b"1".to_vec(), b"23456".to_vec(), Vec::new()));
    }
}
