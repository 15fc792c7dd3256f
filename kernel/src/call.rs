//! The calls: decode (done by `abi`), check, apply, answer. What is more than a few lines lives with its word.

use crate::alarm;
use crate::pressure;
use crate::ask;
use crate::claim;
use crate::device;
use crate::domain::Domain;
use crate::epc;
use crate::fault;
use crate::foreign;
use crate::gate;
use crate::light;
use crate::line;
use crate::machine::{machine, spare_heap_for};
use crate::pager;
use crate::place;
use crate::post;
use crate::saved::Saved;
use crate::sched::{self, Step, by_parts, in_steps};
use crate::seat;
use crate::section::{New, Section};
use crate::task::{self, Task};
use crate::thread::{Begin, Thread, seen};
use crate::trace;
use crate::wait;
use crate::window;
use abi::calls::Call;
use abi::refusal::Object;
use abi::rights::principal;
use abi::section::{NAME_LEN, flag, kind};
use abi::task::{Identity, Limits, USER_NOBODY, USER_SYSTEM, exit};
use abi::{AclEntry, Error, Rights};
use alloc::sync::Arc;
use alloc::vec::Vec;
use zerocopy::IntoBytes;

/// Serves a call of the running thread, which has come by the full entry. The answer, if it is one that simply answers: the thread goes on where it
/// was, with that in its registers.
pub fn serve(saved: Saved<'_>, d: &Domain, call: Call) -> Option<Result<u64, Error>> {
    let thread: &Arc<Thread> = &saved;
    let result = match call {
        // Calls that do not simply answer.
        Call::ThreadExit { code } => {
            thread_exit(thread, code);
            return None;
        }
        Call::TaskExit { code } => {
            let owner = d.text.owner();
            // Without the first task there is no system: what it does for somebody ends alone, whatever that was, and on whosever thread.
            if !(owner.is_first() && epc::unwind(thread, Error::Faulted)) {
                owner.exit_with(exit::EXITED, code);
            }
            return None;
        }
        Call::CallScheduler { op, a, b } => {
            ask::serve(saved, d, op, a, b);
            return None;
        }
        Call::ThreadNext { thread: number, turn, ns } => {
            seat::next(saved, d, number, turn, ns);
            return None;
        }
        Call::SchedulerSet { processor } => system_only(d).and_then(|()| seat::set(thread, d, processor)),
        // Not for a time (SSS-36): whoever else is ready has a turn.
        Call::Yield {} | Call::Sleep { ns: 0 } => {
            sched::give_way(saved);
            Ok(0)
        }
        Call::Sleep { ns } => {
            wait::sleep(saved, ns);
            return None;
        }
        Call::Wait { address, expected, timeout } => {
            wait::on_word(saved, d, address, expected as u32, timeout);
            return None;
        }
        Call::ThreadJoin { thread: number, timeout } => {
            thread_join(saved, d, number, timeout);
            return None;
        }
        Call::TaskWait { task, timeout, out } => {
            task_wait(saved, d, task, timeout, out);
            return None;
        }
        Call::GateReturn { value, value2 } => {
            epc::give_back(thread, [value, value2]);
            return None;
        }
        Call::FaultReturn { frame, mended } => match fault::give_back(thread, d, frame, mended != 0) {
            Ok(()) => return None,
            Err(error) => Err(error),
        },
        Call::ForeignReturn { frame } => match foreign::give_back(thread, d, frame) {
            Ok(()) => return None,
            Err(error) => Err(error),
        },
        Call::PostReceive { post, count, timeout } => {
            post::receive(saved, d, post, count, timeout);
            return None;
        }
        Call::PostCall { post, at, timeout } => {
            post::call(saved, d, post, at, timeout);
            return None;
        }
        Call::PostAnswer { question, at, timeout } => {
            post::answer_question(saved, d, question, at, timeout);
            return None;
        }

        Call::Wake { address, count } => wait::wake_word(d, address, count),
        Call::Identity { out } => claim::write_record(d, out, &identity(thread, d)),
        Call::ThreadCreate { entry, argument, stack_len } => thread_create(d, entry, argument, stack_len),
        Call::ThreadKill { thread } => thread_kill(d, thread),
        Call::TaskCreate { limits, user, name, name_len, payer } => task_create(thread, d, limits, user, (name, name_len), payer),
        Call::TaskStart { task, text, entry, argument, stack_len } => task_start(d, task, text, entry, argument, stack_len),
        Call::ThreadRegisters { thread: number, out } => seen::show(thread, d, number, out),
        Call::TaskKill { task } => task_kill(thread, d, task),
        Call::TaskEnd { task, code } => task_end(d, task, code),
        Call::TaskList { after, out } => match machine().tasks.after(after) {
            Some((number, task)) => claim::write_record(d, out, &task.info_for(d.speaks_for)).map(|_| number),
            None => Err(Error::NotFound),
        },
        Call::TaskEnded { after, out } => system_only(d).and_then(|()| match machine().ended.after(after) {
            Some((number, task)) => claim::write_record(d, out, &task.ended_as()).map(|_| number),
            None => Err(Error::NotFound),
        }),
        Call::TaskForget { task } => system_only(d).and_then(|()| task_forget(task)),
        Call::EndsPost { post, op } => system_only(d).and_then(|()| task::ENDS.bind(thread, d, post, op)),
        Call::TaskLimit { task, limits } => system_only(d).and_then(|()| task_limit(d, task, limits)),
        Call::ClockPost { post, op } => system_only(d).and_then(|()| alarm::bind(thread, d, post, op)),
        Call::ClockAlarm { at } => alarm::set(d, at),
        Call::MemoryPost { post, op, low, high } => system_only(d).and_then(|()| pressure::bind(thread, d, post, op, low, high)),
        Call::ThreadList { after, out } => match machine().threads.after(after) {
            Some((number, other)) => claim::write_record(d, out, &other.info_for(d.speaks_for)).map(|_| number),
            None => Err(Error::NotFound),
        },

        Call::SectionCreate { len, reserve, kind, flags, at, room } => section_create(d, [len, reserve, kind, flags, at, room]),
        Call::SectionDelete { base } => return by_parts(saved, base, |s| s.delete_for(d)),
        Call::SectionResize { base, len } => return by_parts(saved, base, |s| s.resize(d, len)),
        Call::SectionClone { base, flags, at, room } => section_clone(d, base, flags, at, room),
        Call::SectionSeal { base } => return by_parts(saved, base, |s| s.seal(thread, d)),
        Call::SectionGive { base, task } => section_give(d, base, task),
        Call::SectionInfo { address, out } => match Section::find(address) {
            Some(section) => claim::write_record(d, out, &section.info_for(d)).map(|_| section.base),
            None => Err(Error::NotFound),
        },
        Call::SectionList { after, out } => return in_steps(saved, |from| section_list(d, from.unwrap_or(after), out)),
        Call::SectionPages { base, from, out } => Section::named(base).and_then(|section| section.count_pages(d, from, out)),
        Call::AclSet { base, entry } => acl_set(d, base, entry),
        Call::AclRead { base, out, max } => acl_read(d, base, out, max),
        Call::SectionPager { base, gate, level, flags } => pager::set(d, base, gate, level, flags),
        Call::TaskPager { task, gate, flags } => pager::set_of_task(d, task, gate, flags),
        Call::SectionName { base, name, len } => section_name(d, base, name, len),

        Call::TextPlace { text, class, group } => place::put(d, text, class, group),

        Call::GateCreate { entry, count, cookie, flags } => gate::create(d, entry, count, cookie, flags),
        Call::GateDelete { address } => gate::delete(d, address),
        Call::GateBind { address, args_len, flags, out } => gate_bind(thread, d, address, args_len, flags, out),
        Call::GateUnbind { binding } => gate::unbind(d, binding),

        Call::WindowMap { task, address, section, offset, len, protection } => {
            return in_steps(saved, |from| window::map(d, &*Task::find(task)?, (address, len), section, offset, protection, from));
        }
        Call::WindowUnmap { task, address, len } => {
            return in_steps(saved, |from| window::unmap(d, &*Task::find(task)?, (address, len), from));
        }
        Call::WindowProtect { task, address, len, protection } => {
            return in_steps(saved, |from| window::protect(d, &*Task::find(task)?, (address, len), protection, from));
        }
        Call::ForeignSet { task, gate, text } => Task::find(task).and_then(|task| foreign::set(d, &task, gate, text)),
        Call::ForeignVectors { to, from } => foreign::vectors(thread, d, to, from),
        Call::ForeignStart { task, frame } => Task::find(task).and_then(|task| foreign::start(d, &task, frame)),

        Call::PostGet { number } => post::get(d, number),
        Call::PostFree { post, force } => post::free(d, post, force),
        Call::PostCancel { loan } => post::cancel(thread, d, loan),
        Call::PostSend { post, back, limit } => post::send(thread, d, post, back, limit),
        Call::PostSendMany { post, address, count, same } => post::send_many(thread, d, post, address, count, same),

        Call::FaultEntry { entry, wants } => fault::set_entry(d, entry, wants),
        Call::IrqBind { section, gate } => line::bind(d, section, gate),
        Call::IrqPost { section, post, op } => line::send_to(thread, d, section, post, op),
        Call::IrqRoute { number, processor } => system_only(d).and_then(|()| line::route(number, processor)),
        Call::PortWriteBytes { section, port, from, len } => device::write_bytes(d, section, port, from, len),
        Call::LogWrite { from, len } => system_only(d).and_then(|()| log_write(d, from, len)),
        Call::PowerOff { code } => system_only(d).map(|()| power_off(code)),
        Call::TraceSet { processor, what } => system_only(d).and_then(|()| trace::set(processor, what)),
        // (Served before: `trap.rs`.)
        Call::GetTaskid {} => Ok(thread.task.number),
        Call::May { address, len, rights, who } => return in_steps(saved, |from| may(thread, d, (address, len), rights, who, from)),
        Call::PageAlloc { .. } | Call::PageFree { .. } => return in_steps(saved, |_| light::serve_or_later(thread, d, call)),
        // All of those that have ways in of their own, where something else had to be seen to first.
        _ => light::serve(thread, d, call),
    };
    Some(result)
}

