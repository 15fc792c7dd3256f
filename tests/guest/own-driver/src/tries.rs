//! What only a driver or a server of the system's can try.

use alloc::vec::Vec;
use musubi::Error;
use musubi::abi::calls::stub;
use musubi::abi::layout::PAGE;
use musubi::abi::section::kind;
use musubi::rt::section::Ports;
use musubi::rt::{Section, Trap};

/// Of the controller's ports, which are five: one that nothing answers at, and the state.
const NOTHING: u64 = 2;
const STATE: u64 = 4;
const COUNT: u64 = 5;
/// So many bytes are written to a port in one go (kernel/src/device.rs).
const PART: u64 = 512;
/// Bytes of text that one call takes.
const MOST: usize = 1024;

/// The answer was to be this one.
fn is(answer: Result<u64, Error>, wanted: Result<u64, Error>) -> Result<(), Error> {
    if answer == wanted { Ok(()) } else { Err(answer.err().unwrap_or(Error::Exists)) }
}

/// A page of which there are such bytes, and behind which there is nothing.
fn page_of(byte: u8) -> Result<Section, Error> {
    let mut page = Section::create(PAGE, PAGE, kind::DATA, 0)?;
    page.bytes_mut().fill(byte);
    Ok(page)
}

pub fn ports(ports: Ports) -> Result<(), Error> {
    let read = |section, port, width| stub::port_read(&Trap, section, port, width);
    let write = |section, port, width| stub::port_write(&Trap, section, port, width, 0);
    let page = page_of(0)?;
    for _ in 0..100 {
        // A byte and no more, and not what is read where there is nothing.
        if read(ports.0, STATE, 1)? >= 0xff {
            return Err(Error::Changed);
        }
        is(write(ports.0, NOTHING, 1), Ok(0))?;
    }
    for (port, width) in [(0, 3), (0, 0), (0, 8), (0, u64::MAX), (COUNT, 1), (STATE, 2), (2, 4), (u64::MAX, 1)] {
        is(read(ports.0, port, width), Err(Error::BadArgument))?;
        is(write(ports.0, port, width), Err(Error::BadArgument))?;
    }
    for (section, why) in [(page.base(), Error::NotSupported), (ports.0 + PAGE, Error::NotFound), (0, Error::NotFound)]
    {
        is(read(section, STATE, 1), Err(why))?;
        is(write(section, NOTHING, 1), Err(why))?;
    }
    // Of bytes of which not all are there those before are written, once, and it is said how many.
    let bytes = |from, len| stub::port_write_bytes(&Trap, ports.0, NOTHING, from, len);
    let end = page.base() + PAGE;
    is(bytes(end - 2 * PART, 2 * PART), Ok(2 * PART))?;
    is(bytes(end - PART, 2 * PART), Ok(PART))?;
    is(bytes(end - PART, PART + 1), Ok(PART))?;
    is(bytes(end - 1, 2), Err(Error::BadAddress))?;
    is(bytes(end, PART), Err(Error::BadAddress))?;
    page.delete()
}

/// What the host finds in the log, a number before each (`system::s10_boot::the_log_has_all_that_is_written`).
pub fn tell() -> Result<(), Error> {
    let log = |text: &[u8]| is(stub::log_write(&Trap, text.as_ptr() as u64, text.len() as u64), Ok(text.len() as u64));
    let with = |before: &str, rest: &[u8]| [before.as_bytes(), rest].concat();
    log(&with("own-driver 0 ", &(b' '..=b'~').collect::<Vec<u8>>()))?;
    log("own-driver 1 \u{e4}\u{f6}\u{df} \u{20ac} \u{10348}".as_bytes())?;
    let long: Vec<u8> = with("own-driver 2 ", &(b'a'..=b'z').cycle().take(MOST).collect::<Vec<u8>>());
    log(&long[..MOST])?;
    // Over a border of two pages.
    let mut pages = Section::create(2 * PAGE, 2 * PAGE, kind::DATA, 0)?;
    let text = b"own-driver 3 lies on two pages";
    let at = PAGE - 8;
    pages.bytes_mut()[at as usize..][..text.len()].copy_from_slice(text);
    is(stub::log_write(&Trap, pages.base() + at, text.len() as u64), Ok(text.len() as u64))?;
    pages.delete()?;
    log(b"own-driver 4 is\n] own-driver 5 are two lines")?;
    log(b"own-driver 6 \xff is no text \xc3")?;
    // Nothing of what is refused is there.
    let refused = |from, len, why| is(stub::log_write(&Trap, from, len), Err(why));
    let mut page = page_of(b'x')?;
    let words = b"own-driver was refused ";
    page.bytes_mut()[(PAGE as usize) - words.len()..].copy_from_slice(words);
    let start = page.base() + PAGE - words.len() as u64;
    refused(start, words.len() as u64 + 1, Error::BadAddress)?;
    refused(start, MOST as u64, Error::BadAddress)?;
    refused(page.base(), MOST as u64 + 1, Error::TooBig)?;
    refused(start, u64::MAX, Error::TooBig)?;
    refused(0, 8, Error::BadAddress)?;
    refused(u64::MAX - 3, 8, Error::BadAddress)?;
    refused(0xffff_8000_0010_0000, 8, Error::BadAddress)?;
    page.delete()?;
    // Of nothing an empty line.
    log(b"")?;
    log(b"own-driver 7")
}
