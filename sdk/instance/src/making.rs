//! Instances: a clone of the text, the data at a fixed distance behind it, and the start record.

use crate::image::{Original, Refusal};
use crate::placement::{self, Wanted};
use alloc::format;
use alloc::vec::Vec;
use musubi::abi::layout::{GRANULE, PAGE};
use musubi::abi::rights::principal;
use musubi::abi::section::{class, flag, kind};
use musubi::abi::start::{START_MAGIC, StartInfo, Str};
use musubi::abi::task::Limits;
use musubi::interfaces::request::Request;
use musubi::rt::{self, Section, fault, section, task};
use musubi::{AclEntry, Error, Rights};
use zerocopy::IntoBytes;

/// Limits of a program for which nobody asked for others: half a gigabyte, 128 GiB of addresses.
const LIMITS: Limits = Limits { frames: 0, sections: 512, reserve: 128 << 30, threads: 128 };

/// What a request leaves open.
#[must_use]
pub fn limits(asked: &Limits) -> Limits {
    let or = |asked: u64, usual: u64| if asked == 0 { usual } else { asked };
    Limits {
        frames: or(asked.frames, LIMITS.frames),
        sections: or(asked.sections, LIMITS.sections),
        reserve: or(asked.reserve, LIMITS.reserve),
        threads: or(asked.threads, LIMITS.threads),
    }
}

/// Sections made so far: they are deleted again unless the instance is completed.
struct Parts {
    bases: Vec<u64>,
    task: u64,
}

impl Drop for Parts {
    fn drop(&mut self) {
        for &base in self.bases.iter().rev() {
            let _ = section::delete(base);
        }
        if self.task != 0 {
            let _ = task::kill(self.task);
        }
    }
}

/// Where instances of one program stand, one after the other: room beside a section that is there for this alone.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Where the text begins.
    pub text: u64,
}

impl Room {
    /// # Errors
    /// What the kernel answers.
    pub fn for_instances(original: &Original) -> Result<Room, Error> {
        let plan = &original.plan;
        let data = if plan.data_len == 0 { 0 } else { plan.data_offset + plan.data_len.next_multiple_of(GRANULE) };
        let room = original.reserve.max(data);
        let guard = Section::create_at(PAGE, GRANULE, kind::DATA, flag::ANY_PRINCIPAL, 0, room)?;
        let _ = section::name(guard.base(), b"place");
        Ok(Room { text: guard.base() + GRANULE })
    }
}

/// Starts an instance of `original`, in a room or anywhere, to be executed in a class. Value: its task.
///
/// # Errors
/// What the kernel answers, and in which step.
pub fn start(
    original: &Original,
    request: &Request,
    name: &[u8],
    class: Wanted,
    at: Option<&Room>,
) -> Result<u64, Refusal> {
    let plan = &original.plan;
    let at_step =
        |step: &'static str| move |error: Error| Refusal { error, reason: format!("cannot start it: {step}: {error}") };
    let mut parts = Parts { bases: Vec::new(), task: 0 };

    let data_reserve = plan.data_len.next_multiple_of(GRANULE);
    let room = if plan.data_len == 0 { 0 } else { plan.data_offset - original.reserve + data_reserve };
    let (at, room) = at.map_or((0, room), |there| (there.text, 0));
    let text = section::clone_at(original.text, flag::ANY_PRINCIPAL, at, room).map_err(at_step("text"))?;
    parts.bases.push(text);
    let _ = section::name(text, name);
    if class.class != class::PUSR {
        section::place(text, class.class, class.group).map_err(at_step("placement"))?;
    }
    if class.places {
        placement::give(text).map_err(at_step("the right to place texts"))?;
    }

    parts.task =
        task::create_for(request.payer, &limits(&request.limits), request.user, name).map_err(at_step("task"))?;

    let mut data_base = 0;
    if plan.data_len > 0 {
        let at = text + plan.data_offset;
        let mut data = Section::create_at(plan.data_len, data_reserve, kind::DATA, flag::ANY_PRINCIPAL, at, 0)
            .map_err(at_step("data"))?;
        data_base = data.base();
        let _ = section::name(data_base, b"data");
        // Given first, so that what is filled is paid for by whom it is for, not by the system.
        section::give(data_base, parts.task).inspect_err(|_| parts.bases.push(data_base)).map_err(at_step("data"))?;
        fill(&mut data, original, text).map_err(at_step("data"))?;
    }

    let info = StartInfo {
        magic: START_MAGIC,
        task: parts.task,
        user: request.user,
        text,
        data: data_base,
        names: request.names,
        streams: request.streams,
        ..StartInfo::default()
    };
    let record = start_record(info, &request.args, &request.env).map_err(at_step("start record"))?;
    let mut start = Section::create(record.len() as u64, record.len() as u64, kind::DATA, flag::ANY_PRINCIPAL)
        .map_err(at_step("start record"))?;
    parts.bases.push(start.base());
    fault::copy_out(start.bytes_mut(), &record).map_err(at_step("start record"))?;
    let _ = section::name(start.base(), b"start");

    hand_over(&mut parts, [text, data_base, start.base()], plan.entry).map_err(at_step("hand-over"))?;
    let task = parts.task;
    parts.bases.clear();
    parts.task = 0;
    Ok(task)
}