/// The section of this name, if the domain may change it. Who then does so asks once more, under the section's lock.
pub fn own_section(d: &Domain, base: u64) -> Result<Arc<Section>, Error> {
    let section = Section::named(base)?;
    section.check(d, Rights::CHANGE_ACL)?;
    Ok(section)
}

/// Refuses programs whose text does not belong to the system's own user. (What lies in a window is its personality's text, but no part of it.)
pub fn system_only(d: &Domain) -> Result<(), Error> {
    if d.text.owner().user == USER_SYSTEM && !d.in_window { Ok(()) } else { Err(d.subject.refused(Object::System)) }
}

fn identity(thread: &Thread, d: &Domain) -> Identity {
    let inner = thread.inner.lock();
    Identity {
        node: machine().node,
        task: thread.task.number,
        user: thread.task.user,
        thread: thread.number,
        text: d.text.base,
        text_task: d.text.owner().number,
        depth: inner.depth() as u64,
        caller_text: inner.caller().map_or(0, |domain| domain.text.base),
    }
}

fn thread_exit(thread: &Arc<Thread>, code: u64) {
    if !epc::unwind(thread, Error::Dead) {
        thread.ends(code);
    }
}

fn thread_create(d: &Domain, entry: u64, argument: u64, stack_len: u64) -> Result<u64, Error> {
    if d.in_window || !d.text.contains(entry) {
        return Err(Error::BadAddress);
    }
    d.text.owner().check_started()?;
    let thread = Thread::create(&d.text.owner(), &d.text, Begin::Native { entry, argument, stack_len })?;
    let number = thread.number;
    thread.start();
    Ok(number)
}

