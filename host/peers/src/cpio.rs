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

    /// Takes an archive apart, as the format says: (path, mode, data).
    fn read(mut archive: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut members = Vec::new();
        while !archive.is_empty() {
            let field = |n: usize| {
                let digits = std::str::from_utf8(&archive[6 + 8 * n..][..8]).unwrap();
                u32::from_str_radix(digits, 16).unwrap()
            };
            assert_eq!(&archive[..6], b"070701");
            let (mode, data_len, name_len) = (field(1), field(6) as usize, field(11) as usize);
            let name = String::from_utf8(archive[110..110 + name_len - 1].to_vec()).unwrap();
            let begins = (110 + name_len).next_multiple_of(4);
            members.push((name, mode, archive[begins..begins + data_len].to_vec()));
            archive = &archive[(begins + data_len).next_multiple_of(4)..];
        }
        members
    }

    #[test]
    fn folders_come_once_and_before_what_is_in_them() {
        let mut archive = Vec::new();
        write(&[("init", b"1"), ("etc/a/b", b"23456"), ("etc/c", b"")], &mut archive).unwrap();
        let folder = |path: &str| (path.to_string(), DIRECTORY, Vec::new());
        let file = |path: &str, data: &[u8]| (path.to_string(), PROGRAM, data.to_vec());
        let end = ("TRAILER!!!".to_string(), 0, Vec::new());
        let wanted =
            [file("init", b"1"), folder("etc"), folder("etc/a"), file("etc/a/b", b"23456"), file("etc/c", b""), end];
        assert_eq!(read(&archive), wanted);
    }
}