/// The data as the file has them, with the base added where the file says so.
fn fill(data: &mut Section, original: &Original, text: u64) -> Result<(), Error> {
    let bytes = data.bytes_mut();
    // A fault in the middle would end this call, and leave what it has made: whoever may kill the task can have the data gone at any moment.
    fault::copy_out(&mut bytes[..original.plan.data.len()], original.plan.data)?;
    for (offset, addend) in original.plan.relocations() {
        let value = text.wrapping_add_signed(addend);
        // Checked when the file was read; a damaged plan must not end this program all the same.
        if let Some(target) = bytes.get_mut(offset as usize..).and_then(|b| b.first_chunk_mut::<8>()) {
            fault::copy_out(target, &value.to_le_bytes())?;
        }
    }
    Ok(())
}

/// Gives the sections to the task, with rights for its text alone, and starts its first thread.
fn hand_over(parts: &mut Parts, [text, data, start]: [u64; 3], entry: u64) -> Result<(), Error> {
    let any = |rights: Rights| AclEntry { principal: principal::ANY, rights: rights.bits(), id: 0, text };
    // Threads of callers run in the text, too; only the program's own may change who is let in.
    let own = AclEntry { principal: principal::TASK, rights: Rights::CHANGE_ACL.bits(), id: parts.task, text };
    section::grant(text, &any(Rights::READ | Rights::EXECUTE))?;
    section::grant(text, &own)?;
    if data != 0 {
        section::grant(data, &any(Rights::READ | Rights::WRITE))?;
        section::grant(data, &own)?;
    }
    section::grant(start, &any(Rights::READ))?;
    for base in [text, start] {
        section::give(base, parts.task)?;
        // It goes with the task from now on, which somebody may end before we are through: then the address is another's.
        parts.bases.retain(|one| *one != base);
    }
    task::start(parts.task, text, text + entry, start, 0)?;
    // From here on whoever has made the instance has no more rights on it than anybody else.
    let nothing = AclEntry { principal: principal::ANY, rights: 0, id: 0, text: rt::start().text() };
    let is_its = |base: &u64| *base != 0 && section::owner(*base) == Ok(parts.task);
    for base in [text, data, start].into_iter().filter(is_its) {
        let _ = section::grant(base, &nothing);
    }
    Ok(())
}

/// The start record with its strings behind it.
fn start_record(mut info: StartInfo, args: &[Vec<u8>], env: &[Vec<u8>]) -> Result<Vec<u8>, Error> {
    let table = size_of::<StartInfo>();
    let mut offset = table + (args.len() + env.len()) * size_of::<Str>();
    let strings = || args.iter().chain(env);
    info.argc = args.len() as u64;
    info.envc = env.len() as u64;
    info.args_offset = table as u64;
    info.len = (offset + strings().map(|s| s.len() + 1).sum::<usize>()) as u64;
    let mut record = Vec::new();
    record.try_reserve_exact(info.len as usize).map_err(|_| Error::NoMemory)?;
    record.extend_from_slice(info.as_bytes());
    for string in strings() {
        let place = Str { offset: offset as u64, len: string.len() as u64 };
        record.extend_from_slice(place.as_bytes());
        offset += string.len() + 1;
    }
    for string in strings() {
        record.extend_from_slice(string);
        record.push(0);
    }
    debug_assert!(record.len() as u64 == info.len && record.len() < PAGE as usize * 64);
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromBytes;

    #[test]
    fn strings_lie_where_the_record_says() {
        let args = [b"hello".to_vec(), Vec::new(), b"\xff\xfe".to_vec()];
        let env = [b"A=b".to_vec()];
        let record = start_record(StartInfo { magic: START_MAGIC, ..StartInfo::default() }, &args, &env).unwrap();
        let (info, _) = StartInfo::read_from_prefix(&record).unwrap();
        assert_eq!((info.argc, info.envc, info.len), (3, 1, record.len() as u64));
        let at = |i: usize| {
            let place = info.args_offset as usize + i * size_of::<Str>();
            let place = Str::read_from_prefix(&record[place..]).unwrap().0;
            &record[place.offset as usize..][..place.len as usize]
        };
        assert_eq!([at(0), at(1), at(2), at(3)], [&b"hello"[..], b"", b"\xff\xfe", b"A=b"]);
    }
}
