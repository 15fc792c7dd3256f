//! `fork` and its kin: the child gets copy-on-write clones of all sections of the window at the same addresses, and goes on where its
//! parent does. Everything else of it is a copy of the personality's own record. And `wait4`.

use abi::frame::Frame;
use abi::task::Limits;
use abi::{Error, Rights};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicBool;
use linux_raw_sys::general as linux;

use crate::answer::{Answer, Errno, Stop, errno, fail};
use crate::family::Which;
use crate::machine::Machine;
use crate::map::{Backing, Map, Piece};
use crate::process::{Call, Process};
use crate::sync::Mutex;

/// What the parent's memory is copied for, besides `fork`: each of these asks for nothing that a copy does not give, or for less. With
/// `CLONE_VM` (only together with `CLONE_VFORK`, as C libraries start programs) what the child writes is not seen by its parent.
const HARMLESS: u32 = linux::CLONE_VM
    | linux::CLONE_VFORK
    | linux::CLONE_SETTLS
    | linux::CLONE_PARENT_SETTID
    | linux::CLONE_CHILD_SETTID
    | linux::CLONE_CHILD_CLEARTID;
/// Of the flags, the signal that tells of the end.
const SIGNAL: u32 = 0xff;
/// How often a waiting parent looks for children that were ended from outside, of which nothing tells.
const LOOK_NS: u64 = 100_000_000;

/// How the child begins, other than its parent goes on.
#[derive(Clone, Copy, Default)]
struct Begin {
    /// 0: where its parent's is.
    stack: u64,
    thread_local: Option<u64>,
    /// Where its number is written in its own memory; 0: nowhere.
    own_number: u64,
}

pub fn fork<M: Machine>(call: &mut Call<'_, M>) -> Answer {
    start(call, Begin::default())
}

pub fn clone<M: Machine>(
    call: &mut Call<'_, M>,
    flags: u64,
    stack: u64,
    parent_number: u64,
    own_number: u64,
    thread_local: u64,
) -> Answer {
    let flags = flags as u32;
    if flags & linux::CLONE_THREAD != 0 {
        call.tell_once(b"musubi: Linux threads are not there yet\n");
        return call.refuse("clone of a thread, flags", flags.into(), errno::ENOSYS);
    }
    let alone = flags & (linux::CLONE_VM | linux::CLONE_VFORK) == linux::CLONE_VM;
    if flags & !(HARMLESS | SIGNAL) != 0 || alone || !matches!(flags & SIGNAL, 0 | linux::SIGCHLD) {
        return call.refuse("clone, flags", flags.into(), errno::EINVAL);
    }
    let has = |flag: u32| flags & flag != 0;
    let begin = Begin {
        stack,
        thread_local: has(linux::CLONE_SETTLS).then_some(thread_local),
        own_number: if has(linux::CLONE_CHILD_SETTID) { own_number } else { 0 },
    };
    let child = start(call, begin)?;
    if has(linux::CLONE_PARENT_SETTID) {
        // The child is there whether or not its number finds a place.
        let _ = call.write(parent_number, &(child as u32).to_le_bytes());
    }
    Ok(child)
}

/// C libraries ask for this one first, and then for `clone`.
pub fn clone3<M: Machine>(_call: &mut Call<'_, M>) -> Answer {
    fail(errno::ENOSYS)
}

/// Children that have ended and that their parent has not asked for (`wait4`), of one parent.
const UNASKED_MAX: usize = 512;

/// Value: the child's number.
fn start<M: Machine>(call: &Call<'_, M>, begin: Begin) -> Answer {
    let (process, machine) = (call.process, call.machine());
    // (On Linux they count for what a user may have of processes.)
    if call.server.family.lock().unasked(process.task) >= UNASKED_MAX {
        return fail(errno::EAGAIN);
    }
    let name = process.program.lock().name.clone();
    let task = machine.task_create(0, process.user, &Limits::default(), &name)?;
    let started = copy(call, task, begin);
    if let Err(error) = started {
        call.note("fork, refused by the kernel with error", error.word());
        call.server.remove(task);
        // What was given to it goes with it.
        let _ = machine.task_kill(task);
        // Too many of anything: programs expect this answer.
        return fail(if Errno::from(error).0 == errno::ENOMEM { errno::ENOMEM } else { errno::EAGAIN });
    }
    Ok(task)
}

fn copy<M: Machine>(call: &Call<'_, M>, task: u64, begin: Begin) -> Result<(), Error> {
    let (process, server) = (call.process, call.server);
    let mut copying = Copying { call, task, text: 0, made: BTreeMap::new(), shared: Vec::new() };
    let code = Rights::READ | Rights::EXECUTE;
    // The text first: the other sections' ACLs name it.
    let text = copying.copy_of(&process.text, code, None)?;
    let map = copying.map(begin).and_then(|map| {
        server.machine.foreign_set(task, &text.section)?;
        server.install(task, &map).map(|()| map)
    });
    copying.still_shares()?;
    let map = map?;
    let child = Process {
        task,
        user: process.user,
        streams: process.streams,
        trace: process.trace,
        text,
        tree: process.tree.clone(),
        map: Mutex::new(map),
        descriptors: Mutex::new(process.descriptors.lock().clone()),
        looked: AtomicBool::new(true),
        signals: Mutex::new(process.signals.lock().of_child()),
        program: Mutex::new(process.program.lock().clone()),
        directory: Mutex::new(process.directory.lock().clone()),
        umask: Mutex::new(*process.umask.lock()),
        told: AtomicBool::new(false),
    };
    server.born(process.task, child);
    let mut frame = Frame { rax: 0, task, thread: 0, ..*call.frame };
    if begin.stack != 0 {
        frame.rsp = begin.stack;
    }
    if let Some(base) = begin.thread_local {
        frame.fs_base = base;
    }
    server.machine.foreign_start(task, &frame)?;
    server.machine.task_adopt(task)
}

