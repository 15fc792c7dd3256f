//! Two users, and two programs of one: whatever the one takes of posts, messages, waits and accounts, the other one has its part, and so have
//! servers and drivers (K1-41, K1-U12). The second user's programs are started by a server of the system's, `tests/guest/other-user`.

pub mod memory;

use crate::info;
use crate::interrupts::{keyboard, probe};
use crate::memory::{data, load, load_text, store, store_text};
use crate::posts::flood;
use crate::report::{Check, Outcome, doing};
use crate::roles::number as word;
use crate::sections::{everybody, role as run_role};
use crate::{holds, same, stranger};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::arch::naked_asm;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use musubi::abi::calls::number;
use musubi::abi::layout::PAGE;
use musubi::abi::rights::{ANY_TEXT, principal};
use musubi::abi::section::kind;
use musubi::abi::task::{Limits, cause, exit};
use musubi::command::{Child, Command};
use musubi::interfaces::memory::MemoryClient;
use musubi::rt::post::{FOR_EVER, Post};
use musubi::rt::{Section, section, sync, task, thread, time};
use musubi::{AclEntry, Error, Rights, eprintln, names, processes, servers};

pub const CHECKS: &[Check] = &[("a_program_leaves_its_users_others_theirs", a_program_leaves_others_theirs)];

/// So many of each the second user has at least, and more than he needs is not tried.
const ENOUGH: u64 = 16;
/// Longer than this nothing takes.
const PATIENCE_NS: u64 = 60_000_000_000;
/// Where in the memory that both see the reason lies why something went wrong; before it what the second user could have.
const REASON: u64 = 64;
const COUNTS: u64 = 3;
/// Where it is told that it needs only few posts: each takes some of the kernel's heap, of which all that it was promised were too much.
const FEW: u64 = 32;

fn role(words: &[&str]) -> Result<Child, String> {
    let all: Vec<&str> = ["check", "as"].iter().chain(words).copied().collect();
    Command::new(b"bin/check").args(all).spawn().map_err(doing("a program"))
}

/// Sends until it is refused, in a program of its own. How many were sent.
fn flood_apart(post: Post) -> Result<u64, String> {
    let exit = role(&["flooder", &format!("{:#x}", post.0)])?.wait_for(PATIENCE_NS).map_err(doing("its end"))?;
    same!(exit.kind, exit::EXITED, "how it ended");
    Ok(exit.code as u64)
}

fn flooder(post: u64) -> i32 {
    flood(Post(post)).0 as i32
}

fn received(post: Post) -> u64 {
    core::iter::from_fn(|| post.receive(0).ok()).count() as u64
}

/// A program that sends all that it may, before and after another one of the same user.
fn a_program_leaves_others_theirs() -> Outcome {
    let post = Post::any().map_err(doing("post"))?;
    post.allow(&everybody(Rights::CALL)).map_err(doing("rights"))?;
    for _ in 0..3 {
        let first = flood_apart(post)?;
        let (own, why) = flood(post);
        same!(why, Error::MessageQuota, "the refusal of the one that has started it, after {own}");
        let second = flood_apart(post)?;
        holds!(
            first > 0 && own > 0 && second > 0,
            "one sent {first}, then its starter {own}, and another one {second}"
        );
        // As long as these wait the starter has its own; and afterwards as much as before.
        same!(received(post), first + own + second, "messages that came");
        let (again, _) = flood(post);
        same!(again, own, "what the starter may send, whatever others do");
        same!(received(post), again, "messages that came again");
    }
    post.free(false).map_err(doing("freeing"))
}

/// All that one user can get.
struct Taken {
    posts: Vec<Post>,
    threads: Vec<thread::Thread>,
    programs: Vec<u64>,
    messages: (Post, u64),
}

static GO: AtomicU32 = AtomicU32::new(0);
static LOOKED: AtomicU64 = AtomicU64::new(0);
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// A thread that has looked for a message has a record, until it ends.
fn look(post: Post) -> Result<thread::Thread, Error> {
    let body = move || {
        let looked = post.receive(0);
        let count = if looked == Err(Error::TimedOut) { &LOOKED } else { &REFUSED };
        count.fetch_add(1, Ordering::SeqCst);
        while GO.load(Ordering::SeqCst) == 0 {
            let _ = sync::wait(&GO, 0, u64::MAX);
        }
    };
    let before = LOOKED.load(Ordering::SeqCst) + REFUSED.load(Ordering::SeqCst);
    let one = thread::spawn(body, 4096)?;
    while LOOKED.load(Ordering::SeqCst) + REFUSED.load(Ordering::SeqCst) == before {
        thread::yield_now();
    }
    Ok(one)
}

