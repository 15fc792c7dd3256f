//! Who executes the scheduler's text without sitting in the seat is not interrupted there, for a while.

use crate::seat::{LATE, weight};
use crate::{BEAT_NS, BEATS};

/// The thread that was spared last on a processor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spared {
    thread: u64,
    call: (u64, u64),
    /// In parts.
    beats: u32,
    last: u64,
}

impl Spared {
    /// A thread should make room at time `now` (ns), in this call of the scheduler. Whether it is spared: in one call for as many
    /// beats as the one in the seat has. A beat that comes late counts as little as there.
    pub fn again(&mut self, thread: u64, call: (u64, u64), now: u64) -> bool {
        if (self.thread, self.call) != (thread, call) {
            *self = Spared { thread, call, beats: 0, last: now };
        } else if now >= self.last + BEAT_NS {
            let on_time = now < self.last + BEAT_NS + BEAT_NS / 2;
            (self.beats, self.last) = (self.beats + weight(on_time), now);
        }
        self.beats < BEATS * LATE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_is_spared_for_its_beats_and_the_next_one_again() {
        let mut spared = Spared::default();
        for beat in 0..u64::from(BEATS) {
            // However often it is looked at within a beat.
            assert!((0..5).all(|_| spared.again(7, (1, 1), 100 + beat * BEAT_NS)));
        }
        assert!(!spared.again(7, (1, 1), 100 + u64::from(BEATS) * BEAT_NS));
        assert!(spared.again(7, (2, 1), 100 + u64::from(BEATS) * BEAT_NS));
        assert!(spared.again(8, (2, 1), 200 + u64::from(BEATS) * BEAT_NS));
    }

    #[test]
    fn a_machine_that_was_stopped_says_little_about_the_call() {
        let mut spared = Spared::default();
        let again = |beat: &u64| spared.again(7, (1, 1), 100 + beat * 10 * BEAT_NS);
        assert_eq!((0..1000).take_while(again).count(), (LATE * BEATS) as usize);
    }
}