fn thread_join(thread: Saved<'_>, d: &Domain, number: u64, timeout: u64) {
    match machine().threads.find(number) {
        None => thread.answer(d.text.owner().joined(number)),
        Some(other) if other.task.number != d.text.owner().number => {
            thread.answer(Err(d.subject.refused(Object::Thread(number))));
        }
        Some(other) if other.number == thread.number => thread.answer(Err(Error::BadArgument)),
        Some(other) => match other.exit_code() {
            // On its way out: its task knows the code already, and keeps it no longer.
            Some(code) => {
                let _ = other.task.joined(number);
                thread.answer(Ok(code));
            }
            None => other.waiters.wait(thread, timeout, || other.exit_code().is_some()),
        },
    }
}

fn thread_kill(d: &Domain, number: u64) -> Result<u64, Error> {
    let other = machine().threads.find(number).ok_or(Error::NotFound)?;
    if other.task.number != d.text.owner().number {
        return Err(d.subject.refused(Object::Thread(number)));
    }
    other.kill();
    Ok(0)
}

fn name(d: &Domain, address: u64, len: u64) -> Result<[u8; NAME_LEN], Error> {
    let bytes = claim::read_bytes(d, address, len, NAME_LEN as u64)?;
    let mut name = [0; NAME_LEN];
    name[..bytes.len()].copy_from_slice(&bytes);
    Ok(name)
}