impl Taken {
    /// Accounts, or posts and waits; and messages. (What one user may have of the kernel's heap is not enough for all of them.)
    fn all(accounts: bool) -> Result<Taken, String> {
        let (post, empty) = (Post::any().map_err(doing("post"))?, Post::any().map_err(doing("post"))?);
        post.allow(&everybody(Rights::CALL)).map_err(doing("rights"))?;
        // Room beforehand, and the way to the streams.
        let (mut posts, mut threads, mut programs) =
            (Vec::with_capacity(1 << 13), Vec::with_capacity(1 << 12), Vec::with_capacity(1 << 12));
        eprintln!("taking all there is");
        [&LOOKED, &REFUSED].into_iter().for_each(|count| count.store(0, Ordering::SeqCst));
        GO.store(0, Ordering::SeqCst);
        // Of each program an account.
        let code = code()?;
        while accounts {
            match one_that_has_sent(&code, post) {
                Ok(Some(one)) => programs.push(one),
                Ok(None) => break,
                // His part of the heap is smaller.
                Err(_) if programs.len() as u64 > 4 * ENOUGH => break,
                Err(why) => return Err(format!("after {}: {why}", programs.len())),
            }
        }
        // All were had; of the heap, which they take as well, what comes next needs some.
        programs.drain(programs.len() / 2..).try_for_each(end)?;
        code.delete().map_err(doing("delete"))?;
        // Of each thread a record.
        while !accounts && REFUSED.load(Ordering::SeqCst) < 3 && threads.len() < threads.capacity() {
            match look(empty) {
                Ok(one) => threads.push(one),
                Err(error) => return Err(format!("a thread beside {}: {error}", threads.len())),
            }
        }
        let (sent, why) = flood(post);
        same!(why, Error::MessageQuota, "the refusal of messages after {sent}");
        posts.push(empty);
        while !accounts {
            match Post::any() {
                Ok(post) => posts.push(post),
                Err(Error::PostQuota) => break,
                Err(error) => return Err(format!("the refusal of posts after {}: {error}", posts.len())),
            }
        }
        Ok(Taken { posts, threads, programs, messages: (post, sent) })
    }

    /// Posts, records, accounts, messages.
    fn counts(&self) -> [u64; 4] {
        [self.posts.len() as u64, LOOKED.load(Ordering::SeqCst), self.programs.len() as u64, self.messages.1]
    }

    fn give_back(self) -> Outcome {
        GO.store(1, Ordering::SeqCst);
        sync::wake(&GO, u32::MAX.into());
        for one in self.threads {
            one.join().map_err(doing("a thread's end"))?;
        }
        for one in self.programs {
            end(one)?;
        }
        self.posts.into_iter().try_for_each(|post| post.free(true)).map_err(doing("giving back"))?;
        same!(received(self.messages.0), self.messages.1, "messages that came");
        self.messages.0.free(false).map_err(doing("giving back"))
    }
}

/// A program of its own: sends a message to the post at `rdi`, and lives on, by a thread that has never known of posts. Or it ends with the error.
#[unsafe(naked)]
extern "C" fn sends(post: u64) {
    naked_asm!(
        "mov r15d, 1",
        "xor esi, esi",
        "mov eax, {send}",
        "syscall",
        "mov rdi, rax",
        "mov eax, {end}",
        "test rdi, rdi",
        "jnz 3f",
        "lea rdi, [rip + 2f]",
        "xor esi, esi",
        "mov edx, 4096",
        "mov eax, {begin}",
        "syscall",
        "xor edi, edi",
        "mov eax, {over}",
        "syscall",
        "ud2",
        "2:",
        "mov rdi, -1",
        "shr rdi, 2",
        "mov eax, {sleep}",
        "3:",
        "syscall",
        "jmp 2b",
        send = const number("post_send"),
        end = const number("task_exit"),
        begin = const number("thread_create"),
        over = const number("thread_exit"),
        sleep = const number("sleep"),
    )
}

/// Its code, of which each such program has a clone.
fn code() -> Result<Section, String> {
    let mut code = data(PAGE).map_err(doing("code"))?;
    // SAFETY: code of this program, shorter than that; what lies behind it is code, too.
    let bytes = unsafe { core::slice::from_raw_parts(sends as *const () as *const u8, 96) };
    code.bytes_mut()[..96].copy_from_slice(bytes);
    Ok(code)
}

