//! How long an NSys text keeps a processor until its next switch point (SSS-64). It is watched in beats of the processor itself: what a host
//! does to a virtual machine counts little, as for schedulers.

use crate::BEAT_NS;
use crate::seat::{LATE, weight};

/// So many beats without a switch point, and the text is NSys no more: five quanta, which is long for people, too.
pub const NSYS_BEATS: u32 = 50;

/// The run of a thread that is not preempted, on one processor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch {
    thread: u64,
    since: u64,
    last: u64,
    /// In parts.
    beats: u32,
}

impl Watch {
    /// This thread is seen running at `now` (ns). Whether it has run for too long.
    pub fn sees(&mut self, thread: u64, now: u64) -> bool {
        if self.thread != thread {
            *self = Watch { thread, since: now, last: now, beats: 0 };
        } else if now >= self.last + BEAT_NS {
            let on_time = now < self.last + BEAT_NS + BEAT_NS / 2;
            (self.beats, self.last) = (self.beats + weight(on_time), now);
        }
        self.beats >= NSYS_BEATS * LATE
    }

    /// It is at a switch point. How long it has run, ns.
    pub fn ends(&mut self, now: u64) -> u64 {
        let Watch { thread, since, .. } = core::mem::take(self);
        if thread == 0 { 0 } else { now.saturating_sub(since) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_its_beats_and_each_switch_point_gives_them_anew() {
        let mut watch = Watch::default();
        for _ in 0..3 {
            for beat in 0..u64::from(NSYS_BEATS) {
                assert!((0..5).all(|_| !watch.sees(7, 100 + beat * BEAT_NS)));
            }
            assert_eq!(watch.ends(100 + 9 * BEAT_NS), 9 * BEAT_NS);
        }
        assert!((0..=u64::from(NSYS_BEATS)).map(|beat| watch.sees(7, beat * BEAT_NS)).any(|over| over));
        assert!(!watch.sees(8, 60 * BEAT_NS), "another one");
        assert_eq!((watch.ends(61 * BEAT_NS), watch.ends(62 * BEAT_NS)), (BEAT_NS, 0));
    }

    #[test]
    fn a_machine_that_was_stopped_says_little() {
        let mut watch = Watch::default();
        let sees = |beat: &u64| !watch.sees(7, beat * 10 * BEAT_NS);
        assert_eq!((0..1000).take_while(sees).count(), (NSYS_BEATS * LATE) as usize);
    }
}