fn task_create(thread: &Thread, d: &Domain, limits: u64, user: u64, (at, len): (u64, u64), payer: u64) -> Result<u64, Error> {
    let asked: Limits = claim::read_record(d, limits)?;
    let name = name(d, at, len)?;
    let maker = d.text.owner();
    maker.check_started()?;
    let limits = maker.limits_for(&asked);
    if user != maker.user || payer != 0 {
        system_only(d)?;
    }
    if user == USER_NOBODY {
        return Err(Error::BadArgument);
    }
    // What the system's servers make is for who has called them; anybody else makes for himself.
    let payer = match payer {
        0 if maker.user == USER_SYSTEM => thread.task.clone(),
        0 => maker.clone(),
        payer => Task::find(payer)?,
    };
    spare_heap_for(&payer)?;
    maker.makes();
    let task = Task::create(Some(&payer), maker.number, user, limits, name)?;
    if task::is_gone(maker.number) {
        // It has looked for those that it has not started, perhaps before this one was there.
        task.exit_with(exit::KILLED, 0);
        return Err(Error::Dead);
    }
    Ok(task.number)
}

fn task_forget(number: u64) -> Result<u64, Error> {
    machine().ended.find(number).ok_or(Error::NotFound)?;
    machine().ended.remove(number);
    Ok(0)
}

fn task_limit(d: &Domain, task: u64, limits: u64) -> Result<u64, Error> {
    let to: Limits = claim::read_record(d, limits)?;
    Task::find(task)?.limit(&to);
    Ok(0)
}

fn task_start(d: &Domain, number: u64, text: u64, entry: u64, argument: u64, stack_len: u64) -> Result<u64, Error> {
    let task = Task::find(number)?;
    task.check_creator(d)?;
    let text = Section::named(text)?;
    task::check_start(d, &text)?;
    if !task.claims_start() {
        return Err(Error::Busy);
    }
    let thread = Thread::create(&task, &text, Begin::Native { entry, argument, stack_len });
    let thread = thread.inspect_err(|_| task.gives_up_start())?;
    let number = thread.number;
    thread.start();
    Ok(number)
}

fn task_kill(thread: &Thread, d: &Domain, number: u64) -> Result<u64, Error> {
    let task = Task::find(number)?;
    // Both: a server must not kill in the name of who happens to call it, nor a caller in a server's.
    if !task.is_open_to(&thread.task) || !task.is_open_to(&d.text.owner()) {
        return Err(d.subject.refused(Object::Task(number)));
    }
    task.exit_with(exit::KILLED, 0);
    Ok(0)
}

fn task_end(d: &Domain, number: u64, code: u64) -> Result<u64, Error> {
    let task = Task::find(number)?;
    let personality = task.foreign.get().is_some_and(|f| f.gate.is_of(&d.text));
    let unstarted = !task.has_started() && task.check_creator(d).is_ok();
    if !personality && !unstarted {
        return Err(d.subject.refused(Object::Task(number)));
    }
    task.exit_with(exit::EXITED, code);
    // The personality is the callee here, and it has said that it is done with the thread.
    sched::in_stretches(task.each_thread(), |thread| thread.end_of_grace());
    Ok(0)
}

fn task_wait(thread: Saved<'_>, d: &Domain, number: u64, timeout: u64, out: u64) {
    let task = match system_only(d).and_then(|()| task::find_ended(number)) {
        Ok(task) => task,
        Err(error) => return thread.answer(Err(error)),
    };
    if task.exit_status().is_none() {
        return task.waiters.wait(thread, timeout, || task.exit_status().is_some());
    }
    let told = task.exit_status().ok_or(Error::NotFound).and_then(|status| claim::write_record(d, out, &status));
    thread.answer(told);
}

/// The one entry that a new section has: its creating task (or anybody) in its creating text, all rights.
fn first_entry(d: &Domain, flags: u64) -> Result<AclEntry, Error> {
    let rights = (Rights::READ | Rights::WRITE | Rights::EXECUTE | Rights::CALL | Rights::CHANGE_ACL).bits();
    if flags & !(flag::ANY_PRINCIPAL | flag::AS_DATA | flag::SECRET) != 0 {
        return Err(Error::BadArgument);
    }
    Ok(if flags & flag::ANY_PRINCIPAL != 0 {
        AclEntry { principal: principal::ANY, rights, id: 0, text: d.text.base }
    } else {
        AclEntry { principal: principal::TASK, rights, id: d.subject.task, text: d.text.base }
    })
}

fn section_create(d: &Domain, [len, reserve, wanted, flags, at, room]: [u64; 6]) -> Result<u64, Error> {
    // Texts are made by sealing, devices by the kernel, stacks with threads.
    if wanted != kind::DATA || flags & flag::AS_DATA != 0 {
        return Err(Error::BadArgument);
    }
    let entry = first_entry(d, flags)?;
    let section = Section::create(New { len, reserve, kind: wanted, at, room, owner: d.text.owner(), entry, ports: None, live: false })?.made_by(d)?;
    if flags & flag::SECRET != 0 {
        section.make_secret();
    }
    Ok(section.base)
}