/// A program that has an account: `None` if it could have none.
fn one_that_has_sent(code: &Section, post: Post) -> Result<Option<u64>, String> {
    let task = task::create(&Limits::default(), musubi::start().user(), b"sends").map_err(doing("task"))?;
    // (The last page of a text's room is for its gates.)
    let mut text = Section::create(PAGE, 2 * PAGE, kind::DATA, 0).map_err(doing("text"))?;
    text.bytes_mut()[..96].copy_from_slice(&code.bytes()[..96]);
    let text = text.seal().map_err(doing("seal"))?;
    let rights = Rights::READ | Rights::EXECUTE | Rights::CALL | Rights::CHANGE_ACL;
    section::grant(text, &everybody(rights)).map_err(doing("grant"))?;
    section::give(text, task).map_err(doing("give"))?;
    task::start(task, text, text, post.0, 4096).map_err(doing("start"))?;
    let until = time::now_ns() + PATIENCE_NS;
    loop {
        if post.receive(1_000_000).is_ok() {
            return Ok(Some(task));
        }
        if task::info(task).is_none() {
            // It may have sent it just now, and have ended for want of a thread to live on by.
            if post.receive(0).is_ok() {
                return Ok(Some(task));
            }
            let exit = processes::collect(task, PATIENCE_NS).map_err(doing("a program's end"))?.1;
            same!((exit.kind, exit.code), (exit::EXITED, Error::MessageQuota.word()), "how it was refused");
            return Ok(None);
        }
        holds!(time::now_ns() < until, "a program sends nothing");
    }
}

fn end(task: u64) -> Outcome {
    match task::kill(task) {
        // Where all of the heap that is for persons is taken it may have ended by itself.
        Ok(()) | Err(Error::NotFound) => {}
        Err(error) => return Err(format!("kill: {error}")),
    }
    let until = time::now_ns() + PATIENCE_NS;
    loop {
        match processes::collect(task, PATIENCE_NS) {
            // There is some again when it has ended.
            Err(Error::NoMemory) if time::now_ns() < until => time::sleep_ns(1_000_000),
            Err(Error::NotFound) => return Ok(()),
            outcome => return outcome.map(drop).map_err(doing("a program's end")),
        }
    }
}

/// The other user takes his part, and says what he could have.
type Other<'a> = &'a dyn Fn() -> Result<Vec<u64>, String>;

/// Does something beside another user, who has found before what he has if there is nobody else. `few`: he needs only few posts.
fn beside_a_user(few: bool, does: impl FnOnce(Other, &Vec<u64>) -> Outcome) -> Outcome {
    let client = MemoryClient::bind(names::lookup("memory").map_err(doing("memory"))?).map_err(doing("other-user"))?;
    let shared = data(PAGE).map_err(doing("memory for both"))?;
    let rights = Rights::READ | Rights::WRITE;
    let entry = AclEntry { principal: principal::USER, rights: rights.bits(), id: 2, text: ANY_TEXT };
    section::grant(shared.base(), &entry).map_err(doing("the other user's right"))?;
    let other = || -> Result<Vec<u64>, String> {
        (0..=COUNTS).for_each(|word| store(shared.base() + word * 8, 0));
        store(shared.base() + FEW, few.into());
        store_text(shared.base() + REASON, "it has said nothing");
        let status = client.want(shared.base()).map_err(doing("the other user"))?;
        same!(status, 0, "the other user: {}", load_text(shared.base() + REASON));
        Ok((0..COUNTS).map(|word| load(shared.base() + word * 8)).collect())
    };
    // What a user is promised depends on who is there before him: this one is.
    let first = Post::any().map_err(doing("a post"))?;
    let alone = other()?;
    // Each of them reads about himself only.
    let others = info::of_others(musubi::start().user())?;
    same!(others.len(), 1, "other persons than this one");
    let how = run_role(&["peek", &format!("{:#x}", others[0] + PAGE)])?;
    same!((how.kind, how.cause, how.section), (exit::FAULT, cause::DENIED, others[0]), "reading about the other one");
    does(&other, &alone)?;
    first.free(false).map_err(doing("giving back"))?;
    shared.delete().map_err(doing("giving back"))
}

/// One user takes all that he can get. The other one, who comes only then, has as much as if there were nobody else; servers begin anew, and
/// interrupts come; and what was taken is had again afterwards.
fn a_user_leaves_others_theirs() -> Outcome {
    beside_a_user(false, |other, alone| {
        leaves_others_theirs(other, alone)?;
        same!(other()?, *alone, "what the other user has afterwards");
        Ok(())
    })
}

fn leaves_others_theirs(other: Other, alone: &Vec<u64>) -> Outcome {
    let mut before = [None; 2];
    for n in 0..4 {
        let accounts = n % 2 == 0;
        let taken = Taken::all(accounts)?;
        let counts = taken.counts();
        let [posts, waits, programs, messages] = counts;
        let fewest = if accounts { programs.min(messages) } else { posts.min(waits).min(messages) };
        holds!(fewest >= ENOUGH, "posts, waits, accounts and messages: only {counts:?}");
        let outcome = beside(other, alone);
        taken.give_back()?;
        outcome.map_err(|why| format!("beside {counts:?}: {why}"))?;
        let first: [u64; 4] = *before[n % 2].get_or_insert(counts);
        // (Others of this user's programs have some of these, for a while; and of programs see above.)
        let near = |at: usize| counts[at].abs_diff(first[at]) <= 8;
        holds!([0, 1, 3].into_iter().all(near), "{first:?} at first, and then {counts:?}");
    }
    Ok(())
}

