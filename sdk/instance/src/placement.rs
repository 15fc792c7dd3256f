//! Which programs are executed in supervisor mode, and who may ask for that (docs/decisions/0018): the system may, for whatever it starts;
//! whoever makes the image, by a file that names programs of the image; anybody else, for what is named there. The right to ask the kernel is the
//! first task's, which passes it on to the loader, and of those to whom the file says that it is passed on.

use crate::image::Refusal;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::rights::principal;
use musubi::abi::section::class;
use musubi::abi::task::USER_SYSTEM;
use musubi::interfaces::request::Request;
use musubi::rt::{Mutex, info, section};
use musubi::{AclEntry, Error, Rights};

/// The file of the image that names programs which may be executed in supervisor mode.
pub const FILE: &[u8] = b"etc/placement";

/// A class, and for NSys a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub class: u64,
    pub group: u64,
    /// It may place texts itself.
    pub places: bool,
}

/// In place of a class: the program is executed in user mode, and may place texts, and let others.
const PLACER: &str = "placer";

/// What is said of the programs of a name.
#[derive(Debug)]
struct Named {
    name: Vec<u8>,
    now: Wanted,
    /// By the image itself.
    image: Option<Wanted>,
}

/// A program, by what it is called in the image: whatever else somebody calls it says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    pub name: &'a [u8],
    /// It is not the system's own (`--put`, or a file): it has only what the image says of it, and not what is said later of one that happens
    /// to be called so.
    pub is_put: bool,
}

/// By the name of the program.
#[derive(Debug, Default)]
pub struct Placements(Mutex<Vec<Named>>);

/// A group is named by up to eight letters.
fn group(word: &str) -> Option<u64> {
    let mut bytes = [0; 8];
    bytes.get_mut(..word.len())?.copy_from_slice(word.as_bytes());
    Some(u64::from_le_bytes(bytes))
}

/// A line of the file: `NAME [CLASS [GROUP]]`, or `NAME placer`. Without a class it is user mode's, until somebody asks.
fn line(line: &str) -> Option<(Vec<u8>, Wanted)> {
    let mut words = line.split_ascii_whitespace();
    let name = words.next()?;
    let word = words.next();
    let places = word == Some(PLACER);
    let class = word.filter(|_| !places).map_or(Some(class::PUSR), class::named)?;
    let group = words.next().map_or(Some(0), group)?;
    let one = (name.as_bytes().to_vec(), Wanted { class, group, places });
    (words.next().is_none() && (group == 0 || class == class::NSYS)).then_some(one)
}

/// A text may place others, as long as it lives, and pass that on.
///
/// # Errors
/// What the kernel answers.
pub fn give(text: u64) -> Result<(), Error> {
    let rights = Rights::CALL | Rights::CHANGE_ACL;
    let entry = AclEntry { principal: principal::ANY, rights: rights.bits(), id: 0, text };
    section::grant(info::all()?.machine().placing, &entry)
}

impl Placements {
    /// What whoever made the image says, in a file of it.
    ///
    /// # Errors
    /// The line that is none.
    pub fn read(&self, lines: &[u8]) -> Result<(), String> {
        for text in
            String::from_utf8_lossy(lines).lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'))
        {
            let (name, wanted) = line(text)
                .ok_or_else(|| format!("etc/placement: {text}: not NAME [CLASS [GROUP]], nor NAME placer"))?;
            let mut all = self.0.lock();
            all.retain(|one| one.name != name);
            all.push(Named { name, now: wanted, image: Some(wanted) });
        }
        Ok(())
    }

    /// From now on the image's own program of this name is executed there.
    ///
    /// # Errors
    /// `BadArgument`: there is no such class, or one with a group that has none.
    pub fn put(&self, name: &[u8], class: u64, group: u64) -> Result<(), Error> {
        if class as usize >= class::WORDS.len() || (group != 0 && class != class::NSYS) {
            return Err(Error::BadArgument);
        }
        let now = Wanted { class, group, places: false };
        let mut all = self.0.lock();
        match all.iter_mut().find(|one| one.name == name) {
            // What the image has said of its right stays.
            Some(one) => one.now = Wanted { places: one.now.places, ..now },
            None => all.push(Named { name: name.to_vec(), now, image: None }),
        }
        Ok(())
    }

