//! The table of kernel calls: the only place where a call has a number.
//!
//! Convention: `rax` = number, arguments in `rdi rsi rdx r10 r8 r9`; on return `rax` = 0 or the number of
//! an [`Error`] (of a missing right: its whole word), `rdx` = the value. By the full entry every other register keeps its value except
//! `rcx` and `r11`; by the light one those that a procedure of the C ABI keeps do, and `rdi rsi rcx r8 r9 r10 r11` are lost.
//! An argument that is an address where the kernel reads or writes for the caller says so behind a colon.
//! A call through a bound gate has its own numbers, see [`crate::gate`].

use crate::error::Error;

/// Which way into the kernel a call takes (architecture, section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// May switch threads: the whole context is saved.
    Full,
    /// Never waits, and comes back to its caller: no more is saved than a procedure keeps (SSS-39). Their numbers are those from [`LIGHT`] on.
    Light,
}

/// The first number of a light call; they have no gaps.
pub const LIGHT: u64 = 0x80;

/// What the kernel does where an argument leads, in the caller's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Nothing: it is no address, or one that is only named.
    No,
    Read,
    Write,
}

/// A row of the table, for traces, documentation and tests.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub number: u64,
    pub entry: Entry,
    pub name: &'static str,
    pub arguments: &'static [&'static str],
    /// For each argument, whether it is an address where the kernel accesses the caller's memory. It does so with the rights of
    /// the domain that calls; `check deputies` tries each of them with addresses that are somebody else's.
    pub memory: &'static [Memory],
    pub doc: &'static str,
}

/// How a program enters the kernel; the SDK implements it with the `syscall` instruction.
pub trait Kernel {
    /// # Errors
    /// Whatever the call refuses with.
    fn enter(&self, number: u64, arguments: [u64; 6]) -> Result<u64, Error>;

    /// The same for light calls.
    ///
    /// # Errors
    /// Whatever the call refuses with.
    fn enter_light(&self, number: u64, arguments: [u64; 6]) -> Result<u64, Error>;
}

const fn six<const N: usize>(given: [u64; N]) -> [u64; 6] {
    let mut all = [0; 6];
    let mut i = 0;
    while i < N {
        all[i] = given[i];
        i += 1;
    }
    all
}

macro_rules! memory {
    () => {
        Memory::No
    };
    (read) => {
        Memory::Read
    };
    (write) => {
        Memory::Write
    };
}

macro_rules! enter {
    (Full, $kernel:expr, $number:literal, $arguments:expr) => {
        $kernel.enter($number, $arguments)
    };
    (Light, $kernel:expr, $number:literal, $arguments:expr) => {
        $kernel.enter_light($number, $arguments)
    };
}

