//! Reading and writing. A file is memory at an address: reading it is one copy from there into the window.

use abi::Rights;
use alloc::vec::Vec;
use linux_raw_sys::general as linux;

use crate::answer::{Answer, Errno, Stop, errno, fail};
use crate::descriptors::{Description, Object, PIPE_MAX};
use crate::machine::Machine;
use crate::map::Granted;
use crate::process::Call;
use crate::signals::Sender;
use crate::tree::{Device, File};

/// Bytes that this server copies at a time.
const CHUNK: u64 = 64 << 10;
/// Bytes that go to or come from a stream at a time. They lie on the stack: who waits for a stream may be ended there, and nothing of
/// his heap would be given back.
const PART: usize = 8 << 10;
/// Bytes of a file that are copied to a program, or cleared there, before it is seen to whether the thread was killed.
pub const STEP: u64 = 1 << 20;

/// Where a transfer starts: the description's own position, or a given one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Position,
    Offset(u64),
}

impl At {
    /// So many bytes later.
    fn behind(self, done: u64) -> At {
        match self {
            At::Position => At::Position,
            At::Offset(offset) => At::Offset(offset.saturating_add(done)),
        }
    }
}

pub fn read<M: Machine>(call: &mut Call<'_, M>, fd: i32, buffer: u64, len: u64) -> Answer {
    read_from(call, fd, buffer, len, At::Position)
}

pub fn pread64<M: Machine>(call: &mut Call<'_, M>, fd: i32, buffer: u64, len: u64, offset: i64) -> Answer {
    let offset = u64::try_from(offset).map_err(|_| Errno(errno::EINVAL))?;
    read_from(call, fd, buffer, len, At::Offset(offset))
}

fn read_from<M: Machine>(call: &Call<'_, M>, fd: i32, buffer: u64, len: u64, at: At) -> Answer {
    let open = call.description(fd)?;
    if open.flags() & linux::O_ACCMODE == linux::O_WRONLY {
        return fail(errno::EBADF);
    }
    let (task, machine) = (call.process.task, call.machine());
    match &open.object {
        Object::File(file) => {
            let file = call.file(file.number())?;
            let mut done = 0;
            loop {
                let most = (len - done).min(STEP);
                let (from, part) = advance(&open, at.behind(done), |from| most.min(file.len.saturating_sub(from)));
                let to = call.grant(buffer.saturating_add(done), part, Rights::WRITE).map_err(Stop::from);
                let loaded = to.and_then(|to| match part {
                    0 => Ok(()),
                    _ => Ok(machine.window_load(task, to, file.address + from)?),
                });
                if let Err(stop) = loaded {
                    retreat(&open, at, from + part, from);
                    return if done > 0 { Ok(done) } else { Err(stop) };
                }
                done += part;
                if part == 0 || done == len {
                    return Ok(done);
                }
                if let Some(answer) = leaves(call, done) {
                    return answer;
                }
            }
        }
        Object::Directory(_) => fail(errno::EISDIR),
        Object::Device(device) => match device {
            Device::Null => Ok(0),
            Device::Zero | Device::Full => {
                let to = call.grant(buffer, len, Rights::WRITE)?;
                clear(call, to)
            }
            Device::Random => fill_random(call, buffer, len),
            // Opened, it is a stream.
            Device::Terminal => fail(errno::EIO),
        },
        Object::PipeWriter(_) => fail(errno::EBADF),
        _ if at != At::Position => fail(errno::ESPIPE),
        Object::Stream { input, .. } => {
            if len == 0 {
                return Ok(0);
            }
            let mut bytes = [0; PART];
            let to = call.grant(buffer, len.min(bytes.len() as u64), Rights::WRITE)?;
            let bytes = &mut bytes[..to.len() as usize];
            let n = match machine.stream_read(*input, bytes) {
                Ok(n) => n.min(bytes.len()),
                // Nobody is there to write any more.
                Err(abi::Error::Dead | abi::Error::NotFound) => 0,
                Err(error) => return Err(Errno::from(error).into()),
            };
            machine.window_write(task, to.part(0, n as u64), &bytes[..n])?;
            Ok(n as u64)
        }
        Object::PipeReader(pipe) => {
            let taken: Vec<u8> = {
                let mut held = pipe.bytes.lock();
                let n = held.len().min(usize::try_from(len).unwrap_or(usize::MAX));
                let to = call.grant(buffer, n as u64, Rights::WRITE)?;
                let taken: Vec<u8> = held.iter().take(n).copied().collect();
                machine.window_write(task, to, &taken)?;
                held.drain(..n);
                taken
            };
            if !taken.is_empty() {
                machine.change();
            } else if len > 0 && pipe.has_two_ends() {
                return later(&open);
            }
            Ok(taken.len() as u64)
        }
    }
}