    /// Where a program is executed if it is started for `user`.
    ///
    /// # Errors
    /// `Denied`, with the reason; `BadArgument`.
    pub fn of(&self, request: &Request, program: Known<'_>, user: u64) -> Result<Wanted, Refusal> {
        let said = |one: &Named| if program.is_put { one.image } else { Some(one.now) };
        let named = self.0.lock().iter().find(|one| one.name == program.name).and_then(said);
        let Some(class) = request.class.checked_sub(1) else { return Ok(named.unwrap_or_default()) };
        let places = named.is_some_and(|named| named.places);
        let wanted = Wanted { class, group: request.exclusion, places };
        if class as usize >= class::WORDS.len() || (wanted.group != 0 && class != class::NSYS) {
            return Err(Error::BadArgument.into());
        }
        if class != class::PUSR && user != USER_SYSTEM && named.is_none() {
            let shown = String::from_utf8_lossy(request.path.rsplit(|&b| b == b'/').next().unwrap_or_default());
            let reason = format!(
                "user {user} may not have {shown} in supervisor mode: the image does not name it in etc/placement"
            );
            return Err(Refusal { error: Error::Denied, reason });
        }
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of the system's own.
    fn own(name: &[u8]) -> Known<'_> {
        Known { name, is_put: false }
    }

    fn asked(class: u64, exclusion: u64) -> Request {
        Request { path: b"bin/x".to_vec(), class, exclusion, ..Request::default() }
    }

    #[test]
    fn who_may_have_what_where() {
        let all = Placements::default();
        all.read(b"# comment\n\nconsole nsys io\n files  psys\ncheck\n").unwrap();
        let of =
            |name: &[u8], class, user| all.of(&asked(class, 0), own(name), user).map(|w| w.class).map_err(|r| r.error);
        assert_eq!(
            (of(b"console", 0, 1), of(b"files", 0, 0), of(b"check", 0, 1), of(b"x", 0, 1)),
            (Ok(2), Ok(1), Ok(0), Ok(0))
        );
        assert_eq!(all.of(&asked(0, 0), own(b"console"), 0).unwrap().group, u64::from_le_bytes(*b"io\0\0\0\0\0\0"));
        assert_eq!((of(b"check", 2, 1), of(b"check", 3, 1), of(b"files", 1, 1)), (Ok(1), Ok(2), Ok(0)));
        assert_eq!(
            (of(b"x", 2, 1), of(b"x", 2, 0), of(b"x", 1, 1), of(b"", 3, 1)),
            (Err(Error::Denied), Ok(1), Ok(0), Err(Error::Denied))
        );
        assert_eq!(
            (of(b"check", 4, 0), all.of(&asked(2, 7), own(b"check"), 0).is_err()),
            (Err(Error::BadArgument), true)
        );
        all.read(b"other placer\n").unwrap();
        let places = |name: &[u8], class| all.of(&asked(class, 0), own(name), 1).unwrap();
        assert_eq!((places(b"other", 0).places, places(b"other", 0).class), (true, 0));
        assert_eq!((places(b"other", 2).places, places(b"check", 2).places), (true, false));
        let refused = all.of(&asked(2, 0), own(b"x"), 1).unwrap_err();
        assert!(refused.reason.contains("user 1 may not have x in supervisor mode"), "{}", refused.reason);
    }

    #[test]
    fn lines_that_are_none() {
        for wrong in ["x placer io", "x ksys", "x psys io", "x nsys averylongname", "x nsys io more"] {
            assert!(Placements::default().read(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_was_said_last_holds() {
        let all = Placements::default();
        assert_eq!(
            (all.put(b"x", 2, 5), all.put(b"x", 1, 0), all.put(b"y", 3, 0)),
            (Ok(()), Ok(()), Err(Error::BadArgument))
        );
        assert_eq!(all.of(&asked(0, 0), own(b"x"), 1).unwrap(), Wanted { class: 1, ..Wanted::default() });
    }

    #[test]
    fn what_is_said_of_a_name_is_not_of_what_somebody_puts_there() {
        let all = Placements::default();
        all.read(b"check psys\n").unwrap();
        assert_eq!((all.put(b"check", 2, 0), all.put(b"sched-fast", 1, 0)), (Ok(()), Ok(())));
        let class = |name, is_put| all.of(&asked(0, 0), Known { name, is_put }, 1).map(|w| w.class).unwrap();
        assert_eq!((class(b"sched-fast", false), class(b"sched-fast", true)), (1, 0));
        assert_eq!((class(b"check", false), class(b"check", true)), (2, 1));
        let asks = |is_put| all.of(&asked(2, 0), Known { name: b"sched-fast", is_put }, 1).is_ok();
        assert_eq!((asks(false), asks(true)), (true, false));
    }
}
