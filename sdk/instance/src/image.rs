//! Originals: a program's file is checked and laid out once; instances are clones of that text.

use alloc::vec::Vec;
use elf_plan::{Native, Program};
use musubi::Error;
use musubi::abi::layout::PAGE;
use musubi::abi::section::{flag, kind};
use musubi::rt::{Mutex, Section, fault, section};

/// Why a program is not started: the error, and one line for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub error: Error,
    pub reason: alloc::string::String,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal { error, reason: alloc::string::String::new() }
    }
}

/// A native program, ready to be cloned.
#[derive(Clone, Debug)]
pub struct Original {
    /// Its sealed text section, and what that reserves.
    pub text: u64,
    pub reserve: u64,
    pub plan: Native<'static>,
}

/// What a file turned out to be.
#[derive(Debug)]
pub enum Kind {
    Native(Original),
    Linux,
}

/// Originals by the number of their file.
#[derive(Debug, Default)]
pub struct Originals(Mutex<Vec<(usize, Original)>>);

impl Originals {
    /// Checks the file and makes its original text, or finds what was made before.
    ///
    /// # Errors
    /// Why it is no program, or what the kernel answers.
    pub fn of(&self, number: usize, name: &[u8], file: &'static [u8]) -> Result<Kind, Refusal> {
        let find = |known: &[(usize, Original)]| known.iter().find(|o| o.0 == number).map(|(_, known)| known.clone());
        let known = find(&self.0.lock());
        if let Some(known) = known {
            return Ok(Kind::Native(known));
        }
        // Without the lock: whoever is stopped in the middle leaves it free. Two may make the same; one of them is enough.
        let Kind::Native(original) = read(name, file, None)? else { return Ok(Kind::Linux) };
        let kept = {
            let known = &mut *self.0.lock();
            match find(known) {
                None if known.try_reserve(1).is_ok() => {
                    known.push((number, original.clone()));
                    return Ok(Kind::Native(original));
                }
                kept => kept,
            }
        };
        let _ = section::delete(original.text);
        kept.map(Kind::Native).ok_or_else(|| Error::NoMemory.into())
    }
}

/// Checks a file.
///
/// # Errors
/// Why it is no program.
pub fn plan(file: &[u8]) -> Result<Program<'_>, Refusal> {
    elf_plan::read(file).map_err(|why| Refusal { error: Error::BadProgram, reason: alloc::format!("{why}") })
}

/// Checks a file and makes the original text of it, which this task pays for, or the system.
///
/// # Errors
/// Why it is no program, or what the kernel answers.
pub fn read(name: &[u8], file: &'static [u8], payer: Option<u64>) -> Result<Kind, Refusal> {
    match plan(file)? {
        Program::Native(plan) => Ok(Kind::Native(lay_out(name, plan, payer)?)),
        Program::Linux(_) => Ok(Kind::Linux),
    }
}

fn lay_out(name: &[u8], plan: Native<'static>, payer: Option<u64>) -> Result<Original, Error> {
    let mut section = Section::create(plan.text_len, plan.text_len + PAGE, kind::DATA, flag::ANY_PRINCIPAL)?;
    let base = section.base();
    let made = (|| {
        // Given first, so that what is filled is in the payer's quota, and goes with that task if this call ends in the middle.
        payer.map_or(Ok(()), |task| section::give(base, task))?;
        // A fault in the middle would end this call, and leave the section.
        fault::copy_out(&mut section.bytes_mut()[..plan.text.len()], plan.text)?;
        let _ = section::name(base, name);
        let text = section.seal()?;
        let reserve = section::info(text)?.reserve;
        // The data go to a fixed distance; a text that reserves more than that could never have an instance.
        if plan.data_len > 0 && reserve > plan.data_offset {
            return Err(Error::TooBig);
        }
        Ok(Original { text, reserve, plan })
    })();
    made.inspect_err(|_| _ = section::delete(base))
}
