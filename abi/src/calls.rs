//! The table of kernel calls: the only place where a call has a number.
//!
//! Convention: `rax` = number, arguments in `rdi rsi rdx r10 r8 r9`; on return `rax` = 0 or the number of
//! an [`Error`] (of a missing right: its whole word), `rdx` = the value. By the full entry every other register keeps its value except
//! `rcx` and `r11`; by the light one those that a procedure of the C ABI keeps do, and `rdi rsi rcx r8 r9 r10 r11` are lost.
//! An argument that is an address where the kernel reads or writes for the caller says so behind a colon.
//! A call through a bound gate has its own numbers, see [`crate::gate`].

mod why;

pub use why::Why;

use crate::error::Error;

/// Which way into the kernel a call takes (architecture, section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// May switch threads: the whole context is saved.
    Full,
    /// Never waits, and comes back to its caller: no more is saved than a procedure keeps (SSS-39). Their numbers are those from [`LIGHT`] on.
    Light,
    /// A memory operation (SSS-44): like a light call, by a door and a table of its own. Their numbers are those from [`MBCF`] on.
    Mbcf,
}

/// The classes in which the SSS-CORE paper counts its calls (SSS-32).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Tasks, threads and who runs.
    Task,
    Memory,
    /// Memory operations that name their target as MBCF does.
    Mbcf,
    /// Communication between tasks of one machine: gates and posts.
    Local,
    /// Sections as objects: whose they are, and who may do what.
    Object,
    Other,
}

impl Class {
    pub const ALL: [Class; 6] = [Class::Task, Class::Memory, Class::Mbcf, Class::Local, Class::Object, Class::Other];

    /// As people call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Class::Task => "task control",
            Class::Memory => "memory",
            Class::Mbcf => "MBCF",
            Class::Local => "communication within the node",
            Class::Object => "objects",
            Class::Other => "other",
        }
    }
}

impl Row {
    /// What the call is about. (Numbers of a kind stand together.)
    #[must_use]
    pub const fn class(&self) -> Class {
        match self.number {
            0x00..=0x1f | 0x35..=0x36 | 0x43..=0x46 | 0x80 | 0x85 => Class::Task,
            0x25..=0x29 | 0x2b | 0x82..=0x84 | 0x91 => Class::Object,
            0x20..=0x2f | 0x37..=0x38 | 0x40..=0x42 | 0x86..=0x87 | 0x8d..=0x90 => Class::Memory,
            0x70..=0x7f | 0x88..=0x8c => Class::Mbcf,
            0x30..=0x34 | 0x60..=0x6f => Class::Local,
            _ => Class::Other,
        }
    }
}

/// The first number of a light call; they have no gaps.
pub const LIGHT: u64 = 0x80;
/// The first number of a memory operation; they have no gaps either.
pub const MBCF: u64 = 0x70;

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

    /// The same for light calls and memory operations.
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
    (Mbcf, $kernel:expr, $number:literal, $arguments:expr) => {
        $kernel.enter_light($number, $arguments)
    };
}