/// A window that is being copied for a task.
struct Copying<'a, M: Machine> {
    call: &'a Call<'a, M>,
    task: u64,
    /// What all code in the new window counts as; 0: the first section that is copied.
    text: u64,
    /// The copies, by the base of what each one is the copy of.
    made: BTreeMap<u64, Arc<Backing>>,
    /// What is shared and another task's.
    shared: Vec<Arc<Backing>>,
}

impl<M: Machine> Copying<'_, M> {
    fn map(&mut self, begin: Begin) -> Result<Map, Error> {
        let (process, machine) = (self.call.process, self.call.machine());
        let old = process.map.lock();
        let mut most = BTreeMap::new();
        for (_, piece) in old.iter().filter(|(_, piece)| !piece.shared) {
            *most.entry(piece.backing.section.base()).or_insert(Rights::empty()) |= piece.most;
        }
        let mut new = Map::with_heap(old.heap.clone());
        for (range, piece) in old.iter() {
            if machine.is_killed() {
                return Err(Error::Killed);
            }
            let backing = if piece.shared {
                let owner = piece.backing.owner;
                if owner != process.task {
                    if machine.section_owner(&piece.backing.section) != Some(owner) {
                        // It has gone with its task.
                        continue;
                    }
                    self.shared.push(piece.backing.clone());
                }
                machine.section_allow(&piece.backing.section, self.task, self.text, piece.most)?;
                piece.backing.clone()
            } else {
                let most = most.get(&piece.backing.section.base()).copied().unwrap_or(piece.most);
                let number = Some(begin.own_number).filter(|at| range.contains(at)).map(|at| piece.offset(at));
                self.copy_of(&piece.backing, most, number)?
            };
            new.insert(range.clone(), Piece { backing, ..piece.clone() });
        }
        Ok(new)
    }

    /// Before the new task begins: whose section is shared was there all the while, or something else may be at its address by now, which is taken back.
    fn still_shares(&self) -> Result<(), Error> {
        let machine = self.call.machine();
        let gone = self.shared.iter().filter(|backing| machine.section_owner(&backing.section) != Some(backing.owner));
        gone.fold(Ok(()), |_, backing| {
            let _ = machine.section_allow(&backing.section, self.task, self.text, Rights::empty());
            Err(Error::Dead)
        })
    }

    /// The copy of a section, made now if there is none yet; `number`: where in it the task's number is to stand.
    fn copy_of(&mut self, original: &Arc<Backing>, most: Rights, number: Option<u64>) -> Result<Arc<Backing>, Error> {
        if let (Some(copy), None) = (self.made.get(&original.section.base()), number) {
            return Ok(copy.clone());
        }
        let machine = self.call.machine();
        let section = machine.section_clone(&original.section)?;
        if let Some(offset) = number {
            // Refused only where the number would not fit any more.
            let _ = machine.section_write(&section, offset, &(self.task as u32).to_le_bytes());
        }
        if self.text == 0 {
            self.text = section.base();
        }
        let copy = self.call.server.adopt(section, original.len(), self.task, self.text, most)?;
        self.made.entry(original.section.base()).or_insert_with(|| copy.clone());
        Ok(copy)
    }
}

pub fn wait4<M: Machine>(call: &mut Call<'_, M>, target: i32, status: u64, options: u32, usage: u64) -> Answer {
    const KNOWN: u32 = linux::WNOHANG | linux::WUNTRACED | linux::WCONTINUED;
    if options & !KNOWN != 0 {
        return call.refuse("wait4, options", options.into(), errno::EINVAL);
    }
    let (own, server) = (call.process.task, call.server);
    let which = match target {
        -1 => Which::Any,
        0 => Which::Group(server.family.lock().group(own)?),
        one if one > 0 => Which::One(one as u64),
        group => Which::Group(u64::from(group.unsigned_abs())),
    };
    if options & linux::WNOHANG == 0 {
        call.grant(status, if status == 0 { 0 } else { 4 }, Rights::WRITE)?;
    }
    server.reap();
    let found = server.family.lock().take(own, which)?;
    let Some((child, end)) = found else {
        let later = call.machine().clock(crate::machine::Clock::SinceBoot) + LOOK_NS;
        return if options & linux::WNOHANG != 0 { Ok(0) } else { Err(Stop::Wait(later)) };
    };
    if status != 0 {
        call.write(status, &end.status().to_le_bytes())?;
    }
    if usage != 0 {
        // What it used is not known any more.
        call.write(usage, &[0; size_of::<linux::rusage>()])?;
    }
    Ok(child)
}
