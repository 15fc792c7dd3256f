//! Code that somebody goes on writing (pitfalls: H6): the kernel, to what it shows; and who puts pages into a clone while it becomes a text.

use crate::memory::{data, load, store};
use crate::peer::{Peer, op};
use crate::report::{Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::abi::calls::{TABLE, stub};
use musubi::abi::layout::{GRANULE, PAGE};
use musubi::abi::pager::supply;
use musubi::abi::rights::principal;
use musubi::abi::section::{flag, kind};
use musubi::rt::{Section, Trap, info, section, task, thread};
use musubi::{AclEntry, Error, Rights};

/// So often a clone is made while another thread seals it, and while another one clones it.
const ROUNDS: u64 = 3000;

/// Nobody has a page in his own section that the kernel goes on writing, be it what is told of his own: he would have the kernel write his code.
pub fn the_kernel() -> Outcome {
    let own = data(PAGE).map_err(doing("create"))?;
    let mine = task::identity().user;
    let users = info::all().map_err(doing("the info section"))?.users();
    let own_table =
        users.into_iter().find(|one| one.user == mine).ok_or("nothing is shown of this user's own")?.section;
    for base in [stub::running(&Trap).map_err(doing("where it is"))?, own_table] {
        same!(Section::clone_of(base, 0, 0, 0).err(), Some(Error::NotSupported), "a clone of what is at {base:#x}");
        let supplied = stub::page_supply(&Trap, own.base(), base, supply::COPY);
        same!(supplied, Err(Error::NotSupported), "a page of it");
    }
    own.delete().map_err(doing("delete"))
}

/// A clone is known, and has no pages yet, while they are on their way. Whoever makes it a text then has one that nobody has looked through, or that
/// reaches as far as its gates. Where it is one of the text that he runs, the two ask for the same locks.
pub fn who_clones() -> Outcome {
    static OVER: AtomicBool = AtomicBool::new(false);
    OVER.store(false, Ordering::SeqCst);
    let source = data(GRANULE).map_err(doing("create"))?;
    let text = musubi::start().text();
    let reserve = section::info(text).map_err(doing("the own text"))?.reserve;
    let room = Section::create_at(PAGE, GRANULE, kind::DATA, 0, 0, 3 * GRANULE + reserve).map_err(doing("room"))?;
    let at = room.base() + GRANULE;
    let seals = move || {
        while !OVER.load(Ordering::Relaxed) {
            let _ = stub::section_seal(&Trap, at);
        }
    };
    let other = thread::spawn(seals, 0).map_err(doing("a thread"))?;
    let (mut spoilt, mut outcome) = (0, Ok(()));
    for round in 0..ROUNDS {
        let (of, flags) = if round % 2 == 0 { (source.base(), 0) } else { (text, flag::AS_DATA) };
        match Section::clone_of(of, flags, at, 0) {
            Ok(_) => {}
            Err(Error::Busy) => spoilt += 1,
            Err(error) => outcome = Err(alloc::format!("round {round}: a clone: {error}")),
        }
        if let Ok(one) = section::info(at)
            && one.kind == kind::TEXT
            && one.len > one.reserve - PAGE
        {
            outcome = Err(alloc::format!("round {round}: a text of {} bytes, which has no room for gates", one.len));
        }
        let _ = section::delete(at);
        if outcome.is_err() {
            break;
        }
    }
    OVER.store(true, Ordering::SeqCst);
    other.join().map_err(doing("join"))?;
    outcome?;
    holds!(spoilt < ROUNDS, "no clone was made");
    section::delete(room.base()).map_err(doing("delete"))?;
    source.delete().map_err(doing("delete"))
}

/// A page that one program of a task writes without an end is mapped for another one, which may only read it, where that is: whoever shares it then has to find
/// that it could be written, or the writer goes on by what its processor remembers, in what others have by now; in a text, if that becomes one.
pub fn who_goes_on() -> Outcome {
    static OVER: AtomicBool = AtomicBool::new(false);
    static STORES: AtomicU64 = AtomicU64::new(0);
    if task::processors().count() < 2 {
        return Ok(());
    }
    OVER.store(false, Ordering::SeqCst);
    let peer = Peer::start()?;
    let told = data(PAGE).map_err(doing("create"))?;
    section::grant(told.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let page = data(PAGE).map_err(doing("create"))?;
    let at = page.base();
    let reads = Rights::READ | Rights::CHANGE_ACL;
    let entry = AclEntry { principal: principal::TASK, rights: reads.bits(), id: task::own(), text: peer.text };
    section::grant(at, &entry).map_err(doing("grant"))?;
    let writes = move || {
        while !OVER.load(Ordering::Relaxed) {
            store(at, STORES.fetch_add(1, Ordering::Relaxed));
        }
    };
    let writer = thread::spawn(writes, 0).map_err(doing("a thread"))?;
    let alloc = TABLE.iter().find(|row| row.name == "page_alloc").ok_or("there is no page_alloc")?.number;
    let goes_on = || {
        let before = STORES.load(Ordering::Relaxed);
        while STORES.load(Ordering::Relaxed) < before + 50 {
            core::hint::spin_loop();
        }
    };
    let round = || {
        goes_on();
        same!(
            peer.call(op::TRY, &[told.base(), alloc, at, PAGE]),
            Ok(PAGE),
            "a page of one's own for the other program"
        );
        let clone = Section::clone_of(at, 0, 0, 0).map_err(doing("a clone"))?;
        let taken = load(clone.base());
        goes_on();
        same!(load(clone.base()), taken, "what stands in the clone");
        clone.delete().map_err(doing("delete"))
    };
    // (By the kernel first, and when there are keys without it.)
    let outcome = (0..ROUNDS).try_for_each(|n| round().map_err(|why| alloc::format!("round {n}: {why}")));
    OVER.store(true, Ordering::SeqCst);
    writer.join().map_err(doing("join"))?;
    outcome?;
    page.delete().map_err(doing("delete"))?;
    told.delete().map_err(doing("delete"))?;
    peer.end()
}