fn beside(other: Other, alone: &Vec<u64>) -> Outcome {
    same!(other()?, *alone, "what the other user can have beside");
    for name in ["clock", "keyboard", "names"] {
        servers::act(name, servers::acts::RESTART).map_err(|e| format!("{name}: {e}"))?;
    }
    probe(&keyboard()?).map(drop)
}

/// The second user's program: status, and in the memory that is told to it what it could have.
fn other_user(shared: u64) -> i32 {
    let does = if stranger::is_wanted(shared) { stranger::serves } else { takes_its_part };
    match does(shared) {
        Ok(()) => 0,
        Err(why) => {
            store_text(shared + REASON, &why);
            1
        }
    }
}

fn takes_its_part(shared: u64) -> Outcome {
    same!(task::info(task::identity().task).map(|info| info.user), Some(2), "whose program this is");
    holds!(!info::of_others(2)?.is_empty(), "there is nobody else");
    // That there are others' threads, and of these not what they do.
    let is_others = |task: u64| task::info(task).is_some_and(|info| ![0, 2].contains(&info.user));
    let others: Vec<_> = task::threads().filter(|one| is_others(one.task)).collect();
    let is_told = others.iter().find(|one| (one.text, one.depth, one.class) != (0, 0, 0));
    holds!(!others.is_empty() && is_told.is_none(), "of {} threads of others it is told {is_told:x?}", others.len());
    let post = Post::any().map_err(doing("a post"))?;
    // Posts.
    let mut posts = Vec::new();
    let most = if load(shared + FEW) == 0 { u64::MAX } else { ENOUGH };
    let refused = loop {
        if posts.len() as u64 == most {
            break None;
        }
        match Post::any() {
            Ok(post) => posts.push(post),
            Err(error) => break Some(error),
        }
    };
    let due = (most == u64::MAX).then_some(Error::PostQuota);
    // (What others have of the kernel's heap may leave him less than his posts would take, and enough for these.)
    let is_short = refused == Some(Error::NoMemory) && posts.len() as u64 >= ENOUGH;
    holds!(refused == due || is_short, "the refusal of posts after {}: {refused:?}", posts.len());
    store(shared, posts.len() as u64);
    holds!(posts.len() as u64 >= ENOUGH, "only {} posts", posts.len());
    posts.drain(..).try_for_each(|post| post.free(false)).map_err(doing("giving back"))?;
    // Waits: each of them is woken.
    let wait = move || assert!(post.receive(FOR_EVER).is_ok());
    let threads: Result<Vec<_>, _> = (0..ENOUGH).map(|_| thread::spawn(wait, 4096)).collect();
    let threads = threads.map_err(doing("threads"))?;
    for n in 0..threads.len() {
        post.send(n as u32, [n as u64; 6], None).map_err(doing("sending to those who wait"))?;
    }
    threads.into_iter().try_for_each(|one| one.join().map(drop)).map_err(doing("those who wait"))?;
    store(shared + 8, ENOUGH);
    // Messages.
    let (sent, why) = flood(post);
    same!(why, Error::MessageQuota, "the refusal of messages after {sent}");
    holds!(sent >= ENOUGH, "only {sent} messages");
    same!(received(post), sent, "messages that came");
    store(shared + 16, sent);
    // Programs, which servers start, with accounts.
    post.allow(&everybody(Rights::CALL)).map_err(doing("rights"))?;
    let code = code()?;
    for _ in 0..ENOUGH {
        end(one_that_has_sent(&code, post)?.ok_or("a program could have no account")?)?;
    }
    holds!(flood_apart(post)? > 0, "a program that was started sends nothing");
    received(post);
    memory::takes_its_part()?;
    // An interrupt, and the server that tells of it.
    probe(&keyboard()?)?;
    post.free(false).map_err(doing("freeing"))
}

fn ends(outcome: Outcome) -> i32 {
    outcome.inspect_err(|why| eprintln!("{why}")).is_err().into()
}

/// The roles of this file.
pub fn run(role: &str, words: &[&str]) -> i32 {
    let at = words.first().map_or(0, |at| word(at));
    match role {
        "flooder" => flooder(at),
        // With limits that no check has.
        "takes-all" => ends(a_user_leaves_others_theirs()),
        "takes-memory" => ends(memory::a_user_leaves_others_memory()),
        "gives-away" => ends(stranger::is_given()),
        "strangers-caller" => ends(stranger::is_called()),
        _ => other_user(at),
    }
}
