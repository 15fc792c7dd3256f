//! Who waits knows whether those whom it waits for run, and hears of their ends (SSS-2).

use super::*;

/// On one processor, who waits sleeps, since the other cannot be running; on several it spins as long as the other runs.
pub fn spins_while_the_partner_runs() -> Outcome {
    let pair = Pair::start("busy")?;
    let me = task::identity().thread;
    let own = || task::threads().find(|one| one.thread == me).map_or(u64::MAX, |one| one.processor);
    let entries = |cpu: u64| task::processors().nth(cpu as usize).map_or(0, |p| p.entries);
    pair.with(|o| {
        o.there.wait(FOR_EVER).map_err(doing("the beginning"))?;
        let (began, cpu) = (time::now_ns(), own());
        let before = entries(cpu);
        o.there.wait(Limit::Snoop(u64::MAX)).map_err(doing("the end"))?;
        // That it reads; by a call at each look there would be thousands. (On one processor the other one has it meanwhile.)
        let (took, entered) = (time::now_ns() - began, entries(cpu) - before);
        let here = own() == cpu && task::processors().count() > 1;
        holds!(!here || entered < 200 + took / 100_000, "of {took} ns the kernel was entered {entered} times");
        Ok(())
    })?;
    let expected = if task::processors().count() == 1 { state::WAITING } else { state::RUNNING };
    same!(pair.words[SAID].load(Ordering::SeqCst), expected, "what this thread was doing while the other was busy");
    pair.end(0)
}

/// It spins no longer than that: when the other one stops it sleeps, too (SSS-2).
pub fn sleeps_when_the_partner_does() -> Outcome {
    // This program has no other thread that does anything.
    let ran = || task::info(task::identity().task).map_or(0, |info| info.time);
    let pair = Pair::start("sleep")?;
    pair.with(|o| {
        o.there.wait(FOR_EVER).map_err(doing("the beginning"))?;
        let (began, had) = (time::now_ns(), ran());
        o.back.wait(Limit::Snoop(u64::MAX)).map_err(doing("the end"))?;
        let (took, used) = (time::now_ns() - began, ran() - had);
        holds!(took >= ASLEEP_NS && used < took - ASLEEP_NS / 2, "of {took} ns it ran {used}");
        Ok(())
    })?;
    pair.end(0)
}

pub fn who_runs_is_told() -> Outcome {
    let here = Here::find().map_err(doing("the page of who runs"))?;
    let me = task::identity().thread;
    for _ in 0..1000 {
        holds!(here.running().any(|thread| thread == me), "this thread is running, and is not among those that are");
    }
    let page = musubi::abi::calls::stub::running(&musubi::rt::Trap).map_err(doing("its base"))?;
    holds!(!section::may(page, 8, Rights::WRITE, section::Who::Own), "a program may write who runs");
    let all: Vec<u64> = here.running().filter(|thread| *thread != 0).collect();
    let mut once = all.clone();
    once.sort_unstable();
    once.dedup();
    same!(once.len(), all.len(), "threads that run, each on one processor");
    Ok(())
}

pub fn watching() -> Outcome {
    same!(sched::watch(0), Err(Error::NotFound), "watching nobody");
    same!(sched::watch(1 << 60), Err(Error::NotFound), "watching one that never was");
    same!(sched::unwatch(5), Err(Error::NotFound), "taking back what was not begun");
    let gone = thread::spawn(|| {}, 0).map_err(doing("thread"))?;
    let number = gone.number();
    gone.join().map_err(doing("join"))?;
    same!(sched::watch(number), Err(Error::Dead), "watching one that has ended");
    // The first task's thread belongs to another user. Watching it lets it wake us, and gives us nothing.
    let foreign = task::threads().find(|t| t.task == 1).ok_or("the first task has no thread")?.thread;
    same!(sched::watch(foreign), Ok(()), "watching another user's");
    crate::refusals::refused(
        sched::wake_up(foreign).map(|()| 0),
        musubi::abi::refusal::Object::Thread(foreign),
        "waking another user's",
    )?;
    same!(sched::unwatch(foreign), Ok(()), "taking that back");
    let all: Result<Vec<_>, _> = (0..=WATCHES_MAX).map(|_| thread::spawn(|| time::sleep_ns(30_000_000), 0)).collect();
    let all = all.map_err(doing("thread"))?;
    for other in &all[..WATCHES_MAX] {
        same!(sched::watch(other.number()), Ok(()), "one of {WATCHES_MAX}");
    }
    same!(sched::watch(all[WATCHES_MAX].number()), Err(Error::TooBig), "one more");
    same!(sched::watch(all[0].number()), Ok(()), "one of them twice");
    // Each end wakes, and makes room.
    same!(sched::sleep(60_000_000_000), Ok(()), "until one ends");
    for other in all {
        other.join().map_err(doing("join"))?;
    }
    same!(sched::watch(foreign), Ok(()), "when they have ended");
    sched::unwatch(foreign).map_err(doing("unwatch"))
}
