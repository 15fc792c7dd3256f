//! Where a thread goes that was made ready: to a processor that is idle, as long as there is one, and to another one than the thread
//! before, which that one has not taken up yet (K1-44).

/// Of `count` processors: the one where the thread ran last, if that is free or none is. Free is who is idle and has an empty queue.
pub fn place(last: usize, count: usize, is_free: impl Fn(usize) -> bool) -> usize {
    let free = if is_free(last) { Some(last) } else { (0..count).find(|p| *p != last && is_free(*p)) };
    free.unwrap_or(last)
}

/// Who else is to look around, once the thread is in a queue: if `at` is busy, one of `count` may have become idle meanwhile, found the
/// queue empty, and sleeps.
pub fn helper(
    at: usize,
    count: usize,
    is_idle: impl Fn(usize) -> bool,
    is_free: impl Fn(usize) -> bool,
) -> Option<usize> {
    if is_idle(at) { None } else { next(at, count, is_free) }
}

/// Who is to look around after processor `at`, which was idle or took a thread from another one's queue, when `ready` others wait: several
/// may have been put into one queue at the same moment, or one processor woken for several. And who was woken for a thread and finds
/// it taken does not look twice.
pub fn successor(at: usize, count: usize, ready: usize, is_free: impl Fn(usize) -> bool) -> Option<usize> {
    if ready > 0 { next(at, count, is_free) } else { None }
}

fn next(at: usize, count: usize, is_free: impl Fn(usize) -> bool) -> Option<usize> {
    (0..count).find(|p| *p != at && is_free(*p))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Roll;
    use shuttle::sync::atomic::{AtomicBool, Ordering};
    use shuttle::sync::{Arc, Condvar, Mutex};
    use shuttle::thread;
    use std::vec::Vec;

    #[test]
    fn the_last_one_then_a_free_one_then_the_last_one() {
        assert_eq!(place(1, 4, |_| true), 1);
        assert_eq!(place(1, 4, |p| p == 3), 3);
        assert_eq!(place(1, 4, |_| false), 1);
        let is_two = |p| p == 2;
        assert_eq!(helper(1, 4, |_| false, is_two), Some(2));
        assert_eq!(helper(1, 4, |_| true, is_two), None, "it is taken up there");
        assert_eq!(helper(2, 4, |_| false, is_two), None, "it looks there by itself");
        assert_eq!(successor(1, 4, 1, is_two), Some(2));
        assert_eq!(successor(1, 4, 0, is_two), None, "nobody waits");
    }

    #[derive(Default)]
    struct Processor {
        roll: Roll<u32>,
        idle: AtomicBool,
        poked: Mutex<bool>,
        pokes: Condvar,
    }

    impl Processor {
        fn poke(&self) {
            *self.poked.lock().unwrap() = true;
            self.pokes.notify_one();
        }

        fn wait(&self) {
            let mut poked = self.poked.lock().unwrap();
            while !*poked {
                poked = self.pokes.wait(poked).unwrap();
            }
            *poked = false;
        }
    }

    fn is_free(all: &[Processor], p: usize) -> bool {
        all[p].idle.load(Ordering::SeqCst) && all[p].roll.is_empty() && all[p].idle.load(Ordering::SeqCst)
    }

    fn ready(all: &[Processor], thread: u32, last: usize) {
        let at = place(last, all.len(), |p| is_free(all, p));
        all[at].roll.put(thread, |thread| *thread == 1, |_| false, || false);
        all[at].poke();
        let is_idle = |p: usize| all[p].idle.load(Ordering::SeqCst);
        helper(at, all.len(), is_idle, |p| is_free(all, p)).into_iter().for_each(|p| all[p].poke());
    }

    /// What a processor does that has nothing: the thread that it takes up runs for ever.
    fn live(all: &[Processor], me: usize) -> u32 {
        let ready = || all.iter().map(|p| p.roll.len()).sum::<usize>();
        let go_on =
            |others| successor(me, all.len(), others, |p| is_free(all, p)).into_iter().for_each(|p| all[p].poke());
        loop {
            if let Some(thread) = all[me].roll.take() {
                return thread;
            }
            if let Some(thread) = (0..all.len()).filter(|p| *p != me).find_map(|p| all[p].roll.steal()) {
                go_on(ready());
                return thread;
            }
            all[me].idle.store(true, Ordering::SeqCst);
            while ready() == 0 {
                all[me].wait();
            }
            all[me].idle.store(false, Ordering::SeqCst);
            go_on(ready().saturating_sub(1));
        }
    }

    /// Threads that never end are made ready by two at once, two in a row each, as many as there are processors: each finds one of its own, and none waits
    /// behind another one while a processor sleeps.
    #[test]
    fn no_processor_sleeps_while_a_thread_waits() {
        const PROCESSORS: usize = 4;
        let run = || {
            let all: Arc<Vec<Processor>> = Arc::new((0..PROCESSORS).map(|_| Processor::default()).collect());
            let lives = (0..PROCESSORS).map(|me| {
                let all = all.clone();
                thread::spawn(move || live(&all, me))
            });
            let mut lives: Vec<_> = lives.collect();
            let other = {
                let all = all.clone();
                thread::spawn(move || (2..4).for_each(|thread| ready(&all, thread, 0)))
            };
            (0..2).for_each(|thread| ready(&all, thread, 0));
            other.join().unwrap();
            let mut ran: Vec<u32> = lives.drain(..).map(|life| life.join().unwrap()).collect();
            ran.sort_unstable();
            assert_eq!(ran, [0, 1, 2, 3]);
        };
        shuttle::check_random(run, 4_000);
        shuttle::check_pct(run, 2_000, 3);
    }
}