/// The first one above `after` that the program is told of. How many others there are is theirs to choose.
fn section_list(d: &Domain, after: u64, out: u64) -> Result<Step, Error> {
    let (mut at, mut stretch) = (after, sched::Stretch::default());
    loop {
        let (base, section) = machine().sections.after(at).ok_or(Error::NotFound)?;
        if let Some(info) = section.info_in_list(d).filter(|_| !section.is_going()) {
            return claim::write_record(d, out, &info).map(|_| Step::Done(base));
        }
        let steps = section.state.lock().steps();
        drop(section);
        at = base;
        if stretch.is_over_after(steps) {
            sched::breathe();
            if sched::is_due() {
                return Ok(Step::At(at));
            }
        }
    }
}

fn section_clone(d: &Domain, base: u64, flags: u64, at: u64, room: u64) -> Result<u64, Error> {
    let section = Section::named(base)?;
    if flags & flag::SECRET != 0 {
        return Err(Error::BadArgument);
    }
    let entry = first_entry(d, flags)?;
    section.clone_section(d, flags & flag::AS_DATA != 0, at, room, entry)?.made_by(d).map(|clone| clone.base)
}

fn section_give(d: &Domain, base: u64, task: u64) -> Result<u64, Error> {
    let section = own_section(d, base)?;
    let task = Task::find(task)?;
    // Nobody is made to pay against his will: only a task that has not begun, one of the giver's own user, or the
    // caller on whose thread this runs.
    let maker = d.text.owner();
    if !task.has_started() {
        task.check_creator(d)?;
    } else if maker.user != USER_SYSTEM && maker.user != task.user && task.number != d.subject.task {
        return Err(d.subject.refused(Object::Task(task.number)));
    }
    section.give(d, &task)?;
    Ok(0)
}

fn acl_set(d: &Domain, base: u64, entry: u64) -> Result<u64, Error> {
    let section = own_section(d, base)?;
    let entry: AclEntry = claim::read_record(d, entry)?;
    section.set_entry_for(d, &entry)?;
    Ok(0)
}

fn acl_read(d: &Domain, base: u64, out: u64, max: u64) -> Result<u64, Error> {
    let section = Section::named(base)?;
    let entries: Vec<AclEntry> = {
        let is_system = d.text.owner().user == USER_SYSTEM;
        let state = section.state.lock();
        if !is_system {
            state.acl.check_any(base, &d.subject, Rights::all(), Rights::CHANGE_ACL)?;
        }
        state.acl.entries().to_vec()
    };
    let count = entries.len().min(usize::try_from(max).unwrap_or(usize::MAX));
    if count > 0 {
        claim::write(d, out, entries[..count].as_bytes())?;
    }
    Ok(entries.len() as u64)
}

pub fn may(thread: &Thread, d: &Domain, (address, len): (u64, u64), rights: u64, who: u64, from: Option<u64>) -> Result<Step, Error> {
    let rights = u32::try_from(rights).ok().and_then(Rights::from_bits).ok_or(Error::BadArgument)?;
    let subject = match who {
        0 => None,
        1 => Some(thread.inner.lock().caller().ok_or(Error::NotFound)?),
        _ => return Err(Error::BadArgument),
    };
    Ok(claim::may(subject.as_deref().unwrap_or(d), address, len, rights, from))
}

fn section_name(d: &Domain, base: u64, address: u64, len: u64) -> Result<u64, Error> {
    let section = own_section(d, base)?;
    let name = name(d, address, len)?;
    section.set_name(d, name)?;
    Ok(0)
}

fn gate_bind(thread: &Thread, d: &Domain, address: u64, args_len: u64, flags: u64, out: u64) -> Result<u64, Error> {
    let binding = gate::bind(thread, d, address, args_len, flags)?;
    claim::write_record(d, out, &binding).map(|_| binding.number).inspect_err(|_| {
        let _ = gate::unbind(d, binding.number);
    })
}

fn log_write(d: &Domain, from: u64, len: u64) -> Result<u64, Error> {
    let bytes = claim::read_bytes(d, from, len, 1024)?;
    log::warn!("{}", alloc::string::String::from_utf8_lossy(&bytes));
    Ok(len)
}

fn power_off(code: u64) -> u64 {
    arch::power::off(code as u8)
}
