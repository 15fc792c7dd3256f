//! `execve`: another program in the same task. Everything is made ready first; only then the old program goes.

use abi::frame::Vectors;
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_raw_sys::general as linux;

use crate::answer::{Answer, End, Errno, Stop, errno, fail};
use crate::load::Request;
use crate::machine::Machine;
use crate::process::{Call, ProgramName};
use crate::tree::{self, Node};

/// Most strings, and longest string, that are looked at; `stack.rs` has the limit of all together.
const STRINGS_MAX: usize = 64 << 10;
const STRING_MAX: usize = 128 << 10;

pub fn execve<M: Machine>(call: &mut Call<'_, M>, path: u64, arguments: u64, environment: u64) -> Answer {
    let asked = call.path(path)?;
    let (path, entry) = call.find(linux::AT_FDCWD, &asked)?;
    let Node::File(file) = entry.node else { return fail(errno::EACCES) };
    // The program that runs already was found good by whoever started it.
    if !entry.mode.allows(call.process.user, 1) && file != call.process.program.lock().file {
        return fail(errno::EACCES);
    }
    let (arguments, environment) = (strings(call, arguments)?, strings(call, environment)?);
    let process = call.process;
    let loaded = call
        .server
        .load(&Request {
            task: process.task,
            user: process.user,
            path: &path,
            file,
            arguments: &arguments,
            environment: &environment,
            text: Some(process.text.clone()),
        })
        .map_err(Errno::from)?;

    // From here on there is no way back.
    let installed = {
        let mut map = process.map.lock();
        let old = core::mem::replace(&mut *map, loaded.map);
        let unmapped = old
            .iter()
            .try_for_each(|(range, _)| call.machine().window_unmap(process.task, range.start, range.end - range.start));
        call.server.discard(process.task, old.into_pieces());
        unmapped.and_then(|()| call.server.install(process.task, &map))
    };
    let cleared = call.machine().set_vectors(process.task, &Vectors::clean());
    if installed.is_err() || cleared.is_err() {
        return Err(Stop::End(End::by(linux::SIGKILL.into())));
    }
    let closed = process.descriptors.lock().exec();
    closed.into_iter().for_each(|description| call.discard(Some(description)));
    process.signals.lock().exec();
    let mut name = ProgramName::new(&path, file);
    name.rename(tree::last(&asked));
    *process.program.lock() = name;
    let thread = call.frame.thread;
    *call.frame = loaded.frame;
    call.frame.thread = thread;
    drop::<Arc<_>>(loaded.text);
    Err(Stop::Resume)
}

/// A vector of strings that ends with a null pointer; a null vector is empty, as on Linux.
fn strings<M: Machine>(call: &Call<'_, M>, vector: u64) -> Result<Vec<Vec<u8>>, Errno> {
    let mut strings = Vec::new();
    if vector == 0 {
        return Ok(strings);
    }
    let mut total = 0;
    for i in 0..STRINGS_MAX as u64 {
        let at = vector.checked_add(8 * i).ok_or(Errno(errno::EFAULT))?;
        let string = match call.read_word(at)? {
            0 => return Ok(strings),
            address => call.string(address, STRING_MAX, errno::E2BIG)?,
        };
        total += string.len();
        if total as u64 > crate::map::STACK_LEN {
            break;
        }
        strings.push(string);
    }
    fail(errno::E2BIG)
}
