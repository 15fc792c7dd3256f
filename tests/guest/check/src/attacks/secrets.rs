//! Sections that no view shares (pitfalls: H17). Protection keys stop no access that the processor makes on trial, so a page with a key is
//! there for everybody in the view. Nothing can be seen of that here, but who makes the calls: where a program's memory is in a view of
//! its own, only the kernel can.

use super::by_kernel;
use crate::memory::{data, load, word};
use crate::peer::{Peer, op as peer_op, six};
use crate::report::{Check, Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::gate::why;
use musubi::abi::layout::PAGE;
use musubi::abi::section::{flag, kind};
use musubi::rt::bound::result_of;
use musubi::rt::{Bound, Trap, section, task};
use musubi::{Error, Rights};

pub const CHECKS: &[Check] = &[
    ("secret_sections_are_in_no_shared_view", shared_with_nobody),
    ("a_clone_of_a_secret_is_one", cloned),
    ("branches_are_forgotten_around_secrets", forgotten),
    ("a_secret_first_touched_in_a_callback", touched_in_a_callback),
];

const CALLS: u64 = 500;

/// The peer's side: adds 1 to a word in a secret section of its own. Value: the word.
pub fn count_in_secret() -> Result<u64, Error> {
    static BASE: AtomicU64 = AtomicU64::new(0);
    if BASE.load(Ordering::SeqCst) == 0 {
        let flags = flag::SECRET | flag::ANY_PRINCIPAL;
        BASE.store(stub::section_create(&Trap, PAGE, PAGE, kind::DATA, flags, 0, 0)?, Ordering::SeqCst);
    }
    Ok(word(BASE.load(Ordering::SeqCst)).fetch_add(1, Ordering::SeqCst) + 1)
}

fn shared_with_nobody() -> Outcome {
    let (open, secret) = (Peer::start()?, Peer::start()?);
    let calls = |peer: &Peer| {
        let before = by_kernel();
        for _ in 0..CALLS {
            same!(peer.call(peer_op::ADD, &[1]).is_ok(), true, "a call");
        }
        Ok::<u64, alloc::string::String>(by_kernel() - before)
    };
    if super::has_keys(&secret.bound) {
        // So that it is seen that this counts what it should.
        super::earn(&secret)?;
        let few = calls(&secret)?;
        holds!(few < CALLS, "{few} of {CALLS} calls by the kernel, before there is a secret");
    }
    for round in 1..=3 {
        let counted = secret.bound.call(0, six(super::op::COUNT_IN_SECRET, &[])).and_then(result_of);
        same!(counted, Ok(round), "what is counted there");
        // Long enough to earn any key.
        let made = calls(&secret)?;
        holds!(made >= CALLS, "round {round}: {made} of {CALLS} calls by the kernel");
    }
    // Whoever binds now is told why.
    let why = |peer: &Peer| Bound::bind(peer.gate, 0).map(|bound| bound.binding().why).map_err(doing("bind"));
    let [told, open_told] = [why(&secret)?, why(&open)?];
    let wanted = if super::has_keys(&open.bound) { [why::SECRET, why::DIRECT] } else { [why::NO_KEYS; 2] };
    same!([told, open_told], wanted, "why the kernel makes the calls");
    if super::has_keys(&open.bound) {
        super::earn(&open)?;
        let few = calls(&open)?;
        holds!(few < CALLS, "{few} of {CALLS} calls by the kernel, of who has no secret");
    }
    secret.end()?;
    open.end()
}

fn cloned() -> Outcome {
    let create = |flags| stub::section_create(&Trap, PAGE, PAGE, kind::DATA, flags, 0, 0).map_err(doing("create"));
    let flags = |base| section::info(base).map(|info| info.flags);
    let (plain, secret) = (create(0)?, create(flag::SECRET)?);
    word(secret).store(0x5ec, Ordering::SeqCst);
    let clone = stub::section_clone(&Trap, secret, 0, 0, 0).map_err(doing("clone"))?;
    same!([flags(plain), flags(secret), flags(clone)], [Ok(0), Ok(flag::SECRET), Ok(flag::SECRET)], "flags");
    same!([load(secret), load(clone)], [0x5ec; 2], "what lies there");
    same!(stub::section_clone(&Trap, plain, flag::SECRET, 0, 0), Err(Error::BadArgument), "made secret afterwards");
    holds!(section::may(clone, 8, Rights::READ, section::Who::Own), "its own");
    Ok(())
}

/// On other processors, whatever begins to run where a secret was last.
const FEW: u64 = 8;

/// Times that branch predictors were forgotten, or would have been if this processor could.
fn barriers() -> u64 {
    task::processors().map(|p| p.barriers).sum()
}

/// A program with a secret is entered and left by nobody else's branches: by bound and plain calls, in calls that it makes, and when others run
/// in between. One without costs nobody anything.
fn forgotten() -> Outcome {
    let (open, secret) = (Peer::start()?, Peer::start()?);
    let spent = |times: u64, call: &dyn Fn() -> Result<u64, Error>| {
        let before = barriers();
        for _ in 0..times {
            call().map_err(doing("a call"))?;
        }
        Ok::<u64, alloc::string::String>(barriers() - before)
    };
    let slot = secret.call(peer_op::BIND, &[open.gate]).map_err(doing("binding"))?;
    let bound = || secret.call(peer_op::ADD, &[1]);
    let plain = || secret.plain(peer_op::ADD, &[1]);
    let on = || secret.call(peer_op::CALL_BOUND, &[slot, peer_op::ADD, 1]);
    let plainly_on = || secret.call(peer_op::RELAY, &[open.gate, peer_op::ADD, 1]);
    // By all ways, so that the short ones are known.
    for call in [&bound as &dyn Fn() -> Result<u64, Error>, &plain, &on, &plainly_on] {
        let times = spent(CALLS, call)?;
        holds!(times <= FEW, "{times} times before there is a secret");
    }
    let counted = secret.bound.call(0, six(super::op::COUNT_IN_SECRET, &[])).and_then(result_of);
    same!(counted, Ok(1), "what is counted there");
    for round in 0..2 {
        for (what, each, call) in [
            ("a bound call", 2, &bound as &dyn Fn() -> Result<u64, Error>),
            ("a plain call", 2, &plain),
            ("a call that makes another one", 4, &on),
            ("one that makes a plain one", 4, &plainly_on),
        ] {
            let times = spent(CALLS, call)?;
            holds!(times >= each * CALLS, "round {round}: {what}: {times} times in {CALLS} calls");
        }
        let times = spent(CALLS, &|| open.call(peer_op::ADD, &[1]))?;
        holds!(times <= FEW, "round {round}: {times} times in calls of who has no secret");
    }
    // It waits, and somebody else runs meanwhile.
    let flag = data(PAGE).map_err(doing("create"))?;
    section::grant(flag.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let times = spent(10, &|| secret.call(peer_op::SLEEP, &[flag.base(), 1_000_000]))?;
    holds!(times >= 30, "waiting there: {times} times in 10 calls");
    secret.end()?;
    open.end()
}

/// Calls are under way already out of the program that touches its first secret: who comes back from them comes from somebody else's branches, too.
fn touched_in_a_callback() -> Outcome {
    const ROUNDS: u64 = 5;
    let mut times = 0;
    for _ in 0..ROUNDS {
        let (open, secret) = (Peer::start()?, Peer::start()?);
        let on = secret.call(peer_op::BIND, &[open.gate]).map_err(doing("binding"))?;
        let back = open.call(peer_op::BIND, &[secret.gate]).map_err(doing("binding back"))?;
        // By the ways that are the shortest where there is no secret.
        for _ in 0..CALLS {
            let call = secret.call(peer_op::CALL_BOUND, &[on, peer_op::CALL_BOUND, back, peer_op::ADD, 1]);
            same!(call.is_ok(), true, "a callback");
        }
        let before = barriers();
        let count = [on, peer_op::CALL_BOUND, back, super::op::COUNT_IN_SECRET];
        same!(secret.call(peer_op::CALL_BOUND, &count), Ok(1), "what is counted there");
        times += barriers() - before;
        secret.end()?;
        open.end()?;
    }
    // Out of the callback, into the program, and out of it.
    holds!(times >= 3 * ROUNDS, "{times} times in {ROUNDS} calls");
    Ok(())
}