macro_rules! calls {
    ($( $(#[doc = $doc:literal])+ $number:literal $entry:ident $name:ident $variant:ident ( $($arg:ident $(: $memory:ident)?),* ); )*) => {
        /// A decoded call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Call { $( $(#[doc = $doc])+ $variant { $($arg: u64),* }, )* }

        impl Call {
            /// The call of a number and six argument registers; `None` if there is none. (Inline: it goes through no memory then.)
            #[inline(always)]
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

/// How many memory operations there are (SSS-45).
pub const MBCF_COUNT: usize = {
    let (mut count, mut i) = (0, 0);
    while i < TABLE.len() {
        if matches!(TABLE[i].entry, Entry::Mbcf) {
            assert!(TABLE[i].number == MBCF + count as u64 && TABLE[i].number < LIGHT);
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
    /// A new task without threads. `limits`: address of `task::Limits` (at most what the maker may have, which 0 stands for); `name`: up to 32 bytes. What it uses counts for the task `payer`, too, if that is not the system's (0: the maker, or for one of the system's texts the calling thread's; another one: user 0 only). Value: task.
    0x0c Full task_create TaskCreate(limits: read, user, name: read, name_len, payer);
    /// Starts a thread of `task` in the native text section `text` at `entry` with `argument` in `rdi`. The caller must hold `CHANGE_ACL` on `text`. Value: thread.
    0x0d Full task_start TaskStart(task, text, entry, argument, stack_len);
    /// Ends a task of the same user (user 0: any task). Reason: killed.
    0x0e Full task_kill TaskKill(task);
    /// Waits until `task` has ended and writes `task::Exit` to `out`. User 0 only.
    0x0f Full task_wait TaskWait(task, timeout, out: write);
    /// Writes `task::TaskInfo` of the first task with a number above `after` that has not ended to `out`. Value: its number. `NotFound` at the end. Of another person's only number, payer, user, threads, time and class.
    0x10 Full task_list TaskList(after, out: write);
    /// Writes `task::ThreadInfo` of the first thread with a number above `after` to `out`. Value: its number. `NotFound` at the end. Of another person's without text, depth and class.
    0x11 Full thread_list ThreadList(after, out: write);
    /// Ends `task` with exit code `code`. Only for its personality (or, before its first thread, its creator).
    0x12 Full task_end TaskEnd(task, code);
    /// Asks the scheduler: gives way, sleeps, wakes, passes on, watches, sets a priority (`sched::op`), or has another processor's scheduler look around (for schedulers only). A thread that is woken must be one of the same user.
    0x13 Full call_scheduler CallScheduler(op, a, b);
    /// The calling thread asks for the seat of `processor` (`docs/decisions/0007`); it sits there from its first `thread_next` on. User 0 only. Value: base of the ring of events (`sched::RingHead`).
    0x14 Full scheduler_set SchedulerSet(processor);
    /// From the seat only: the processor goes on with this `turn` of `thread` (0: with none), for at most `ns` ns (0: as long as was said before; `u64::MAX`: no limit). Returns when there is something to decide. Value: events to read. Errors: `Changed` (somebody else has got that turn), `Busy` (there is something to read first).
    0x15 Full thread_next ThreadNext(thread, turn, ns);
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
    /// From its first thread or call on, the text `text` is executed in `class` (`section::class`), without a change of its address or its code. NSys: one thread at a time in the texts of `group` (0: this one alone). Needs `CALL` on the section that the info section names (`Machine.placing`), whose list says who may have texts in supervisor mode, and `CHANGE_ACL` on the text. Errors: `Busy`: somebody has executed it.
    0x1e Full text_place TextPlace(text, class, group);
    /// Writes the `frame::Frame` of a thread to `out`: of another one of the own task's, or of a task that counts for it (`task_create`). Its registers where it executes its own task's texts, otherwise only where it goes on there (`frame::reason`). Errors: `Busy`: it runs, and its processor was asked; made again soon, the call is answered.
    0x1f Full thread_registers ThreadRegisters(thread, out: write);

    /// A new section of `len` bytes that may grow to `reserve`, owned by the task that owns the executing text. `kind` and `flags`: `section`. `at`: 0, or a granule inside the room beside an own section. Value: base.
    0x20 Full section_create SectionCreate(len, reserve, kind, flags, at, room);
    /// Deletes a section: no access is possible any more on any processor when the call returns.
    0x21 Full section_delete SectionDelete(base);
    /// Changes the length up to what was reserved. Pages beyond the new end are gone.
    0x22 Full section_resize SectionResize(base, len);
    /// A copy-on-write clone. `at` and `room` as in `section_create`; a clone of a text counts as its original in ACLs, if the caller holds `CHANGE_ACL` on that. Value: base. Errors: `NotSupported`: it has a pager, or the kernel itself writes there.
    0x23 Full section_clone SectionClone(base, flags, at, room);
    /// Makes a data section a text section: from now on no entry can give `WRITE` (W^X). Its reserve must leave the last page free for gates. Errors: `NotSupported`: it has a pager, is lent, or the kernel itself writes there.
    0x24 Full section_seal SectionSeal(base);
    /// Gives a section, and its charge, to another task. Errors: `NoMemory`: it is another user's, and little is left.
    0x25 Full section_give SectionGive(base, task);
    /// Writes `section::SectionInfo` of the section that contains `address` to `out`. Value: its base. Of another person's that the caller has no right to only where it is, how long, its kind, owner, original and gates.
    0x26 Full section_info SectionInfo(address, out: write);
    /// The same for the first section with a base above `after` that is the caller's user's or the system's, or that the caller has a right to. `NotFound` at the end.
    0x27 Full section_list SectionList(after, out: write);
    /// Sets (or with no rights removes) one ACL entry; effective on all processors when the call returns. Needs `CHANGE_ACL`.
    /// `NotSupported`: on a stack, the right to write for anybody but its thread.
    0x28 Full acl_set AclSet(base, entry: read);
    /// Writes up to `max` entries to `out`. Value: how many there are. Needs any right on the section.
    0x29 Full acl_read AclRead(base, out: write, max);
    /// From now on faults on pages of the section that are absent or invalid go to `gate` of the executing text (0: no more; what is absent is zeroes then), which was made with `gate::flag::CALLED_UP`, see `pager`. `level`: 1 to `pager::LEVEL_MAX`, above all that the pager itself needs; `flags`: `pager::flag`. Needs `CHANGE_ACL`. Errors: `Busy` while another program that lives is its pager; `BadArgument`: it is part of the pager's own program, or that is not below the level, or others may come in at the gate; `NotSupported`: not a data section.
    0x2a Full section_pager SectionPager(base, gate, level, flags);
    /// Names a section for people (up to 32 bytes). Needs `CHANGE_ACL`.
    0x2b Full section_name SectionName(base, name: read, len);
    /// Counts the pages of a section from page `from` on, as many as one call may (those of four times 512 in which there are any), and adds what they are to the `section::SectionPages` at `out`. Value: the page where the next call is to go on; it is the length in pages when all were counted, or there are none from `from` on. Of another person's section that the caller has no right to nothing is counted.
    0x2c Full section_pages SectionPages(base, from, out: write);

    /// Exports `count` gates (one entry address each, 16 bytes apart) that all enter the executing text at `entry`. `flags`, registers: `gate`. Value: the first entry address.
    0x30 Full gate_create GateCreate(entry, count, cookie, flags);
    /// Takes a block of gates back.
    0x31 Full gate_delete GateDelete(address);
    /// Binds the executing text to the block of gates at `address`; makes an argument section of `args_len` bytes (0: none) that both texts may use. Writes `gate::Binding` to `out`. Value: binding number.
    0x32 Full gate_bind GateBind(address, args_len, flags, out: write);
    /// Ends a binding and deletes its argument section; a binding ends with its section, too. A call that is under way goes on without it.
    0x33 Full gate_unbind GateUnbind(binding);
    /// Returns from the current call with two values.
    0x34 Full gate_return GateReturn(value, value2);
    /// From now on a thread that executes the executing text and faults goes on at `entry` there (0: nowhere), see `frame`. `wants`: `frame::wants`.
    0x35 Full fault_entry FaultEntry(entry, wants);
    /// Ends dealing with a fault: goes on with the registers of the `frame::Frame` at `frame`, or (`mended` 0) lets the fault take its usual course.
    0x36 Full fault_return FaultReturn(frame: read, mended);
    /// From now on faults of `task`'s threads (0: of the task that owns the executing text) on invalid pages of its window, and on those that the task itself makes invalid from then on (`page_invalidate` by a text of its own on a thread of its own), go to `gate` of the executing text (0: no more; made with `gate::flag::CALLED_UP`) first. Another task than the own one: for its personality. `flags`: `pager::flag`.
    0x37 Full task_pager TaskPager(task, gate, flags);
    /// From now on it is a message to `post` (0: no more) with this operation, whose first word says how often it came, when less than `low` bytes of memory are free, and when more than `high` are again; once at once. As `irq_post`. User 0 only. Errors: `BadArgument`: `low` is above `high`.
    0x38 Full memory_post MemoryPost(post, op, low, high);

    /// Maps `[offset, offset + len)` of a section into the window of `task` with `protection` (`Rights` READ WRITE EXECUTE). Replaces what was there. Only the task's personality (or, before its first thread, its creator). `TooBig`: there are too many mappings (65 536), for these calls alike.
    0x40 Full window_map WindowMap(task, address, section, offset, len, protection);
    /// Removes window mappings.
    0x41 Full window_unmap WindowUnmap(task, address, len);
    /// Changes the protection of window mappings.
    0x42 Full window_protect WindowProtect(task, address, len, protection);
    /// Makes `gate` (of the executing text, with `gate::flag::CALLED_UP`) the personality of `task`, and `text` the text that all code in its window counts as. Before its first thread only.
    0x43 Full foreign_set ForeignSet(task, gate, text);
    /// Starts a thread of `task` in its window with the registers of the `frame::Frame` at `frame`. Value: thread.
    0x44 Full foreign_start ForeignStart(task, frame: read);
    /// Returns from a foreign upcall with the registers of the `frame::Frame` at `frame`.
    0x45 Full foreign_return ForeignReturn(frame: read);
    /// During a foreign upcall: writes the window code's `frame::Vectors` to `to`, and then has it go on with those at `from`; 0: neither. What no processor could load is left out. Errors: `NotFound`: no upcall is being served.
    0x46 Full foreign_vectors ForeignVectors(to: write, from: read);

    /// Writes `len` bytes (at most 64 KiB a call) to one byte-wide port. Value: how many were written. To the serial port that the kernel's log shares: as many as there is room for, perhaps 0.
    0x52 Full port_write_bytes PortWriteBytes(section, port, from: read, len);
    /// From now on the device's interrupt is a message to `post` (0: no more) with this operation, whose first word says how often it came; it is sent where no handler is called (`irq_bind`). Once at once, as if one had come. The caller may receive there (`READ`), and the owner of the executing text pays for one slot. It comes from thread 0, with the device's section in the place of a text. Errors: `Busy` while another program that lives has it.
    0x53 Full irq_post IrqPost(section, post, op);
    /// Appends text (UTF-8, what is none is replaced; at most 1024 bytes) to the kernel's log, behind the time and as a line by itself. Where the log is full that is lost, and the log says later how many lines were. User 0 only.
    0x54 Full log_write LogWrite(from: read, len);
    /// Switches the machine off. User 0 only.
    0x55 Full power_off PowerOff(code);
    /// Switches the trace of a processor off (0) or on (1). User 0 only. While it is on every call takes the full entry. Value: base of the section (`abi::trace`), of which the first program says who may read it, and the info section where it is; 0: there is none yet.
    0x58 Full trace_set TraceSet(processor, what);
    /// From now on the gate at `gate` (of the executing text; 0: none) is called when the device's interrupt comes, by the fast scheduler of the calling processor, with the section as its only argument. Where none sits it is a message as ever (`irq_post`). It must not wait, nor take long, and may be called though nothing has come. Value: the interrupt's vector.
    0x59 Full irq_bind IrqBind(section, gate);
    /// Interrupt `number` (`info::Interrupt`) comes to this processor from now on; `u64::MAX`: to one that is idle, if it is a message to a post. User 0 only.
    0x5a Full irq_route IrqRoute(number, processor);

    /// A new post: `number` up to `post::KNOWN_MAX` (user 0 only), or `post::ANY`. A section of kind post, owned by the task that owns the executing text. Value: its address. Errors: `Exists`, `PostQuota` (what is left is other users'), `NoMemory` (none is left).
    0x60 Full post_get PostGet(number);
    /// Frees a post. `force` 0: only if nothing waits there, else `Busy`; 1: whoever waits there or has asked there hears `NotFound`. 2: frees nothing, but who asks there (`post_call` with `at` 0) hears `Dead` from now on unless somebody waits there, and so do all whose question lies there; 3: not any more.
    0x61 Full post_free PostFree(post, force);
    /// Sends the message in the registers (`post`); its answer, if any, to the post `back` (0: none). Needs `CALL`. What it lends, whoever has received it may use until it answers (`post_answer`), either one ends, one of the posts is freed, the sender may not receive at `back` any more or `limit` ns are over (0: no limit), and how that ended is a message to `back` (`post`). In a call, what the text may use on threads of its own task. Value: the loan, or 0. Errors: `BadArgument`: it lends and has no `back`, or what has no length; `NotSupported`: it lends a stack for writing; `MessageQuota`: a loan is paid for as a message.
    0x62 Full post_send PostSend(post, back, limit);
    /// Sends up to `post::MANY_MAX` messages: `count` records `post::Body` from `address` on, or with `same` 1 the first one `count` times. Value: how many.
    0x63 Full post_send_many PostSendMany(post, address: read, count, same);
    /// Receives from `post`, or with `count` above 1 from the first of so many posts that has a message: this one and those in `r10 r8 r9 r12 r13 r14 r15`. Waits at most `timeout` ns (0: not at all). Needs `READ`.
    0x64 Full post_receive PostReceive(post, count, timeout);
    /// Sends the message in the registers to `post`, and receives at `at` in one step. `at` 0: asks, and waits for the answer only.
    0x65 Full post_call PostCall(post, at, timeout);
    /// Answers a question, or a message with a loan, that the caller has received, and receives at `at` in one step (0: does not).
    0x66 Full post_answer PostAnswer(question, at, timeout);
    /// Takes back what was lent with a message by the executing text for this task (in a call: for its own). Nothing is heard of that loan then. Errors: `NotFound`: it is none of these, or over, and how is at the post.
    0x67 Full post_cancel PostCancel(loan);

    /// Copies `len` bytes (at most `mbcf::DATA_MAX`) from `from` to `to`, each range within one section. `options`: `mbcf::option`; `report`: where `mbcf::Report` is to be written, if asked for. Never waits: `Absent` (a page is not there, or not valid) and `Busy` mean later.
    0x70 Mbcf mbcf_write MbcfWrite(to: write, from: read, len, options, report: write);
    /// The same the other way: from `address` to `to`, which is the issuer's.
    0x71 Mbcf mbcf_read MbcfRead(address: read, to: write, len, options, report: write);
    /// Fills `len` bytes at `to` with the low byte of `value`.
    0x72 Mbcf mbcf_fill MbcfFill(to: write, value, len, options, report: write);
    /// Copies from `from` to `to`, neither of which need be near the issuer.
    0x73 Mbcf mbcf_copy MbcfCopy(to: write, from: read, len, options, report: write);
    /// Stores a word at `address` (as in all that follow: aligned, of 64 bits, undivided for everybody).
    0x74 Mbcf mbcf_store MbcfStore(address: write, value, options, report: write);
    /// Value: the word at `address`.
    0x75 Mbcf mbcf_load MbcfLoad(address: read, options, report: write);
    /// Stores a word. Value: what was there.
    0x76 Mbcf mbcf_swap MbcfSwap(address: write, value, options, report: write);
    /// Adds to a word. Value: what was there.
    0x77 Mbcf mbcf_add MbcfAdd(address: write, value, options, report: write);
    /// Stores `value` if `expected` is there. Value: what was there.
    0x78 Mbcf mbcf_compare_swap MbcfCompareSwap(address: write, expected, value, options, report: write);
    /// Sets bits of a word.
    0x79 Mbcf mbcf_set_bits MbcfSetBits(address: write, bits, options, report: write);
    /// Clears bits of a word.
    0x7a Mbcf mbcf_clear_bits MbcfClearBits(address: write, bits, options, report: write);
    /// Appends a record of `len` bytes to the queue whose structure is `queue`. Needs `CALL` there. Value: `mbcf::status`; a record for which there is no room is cancelled whole. Errors: `NotFound` (there is no queue), `TooBig`.
    0x7b Mbcf mbcf_fifo MbcfFifo(queue, from: read, len, options, report: write);
    /// The same in the sender's order: where there is no room the sender has stopped, and its records are cancelled until `packet` (a number of its own) was sent again.
    0x7c Mbcf mbcf_fifoe_normal MbcfFifoeNormal(queue, from: read, len, packet, options, report: write);
    /// Sends the packet again at which the sender had stopped. If there is room it goes on.
    0x7d Mbcf mbcf_fifoe_retry MbcfFifoeRetry(queue, from: read, len, packet, options, report: write);
    /// A signal to `structure`, with `len` bytes of data, that asks for the program `entry` (0: for none). Needs `CALL` there. Value: `mbcf::status`. Errors: `NotFound` (there is no structure), `TooBig`, `BadArgument` (the receiver does not allow this), `Dead` (its thread has ended).
    0x7e Mbcf mbcf_signal MbcfSignal(structure, from: read, len, entry, options, report: write);

    /// As `get_taskid`.
    0x80 Light get_taskid_light GetTaskidLight();
    /// Nanoseconds. `which` 0: since boot, 1: since 1970 (UTC).
    0x81 Light clock Clock(which);
    /// Whether `who` may do `rights` to all of `[address, address + len)`. `who` 0: the executing domain; 1: the domain that called it. Value: 1 or 0.
    0x82 Light may May(address, len, rights, who);
    /// Whether the executing domain and the one that called it may both read each of three ranges, and write those with `gate::PASSED_FOR_WRITING` in the length. An empty range is not asked about. Value: 1 or 0.
    0x83 Light may_pass MayPass(a, a_len, b, b_len, c, c_len);
    /// The task that owns the section with just this base, if at least `len` bytes are reserved for it (`NotFound`); nothing else is looked up. Value: task.
    0x84 Light section_owner SectionOwner(base, len);
    /// Value: base of the info section, which begins with what thread runs on which processor (`info::RUNNING_STEP`, `info::layout`). Everybody may read it.
    0x85 Light running Running();
    /// Pages of a section whose `CHANGE_ACL` the caller has cannot be used any more, by nobody on any processor, when the call returns; what is in them stays. An access is a fault (`cause::INVALID`). Value: so many of the `len` bytes were done, as many as one call may take; at least one page.
    0x86 Light page_invalidate PageInvalidate(address, len);
    /// The same pages can be used again.
    0x87 Light page_validate PageValidate(address, len);
    /// Makes `queue` (a multiple of `mbcf::STRUCTURE_ALIGN`) the structure of an empty queue of records with the buffer `[start, end)`, all in one data section whose `CHANGE_ACL` the caller has. `flags`: `mbcf::fifo_flag::SENDER`. What was a structure there is one no more. The section's owner pays.
    0x88 Light fifo_init FifoInit(queue, start, end, flags);
    /// Takes the first record out of a queue whose `READ` the caller has, and writes it to `to` (up to `max` bytes). Value: its length, or `u64::MAX`: there is none. Errors: `NotFound`, `TooBig`, `Changed` (somebody has spoilt the buffer; what was in it is dropped).
    0x89 Light fifo_read FifoRead(queue, to: write, max);
    /// What lies at `address` is no structure any more. Needs `CHANGE_ACL`.
    0x8a Light structure_end StructureEnd(address);
    /// Makes `structure` one of signals, as the `mbcf::SignalSetup` at `setup` says, for programs that are gates of the executing text, on a thread of the own task that was started in it. Needs `CHANGE_ACL`; otherwise as `fifo_init`.
    0x8b Light signal_init SignalInit(structure, setup: read);
    /// Data of signals that came in succession: as `fifo_read` from the structure's queue; of one with a buffer 0: something has come since the last program was started, `u64::MAX`: nothing has. Needs `READ`.
    0x8c Light signal_take SignalTake(structure, to: write, max);
    /// Real pages: of `[address, address + len)`, whole pages of a section of data whose `CHANGE_ACL` the caller has, each is there when the call returns, a frame of zeroes if there was none, charged to the section's owner, and mapped where the caller sees it, as the list allows. `attributes`: `section::real`; with any, none of the pages may be there already (`Exists`), unless they are such a large page. Value: so many of the `len` bytes were done, as many as one call may take or memory is left for; at least one page. A page of 1 GiB and what is contiguous is made in parts, by further calls with the same attributes for the rest; it is taken and charged with the first, and what is left of it is given back with an error, with `page_free` and when the section becomes shorter. A large page is mapped when all of it is there. Errors: `NoMemory`, `Scattered` (no memory in a row), `NotSupported` (no pages of 1 GiB on this machine).
    0x8d Light page_alloc PageAlloc(address, len, attributes);
    /// Gives the frames of such pages back: on no processor can what was in them be seen when the call returns. The pages read as zeroes from now on. Value: as for `page_alloc`.
    0x8e Light page_free PageFree(address, len);
    /// Supplies the page at `address`, of a data section whose `CHANGE_ACL` the caller has: the page at `from` goes there (needs `READ` and `WRITE`), or is copied (`pager::supply`), or with `from` 0 one of zeroes is made. Then it is valid, in the same step. Its section's owner pays for it. Errors: `Exists` (a valid page is there), `Absent` (none is at `from`), `NotSupported` (the kernel itself writes there), `Busy`.
    0x8f Light page_supply PageSupply(address, from: read, flags);
    /// Takes the page at `address` out of such a section: it goes to `to`, in another data section of the caller's (what was there is gone), or with `to` 0 its memory is free, if it is clean. Value: what it was (`pager::page`); dirty and with `to` 0 it is still there.
    0x90 Light page_take PageTake(address, to: write);
    /// From now on the executing text uses the argument section with just this base by address on this thread, though not called by who has bound: should it end, its addresses are nobody else's until the text calls this again on this thread (`base` 0: it uses none), or one of the two ends. `Refused`: the thread is a caller's; `NotFound`: no binding of `owner`'s to this text has lent one with at least `len` bytes reserved, and none is used.
    0x91 Light section_hold SectionHold(base, len, owner);
    /// Reads an I/O port of a section of kind ports (`port` counts from its first). `width` 1, 2 or 4. Value: what was read.
    0x92 Light port_read PortRead(section, port, width);
    /// Writes an I/O port.
    0x93 Light port_write PortWrite(section, port, width, value);
}