macro_rules! calls {
    ($( $(#[doc = $doc:literal])+ $number:literal $entry:ident $name:ident $variant:ident ( $($arg:ident $(: $memory:ident)?),* ); )*) => {
        /// A decoded call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Call { $( $(#[doc = $doc])+ $variant { $($arg: u64),* }, )* }

        impl Call {
            /// The call of a number and six argument registers; `None` if there is none.
            #[inline]
            pub fn decode(number: u64, registers: [u64; 6]) -> Option<Call> {
                match number {
                    $( $number => {
                        #[allow(unused_mut, unused_variables)]
                        let mut next = registers.into_iter();
                        $( let $arg = next.next().unwrap_or(0); )*
                        Some(Call::$variant { $($arg),* })
                    } )*
                    _ => None,
                }
            }
        }

        /// All calls, in the order of their numbers.
        pub const TABLE: &[Row] = &[ $( Row {
            number: $number, entry: Entry::$entry, name: stringify!($name),
            arguments: &[$(stringify!($arg)),*], memory: &[$(memory!($($memory)?)),*], doc: concat!($($doc, "\n"),+),
        }, )* ];

        /// A stub per call, over any [`Kernel`].
        pub mod stub {
            use super::{Error, Kernel, six};
            $(
                $(#[doc = $doc])+
                /// # Errors
                /// See [`Error`]; a refused call has changed nothing.
                #[inline]
                pub fn $name<K: Kernel + ?Sized>(kernel: &K, $($arg: u64),*) -> Result<u64, Error> {
                    enter!($entry, kernel, $number, six([$($arg),*]))
                }
            )*
        }
    };
}

/// The number of the call of this name.
pub const fn number(name: &str) -> u64 {
    let mut i = 0;
    while i < TABLE.len() {
        let (mut j, other) = (0, TABLE[i].name.as_bytes());
        while j < other.len() && j < name.len() && other[j] == name.as_bytes()[j] {
            j += 1;
        }
        if j == other.len() && j == name.len() {
            return TABLE[i].number;
        }
        i += 1;
    }
    panic!("no such call")
}

/// How many light calls there are.
pub const LIGHT_COUNT: usize = {
    let (mut count, mut i) = (0, 0);
    while i < TABLE.len() {
        let is_light = matches!(TABLE[i].entry, Entry::Light);
        assert!(is_light == (TABLE[i].number >= LIGHT));
        if is_light {
            assert!(TABLE[i].number == LIGHT + count as u64);
            count += 1;
        }
        i += 1;
    }
    count
};

calls! {
    /// Ends the calling thread. In a callee: ends the call; the caller gets `Dead`.
    0x01 Full thread_exit ThreadExit(code);
    /// Ends the task that owns the executing text, with all its threads and sections.
    0x02 Full task_exit TaskExit(code);
    /// A new thread at `entry` (in the executing text, argument in `rdi`) of the task that owns it; `stack_len` bytes of stack (0: default). Value: thread.
    0x03 Full thread_create ThreadCreate(entry, argument, stack_len);
    /// Waits until a thread of the own task has ended. `timeout` in ns, `u64::MAX` for ever. Value: its exit code.
    0x04 Full thread_join ThreadJoin(thread, timeout);
    /// Kills a thread of the own task, at any instruction of its own text: whatever locks it holds there stay locked. In a callee it waits until the callee returns, or has had `task::CALLEE_GRACE_NS`.
    0x05 Full thread_kill ThreadKill(thread);
    /// Gives the processor to the next ready thread.
    0x06 Full yield_now Yield();
    /// Sleeps for at least `ns` nanoseconds of monotonic time; 0: as `yield_now` (SSS-36).
    0x07 Full sleep Sleep(ns);
    /// Waits while the 32-bit word at `address` (readable, aligned) holds `expected`, until `wake`, or `timeout` ns. Errors: `Changed`, `TimedOut`.
    0x08 Full wait Wait(address: read, expected, timeout);
    /// Wakes up to `count` threads that wait on the word at `address` (writable). Value: how many.
    0x09 Full wake Wake(address: write, count);
    /// Writes `task::Identity` of the caller to `out`.
    0x0b Full identity Identity(out: write);
    /// A new task without threads. `limits`: address of `task::Limits` (at most what the maker may have, which 0 stands for); `name`: up to 32 bytes. What it uses counts for the task `payer`, too, if that is not the system's (0: the calling thread's; another one: user 0 only). Value: task.
    0x0c Full task_create TaskCreate(limits: read, user, name: read, name_len, payer);
    /// Starts a thread of `task` in the native text section `text` at `entry` with `argument` in `rdi`. The caller must hold `CHANGE_ACL` on `text`. Value: thread.
    0x0d Full task_start TaskStart(task, text, entry, argument, stack_len);
    /// Ends a task of the same user (user 0: any task). Reason: killed.
    0x0e Full task_kill TaskKill(task);
    /// Waits until `task` has ended and writes `task::Exit` to `out`. User 0 only.
    0x0f Full task_wait TaskWait(task, timeout, out: write);
    /// Writes `task::TaskInfo` of the first task with a number above `after` that has not ended to `out`. Value: its number. `NotFound` at the end.
    0x10 Full task_list TaskList(after, out: write);
    /// Writes `task::ThreadInfo` of the first thread with a number above `after` to `out`. Value: its number. `NotFound` at the end.
    0x11 Full thread_list ThreadList(after, out: write);
    /// Ends `task` with exit code `code`. Only for its personality (or, before its first thread, its creator).
    0x12 Full task_end TaskEnd(task, code);
    /// Asks the scheduler: gives way, sleeps, wakes, passes on, watches, sets a priority (`sched::op`), or has another processor's scheduler look around (for schedulers only). A thread that is woken must be one of the same user.
    0x13 Full call_scheduler CallScheduler(op, a, b);
    /// The calling thread asks for the seat of `processor` (`docs/decisions/0007`); it sits there from its first `thread_next` on. User 0 only. Value: base of the ring of events (`sched::RingHead`).
    0x14 Full scheduler_set SchedulerSet(processor);
    /// From the seat only: the processor goes on with this `turn` of `thread` (0: with none), for at most `ns` ns (0: as long as was said before; `u64::MAX`: no limit). Returns when there is something to decide. Value: events to read. Errors: `Changed` (somebody else has got that turn), `Busy` (there is something to read first).
    0x15 Full thread_next ThreadNext(thread, turn, ns);
    /// Writes `sched::SeatInfo` of processor `index` to `out`. Value: number of processors.
    0x16 Full seat_info SeatInfo(index, out: write);
    /// Writes `task::Ended` of the first task with a number above `after` that has ended and was not forgotten to `out`. Value: its number. `NotFound` at the end. User 0 only.
    0x17 Full task_ended TaskEnded(after, out: write);
    /// Forgets a task that has ended: its number means nothing from now on. User 0 only.
    0x18 Full task_forget TaskForget(task);
    /// From now on ends of tasks are a message to `post` (0: no more) with this operation, whose first word says how many; once at once. As `irq_post`. User 0 only.
    0x19 Full ends_post EndsPost(post, op);
    /// Sets what `task` may use from now on: the `task::Limits` at `limits` (0: as before). What it uses already it keeps. User 0 only.
    0x1a Full task_limit TaskLimit(task, limits: read);
    /// From now on a moment that `clock_alarm` sets is a message to `post` (0: no more) with this operation, whose first word says how often it came; once at once. As `irq_post`. User 0 only.
    0x1b Full clock_post ClockPost(post, op);
    /// The message of `clock_post` comes at `at`, ns since boot (`u64::MAX`: never), instead of when was said before. Only for who has bound it.
    0x1c Full clock_alarm ClockAlarm(at);
    /// Value: the number of the calling thread's task.
    0x1d Full get_taskid GetTaskid();

    /// A new section of `len` bytes that may grow to `reserve`, owned by the task that owns the executing text. `kind` and `flags`: `section`. `at`: 0, or a granule inside the room beside an own section. Value: base.
    0x20 Full section_create SectionCreate(len, reserve, kind, flags, at, room);
    /// Deletes a section: no access is possible any more on any processor when the call returns.
    0x21 Full section_delete SectionDelete(base);
    /// Changes the length up to what was reserved. Pages beyond the new end are gone.
    0x22 Full section_resize SectionResize(base, len);
    /// A copy-on-write clone. `at` and `room` as in `section_create`; a clone of a text counts as its original in ACLs, if the caller holds `CHANGE_ACL` on that. Value: base.
    0x23 Full section_clone SectionClone(base, flags, at, room);
    /// Makes a data section a text section: from now on no entry can give `WRITE` (W^X). Its reserve must leave the last page free for gates.
    0x24 Full section_seal SectionSeal(base);
    /// Gives a section, and its charge, to another task.
    0x25 Full section_give SectionGive(base, task);
    /// Writes `section::SectionInfo` of the section that contains `address` to `out`. Value: its base.
    0x26 Full section_info SectionInfo(address, out: write);
    /// The same for the first section with a base above `after`. `NotFound` at the end.
    0x27 Full section_list SectionList(after, out: write);
    /// Sets (or with no rights removes) one ACL entry; effective on all processors when the call returns. Needs `CHANGE_ACL`.
    /// `NotSupported`: on a stack, the right to write for anybody but its thread.
    0x28 Full acl_set AclSet(base, entry: read);
    /// Writes up to `max` entries to `out`. Value: how many there are. Needs any right on the section.
    0x29 Full acl_read AclRead(base, out: write, max);
    /// Names a section for people (up to 32 bytes). Needs `CHANGE_ACL`.
    0x2b Full section_name SectionName(base, name: read, len);

    /// Exports `count` gates (one entry address each, 16 bytes apart) that all enter the executing text at `entry`. `flags`, registers: `gate`. Value: the first entry address.
    0x30 Full gate_create GateCreate(entry, count, cookie, flags);
    /// Takes a block of gates back.
    0x31 Full gate_delete GateDelete(address);
    /// Binds the executing text to the block of gates at `address`; makes an argument section of `args_len` bytes (0: none) that both texts may use. Writes `gate::Binding` to `out`. Value: binding number.
    0x32 Full gate_bind GateBind(address, args_len, flags, out: write);
    /// Ends a binding and deletes its argument section.
    0x33 Full gate_unbind GateUnbind(binding);
    /// Returns from the current call with two values.
    0x34 Full gate_return GateReturn(value, value2);
    /// From now on a thread that executes the executing text and faults goes on at `entry` there (0: nowhere), see `frame`.
    0x35 Full fault_entry FaultEntry(entry);
    /// Ends dealing with a fault: goes on with the registers of the `frame::Frame` at `frame`, or (`mended` 0) lets the fault take its usual course.
    0x36 Full fault_return FaultReturn(frame: read, mended);

    /// Maps `[offset, offset + len)` of a section into the window of `task` with `protection` (`Rights` READ WRITE EXECUTE). Replaces what was there. Only the task's personality (or, before its first thread, its creator).
    0x40 Full window_map WindowMap(task, address, section, offset, len, protection);
    /// Removes window mappings.
    0x41 Full window_unmap WindowUnmap(task, address, len);
    /// Changes the protection of window mappings.
    0x42 Full window_protect WindowProtect(task, address, len, protection);
    /// Makes `gate` (of the executing text) the personality of `task`, and `text` the text that all code in its window counts as. Before its first thread only.
    0x43 Full foreign_set ForeignSet(task, gate, text);
    /// Starts a thread of `task` in its window with the registers of the `frame::Frame` at `frame`. Value: thread.
    0x44 Full foreign_start ForeignStart(task, frame: read);
    /// Returns from a foreign upcall with the registers of the `frame::Frame` at `frame`.
    0x45 Full foreign_return ForeignReturn(frame: read);

    /// Reads an I/O port of a section of kind ports (`port` counts from its first). `width` 1, 2 or 4. Value: what was read.
    0x50 Full port_read PortRead(section, port, width);
    /// Writes an I/O port.
    0x51 Full port_write PortWrite(section, port, width, value);
    /// Writes `len` bytes (at most 64 KiB a call) to one byte-wide port. Value: how many were written.
    0x52 Full port_write_bytes PortWriteBytes(section, port, from: read, len);
    /// From now on the device's interrupt is a message to `post` (0: no more) with this operation, whose first word says how often it came; it is sent where no handler is called (`irq_bind`). Once at once, as if one had come. The caller may receive there (`READ`), and the owner of the executing text pays for one slot. It comes from thread 0, with the device's section in the place of a text. Errors: `Busy` while another program that lives has it.
    0x53 Full irq_post IrqPost(section, post, op);
    /// Appends text to the kernel's log. User 0 only.
    0x54 Full log_write LogWrite(from: read, len);
    /// Switches the machine off. User 0 only.
    0x55 Full power_off PowerOff(code);
    /// Writes `info::Processor` of processor `index` to `out`. Value: number of processors.
    0x56 Full processor_info ProcessorInfo(index, out: write);
    /// Writes `info::Memory` to `out`.
    0x57 Full memory_info MemoryInfo(out: write);
    /// From now on the gate at `gate` (of the executing text; 0: none) is called when the device's interrupt comes, by the fast scheduler of the calling processor, with the section as its only argument. Where none sits it is a message as ever (`irq_post`). It must not wait, nor take long, and may be called though nothing has come. Value: the interrupt's vector.
    0x59 Full irq_bind IrqBind(section, gate);
    /// Interrupt `number` (`info::Interrupt`) comes to this processor from now on; `u64::MAX`: to one that is idle, if it is a message to a post. User 0 only.
    0x5a Full irq_route IrqRoute(number, processor);
    /// Writes `info::Interrupt` of line `index` to `out`. Value: number of lines.
    0x5b Full irq_info IrqInfo(index, out: write);

    /// A new post: `number` up to `post::KNOWN_MAX` (user 0 only), or `post::ANY`. A section of kind post, owned by the task that owns the executing text. Value: its address. Errors: `Exists`, `NoMemory` (none is left).
    0x60 Full post_get PostGet(number);
    /// Frees a post. `force` 0: only if nothing waits there, else `Busy`; 1: whoever waits there or has asked there hears `NotFound`.
    0x61 Full post_free PostFree(post, force);
    /// Sends the message in the registers (`post`); its answer, if any, to the post `back` (0: none). Needs `CALL`.
    0x62 Full post_send PostSend(post, back);
    /// Sends up to `post::MANY_MAX` messages: `count` records `post::Body` from `address` on, or with `same` 1 the first one `count` times. Value: how many.
    0x63 Full post_send_many PostSendMany(post, address: read, count, same);
    /// Receives from `post`, or with `count` above 1 from the first of the posts whose addresses lie at `post`. Waits at most `timeout` ns (0: not at all). Needs `READ`.
    0x64 Full post_receive PostReceive(post: read, count, timeout);
    /// Sends the message in the registers to `post`, and receives at `at` in one step. `at` 0: asks, and waits for the answer only.
    0x65 Full post_call PostCall(post, at, timeout);
    /// Answers a question that the caller has received, and receives at `at` in one step (0: does not).
    0x66 Full post_answer PostAnswer(question, at, timeout);

    /// As `get_taskid`.
    0x80 Light get_taskid_light GetTaskidLight();
    /// Nanoseconds. `which` 0: since boot, 1: since 1970 (UTC).
    0x81 Light clock Clock(which);
    /// Whether `who` may do `rights` to all of `[address, address + len)`. `who` 0: the executing domain; 1: the domain that called it. Value: 1 or 0.
    0x82 Light may May(address, len, rights, who);
    /// Whether the executing domain and the one that called it may both read each of three ranges, and write those with `gate::PASSED_FOR_WRITING` in the length. An empty range is not asked about. Value: 1 or 0.
    0x83 Light may_pass MayPass(a, a_len, b, b_len, c, c_len);
    /// The task that owns the section with just this base; nothing else is looked up. Value: task.
    0x84 Light section_owner SectionOwner(base);
    /// Value: base of the section that says which thread runs on which processor (`info::RUNNING_STEP`). Everybody may read it.
    0x85 Light running Running();
    /// Pages of a section whose `CHANGE_ACL` the caller has cannot be used any more, by nobody on any processor, when the call returns; what is in them stays. An access is a fault (`cause::INVALID`). Value: so many of the `len` bytes were done, as many as one call may take; at least one page.
    0x86 Light page_invalidate PageInvalidate(address, len);
    /// The same pages can be used again.
    0x87 Light page_validate PageValidate(address, len);
}