/// Where a transfer of so many bytes starts, and how many they are. The position is behind them then: it is not locked while they are on
/// their way, which may take long or end with the thread.
fn advance(open: &Description, at: At, part: impl FnOnce(u64) -> u64) -> (u64, u64) {
    if let At::Offset(offset) = at {
        return (offset, part(offset));
    }
    let mut position = open.position.lock();
    let from = *position;
    let part = part(from);
    *position = from.saturating_add(part);
    (from, part)
}

/// Not all of them were moved. (If somebody else has gone on from there meanwhile, he has.)
fn retreat(open: &Description, at: At, from: u64, to: u64) {
    let mut position = open.position.lock();
    if at == At::Position && *position == from {
        *position = to;
    }
}

/// What a call answers that is not to go on, since its thread was killed: what is done. It has little time left, and whatever it is in the
/// middle of then stays so for everybody.
fn leaves<M: Machine>(call: &Call<'_, M>, done: u64) -> Option<Answer> {
    let answer = if done > 0 { Ok(done) } else { fail(errno::EINTR) };
    call.machine().is_killed().then_some(answer)
}

/// Writes zeroes.
pub fn clear<M: Machine>(call: &Call<'_, M>, to: Granted) -> Answer {
    let mut done = 0;
    while done < to.len() {
        if let Some(answer) = leaves(call, done) {
            return answer;
        }
        let part = to.part(done, STEP);
        call.machine().window_zero(call.process.task, part)?;
        done += part.len();
    }
    Ok(done)
}

/// Fills a buffer with random bytes, a chunk at a time.
pub fn fill_random<M: Machine>(call: &Call<'_, M>, buffer: u64, len: u64) -> Answer {
    let to = call.grant(buffer, len, Rights::WRITE)?;
    let mut chunk = [0; 256];
    let mut done = 0;
    while done < len {
        if let Some(answer) = leaves(call, done) {
            return answer;
        }
        let part = to.part(done, chunk.len() as u64);
        let bytes = &mut chunk[..part.len() as usize];
        call.machine().random(bytes);
        call.machine().window_write(call.process.task, part, bytes)?;
        done += part.len();
    }
    Ok(len)
}

pub fn readv<M: Machine>(call: &mut Call<'_, M>, fd: i32, buffers: u64, count: u64) -> Answer {
    transfer_each(call, buffers, count, |call, buffer, len| read_from(call, fd, buffer, len, At::Position))
}

pub fn write<M: Machine>(call: &mut Call<'_, M>, fd: i32, buffer: u64, len: u64) -> Answer {
    write_to(call, fd, buffer, len, At::Position)
}

pub fn pwrite64<M: Machine>(call: &mut Call<'_, M>, fd: i32, buffer: u64, len: u64, offset: i64) -> Answer {
    let offset = u64::try_from(offset).map_err(|_| Errno(errno::EINVAL))?;
    match &call.description(fd)?.object {
        Object::Stream { .. } | Object::PipeReader(_) | Object::PipeWriter(_) => fail(errno::ESPIPE),
        _ => write_to(call, fd, buffer, len, At::Offset(offset)),
    }
}

pub fn writev<M: Machine>(call: &mut Call<'_, M>, fd: i32, buffers: u64, count: u64) -> Answer {
    transfer_each(call, buffers, count, |call, buffer, len| write_to(call, fd, buffer, len, At::Position))
}

/// One transfer after the other, until one is short. An error counts only if nothing was moved before it.
fn transfer_each<M: Machine>(
    call: &mut Call<'_, M>,
    buffers: u64,
    count: u64,
    mut one: impl FnMut(&mut Call<'_, M>, u64, u64) -> Answer,
) -> Answer {
    let mut total = 0;
    for (buffer, len) in call.buffers(buffers, count)? {
        match one(call, buffer, len) {
            Ok(moved) => {
                total += moved;
                if moved < len {
                    break;
                }
            }
            Err(Stop::Error(_) | Stop::Wait(_)) if total > 0 => break,
            Err(stop) => return Err(stop),
        }
    }
    Ok(total)
}

fn write_to<M: Machine>(call: &Call<'_, M>, fd: i32, buffer: u64, len: u64, at: At) -> Answer {
    let open = call.description(fd)?;
    let from = call.grant(buffer, len, Rights::READ)?;
    let (mut small, mut large) = ([0; PART], Vec::new());
    let bytes = room(&open, len, &mut small, &mut large);
    let mut done = 0;
    while done < len {
        if let Some(answer) = leaves(call, done) {
            return answer;
        }
        let part = from.part(done, bytes.len() as u64);
        let chunk = &mut bytes[..part.len() as usize];
        call.machine().window_read(call.process.task, part, chunk)?;
        match write_bytes(call, &open, chunk, at.behind(done)) {
            Ok(n) => {
                done += n;
                if n < part.len() {
                    break;
                }
            }
            Err(Stop::Error(_) | Stop::Wait(_)) if done > 0 => break,
            Err(stop) => return Err(stop),
        }
    }
    if len == 0 { write_bytes(call, &open, &[], at) } else { Ok(done) }
}

/// Where bytes lie on their way to this description.
fn room<'a>(to: &Description, len: u64, small: &'a mut [u8; PART], large: &'a mut Vec<u8>) -> &'a mut [u8] {
    if matches!(to.object, Object::Stream { .. }) {
        return small;
    }
    large.resize(len.min(CHUNK) as usize, 0);
    large
}

/// Writes bytes of this server's own memory. Answers how many were taken.
fn write_bytes<M: Machine>(call: &Call<'_, M>, open: &Description, bytes: &[u8], at: At) -> Answer {
    if open.flags() & linux::O_ACCMODE == linux::O_RDONLY {
        return fail(errno::EBADF);
    }
    match &open.object {
        Object::Stream { output, .. } => {
            let mut done = 0;
            while done < bytes.len() {
                match call.machine().stream_write(*output, &bytes[done..]) {
                    Ok(0) => break,
                    Ok(n) => done += n.min(bytes.len() - done),
                    Err(_) if done > 0 => break,
                    Err(abi::Error::Dead | abi::Error::NotFound) => return broken_pipe(call),
                    Err(error) => return Err(Errno::from(error).into()),
                }
            }
            Ok(done as u64)
        }
        Object::PipeWriter(pipe) => {
            if !pipe.has_two_ends() {
                return broken_pipe(call);
            }
            let written = {
                let mut held = pipe.bytes.lock();
                let room = PIPE_MAX - held.len();
                // A few bytes are written together or not at all (`PIPE_BUF`).
                let n = if room < bytes.len() && bytes.len() <= linux::PIPE_BUF as usize { 0 } else { room };
                let n = n.min(bytes.len());
                held.extend(&bytes[..n]);
                n
            };
            if written > 0 {
                call.machine().change();
            } else if !bytes.is_empty() {
                return later(open);
            }
            Ok(written as u64)
        }
        Object::Device(Device::Full) if !bytes.is_empty() => fail(errno::ENOSPC),
        Object::Device(_) => Ok(bytes.len() as u64),
        Object::File(file) => {
            let len = bytes.len() as u64;
            let write = |from| call.machine().file_write(file.number(), from, bytes).map_err(Errno::of_file);
            if open.flags() & linux::O_APPEND != 0 {
                let written = write(u64::MAX)?;
                if at == At::Position {
                    let end = call.file(file.number())?.len;
                    *open.position.lock() = end;
                }
                return Ok(written);
            }
            let (from, _) = advance(open, at, |_| len);
            let written = write(from);
            let done = *written.as_ref().unwrap_or(&0);
            if done < len {
                retreat(open, at, from.saturating_add(len), from + done);
            }
            Ok(written?)
        }
        Object::Directory(_) | Object::PipeReader(_) => fail(errno::EBADF),
    }
}

/// The other end of a pipe has to do something first.
fn later(open: &Description) -> Answer {
    if open.flags() & linux::O_NONBLOCK != 0 { fail(errno::EAGAIN) } else { Err(Stop::Wait(u64::MAX)) }
}

/// Nobody reads any more: an error, and the signal that ends most programs.
fn broken_pipe<M: Machine>(call: &Call<'_, M>) -> Answer {
    let sender = Sender { code: linux::SI_USER as i32, task: call.process.task, user: call.process.user };
    call.process.signals.lock().raise(u64::from(linux::SIGPIPE), sender);
    fail(errno::EPIPE)
}

pub fn lseek<M: Machine>(call: &mut Call<'_, M>, fd: i32, offset: i64, whence: u32) -> Answer {
    let open = call.description(fd)?;
    let len = match &open.object {
        Object::File(file) => call.file(file.number())?.len,
        Object::Directory(names) => names.len() as u64 + 2,
        // Devices have one place.
        Object::Device(_) => return Ok(0),
        _ => return fail(errno::ESPIPE),
    };
    let mut position = open.position.lock();
    let base = match whence {
        linux::SEEK_SET => 0,
        linux::SEEK_CUR => *position,
        linux::SEEK_END => len,
        // A file is data from its beginning to its end.
        linux::SEEK_DATA | linux::SEEK_HOLE => {
            let from = u64::try_from(offset).ok().filter(|&from| from < len).ok_or(Errno(errno::ENXIO))?;
            *position = if whence == linux::SEEK_DATA { from } else { len };
            return Ok(*position);
        }
        _ => return fail(errno::EINVAL),
    };
    let new = base.checked_add_signed(offset).filter(|&new| i64::try_from(new).is_ok()).ok_or(Errno(errno::EINVAL))?;
    *position = new;
    Ok(new)
}

pub fn sendfile<M: Machine>(call: &mut Call<'_, M>, to: i32, from: i32, offset: u64, len: u64) -> Answer {
    let (source, target) = (call.description(from)?, call.description(to)?);
    let Object::File(file) = &source.object else { return fail(errno::EINVAL) };
    if source.flags() & linux::O_ACCMODE == linux::O_WRONLY {
        return fail(errno::EBADF);
    }
    let start = if offset == 0 { *source.position.lock() } else { call.read_word(offset)? };
    if i64::try_from(start).is_err() {
        return fail(errno::EINVAL);
    }
    let known = call.file(file.number())?;
    // The table has it: who is ended while he waits for a stream keeps no file open here.
    drop(source);
    let sent = send(call, (from, &known), start, len, &target)?;
    if offset == 0 {
        *call.description(from)?.position.lock() = start + sent;
    } else {
        call.write(offset, &(start + sent).to_le_bytes())?;
    }
    Ok(sent)
}

fn send<M: Machine>(
    call: &Call<'_, M>,
    (from, file): (i32, &File),
    start: u64,
    len: u64,
    target: &Description,
) -> Answer {
    let len = len.min(file.len.saturating_sub(start));
    if len == 0 {
        return Ok(0);
    }
    let mut sent = 0;
    let (mut small, mut large) = ([0; PART], Vec::new());
    let bytes = room(target, len, &mut small, &mut large);
    while sent < len {
        if let Some(answer) = leaves(call, sent) {
            return answer;
        }
        let most = (len - sent).min(bytes.len() as u64);
        let chunk = &mut bytes[..most as usize];
        // Open while it is copied, whoever ends this program: not longer, since the stream may never come back. A copy: somebody may cut the file short
        // meanwhile, and whoever is passed what is gone would not come back here.
        let source = call.description(from)?;
        let copied = call.machine().copied(file.address + start + sent, chunk);
        drop(source);
        if !copied {
            if sent > 0 {
                break;
            }
            return fail(errno::EIO);
        }
        match write_bytes(call, target, chunk, At::Position) {
            Ok(n) => {
                sent += n;
                if n < chunk.len() as u64 {
                    break;
                }
            }
            Err(Stop::Error(_) | Stop::Wait(_)) if sent > 0 => break,
            Err(stop) => return Err(stop),
        }
    }
    Ok(sent)
}

pub fn copy_file_range<M: Machine>(
    call: &mut Call<'_, M>,
    from: i32,
    _from_offset: u64,
    to: i32,
    _to_offset: u64,
    _len: u64,
    _flags: u32,
) -> Answer {
    call.description(from)?;
    match call.description(to)?.object {
        Object::Directory(_) => fail(errno::EISDIR),
        // As between file systems: programs then read and write.
        Object::File(_) => fail(errno::EXDEV),
        _ => fail(errno::EINVAL),
    }
}

/// Nothing that is written is kept back here.
pub fn fsync<M: Machine>(call: &mut Call<'_, M>, fd: i32) -> Answer {
    match call.description(fd)?.object {
        Object::File(_) | Object::Directory(_) => Ok(0),
        _ => fail(errno::EINVAL),
    }
}

pub fn sync<M: Machine>(_call: &mut Call<'_, M>) -> Answer {
    Ok(0)
}

pub fn fadvise64<M: Machine>(call: &mut Call<'_, M>, fd: i32, _offset: u64, _len: u64, advice: u32) -> Answer {
    match call.description(fd)?.object {
        Object::Stream { .. } | Object::PipeReader(_) | Object::PipeWriter(_) => fail(errno::ESPIPE),
        // Files are in memory already; all six kinds of advice come true.
        _ if advice <= linux::POSIX_FADV_NOREUSE => Ok(0),
        _ => fail(errno::EINVAL),
    }
}
