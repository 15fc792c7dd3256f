//! Who executes the scheduler's text without sitting in the seat is not interrupted there, for a while.

use crate::BEAT_NS;
use crate::seat::{LATE, weight};

/// In one call, from when a thread was first found in it. (A call takes microseconds.)
const SPARED_BEATS: u32 = 6;
/// After so many, if so much is over by the clock since it was first found, as for the one in the seat.
const BEATS_BY_CLOCK: u32 = 4;
const LONGEST_NS: u64 = 5_000_000;
/// How often it is looked where the running thread is, in ns: nobody sees it come there. So who does not come back is stopped less than
/// 10 ms after it came, this and [`SPARED_BEATS`] together.
const LOOK_NS: u64 = 3 * BEAT_NS;

/// The thread that was spared last on a processor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spared {
    thread: u64,
    call: (u64, u64),
    /// In parts.
    beats: u32,
    last: u64,
    /// When it was first found there without having been elsewhere since.
    since: u64,
    /// The running thread was there when it was looked, at this time.
    found: bool,
    looked: u64,
}

impl Spared {
    /// A thread was found in this call of the scheduler at time `now` (ns). Whether it is spared: in one call for so many
    /// beats. A beat that comes late counts as little as for the one in the seat.
    pub fn again(&mut self, thread: u64, call: (u64, u64), now: u64) -> bool {
        if (self.thread, self.call) != (thread, call) {
            *self = Spared { thread, call, beats: 0, last: now, since: now, ..*self };
        } else if now >= self.last + BEAT_NS {
            let on_time = now < self.last + BEAT_NS + BEAT_NS / 2;
            (self.beats, self.last) = (self.beats + weight(on_time), now);
            if !self.found {
                // Put aside in this call, it may have been away for long.
                self.since = now;
            }
        }
        (self.found, self.looked) = (true, now);
        let by_clock = self.beats >= BEATS_BY_CLOCK * LATE && now.saturating_sub(self.since) > LONGEST_NS;
        !by_clock && self.beats < SPARED_BEATS * LATE
    }

    /// The running thread is not there at time `now`, or is another one from then on.
    pub fn elsewhere(&mut self, now: u64) {
        (self.found, self.looked) = (false, now);
    }

    /// When the one that was found there has had another beat.
    pub fn next_beat(&self) -> Option<u64> {
        self.found.then_some(self.last + BEAT_NS)
    }

    /// When it is to be looked again where the thread is that runs until `until`; at that time everybody is looked at. Who runs
    /// without an end keeps nobody waiting.
    pub fn looks_at(&self, until: u64) -> u64 {
        if until == u64::MAX {
            return until;
        }
        self.next_beat().unwrap_or(self.looked + LOOK_NS).min(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_is_spared_for_its_beats_and_the_next_one_again() {
        let mut spared = Spared::default();
        for beat in 0..u64::from(SPARED_BEATS) {
            // However often it is looked at within a beat.
            assert!((0..5).all(|_| spared.again(7, (1, 1), 100 + beat * BEAT_NS)));
        }
        assert!(!spared.again(7, (1, 1), 100 + u64::from(SPARED_BEATS) * BEAT_NS));
        assert!(spared.again(7, (2, 1), 100 + u64::from(SPARED_BEATS) * BEAT_NS));
        assert!(spared.again(8, (2, 1), 200 + u64::from(SPARED_BEATS) * BEAT_NS));
    }

    #[test]
    fn whoever_does_not_come_back_is_stopped_within_10_ms_whenever_it_came() {
        const MS: u64 = 1_000_000;
        for (quantum, came) in
            (1..60).flat_map(|quantum| (0..quantum * 10).map(move |came| (quantum * MS, came * MS / 10)))
        {
            let mut spared = Spared::default();
            spared.elsewhere(0);
            let (mut now, mut stopped) = (0, None);
            while stopped.is_none() {
                // From the end of its quantum on somebody else should run.
                now =
                    if now < quantum { spared.looks_at(quantum) } else { spared.next_beat().unwrap_or(now + BEAT_NS) };
                if now >= came {
                    stopped = (!spared.again(7, (1, 1), now)).then_some(now);
                } else {
                    spared.elsewhere(now);
                }
            }
            assert!(stopped.is_some_and(|at| at - came < 10 * MS), "{quantum} {came}: {stopped:?}");
        }
    }

    #[test]
    fn who_runs_without_an_end_is_not_looked_at() {
        let mut spared = Spared::default();
        assert_eq!(spared.looks_at(u64::MAX), u64::MAX);
        assert!(spared.again(7, (1, 1), 100));
        assert_eq!(spared.looks_at(u64::MAX), u64::MAX);
        assert_eq!(spared.looks_at(u64::MAX - 1), 100 + BEAT_NS);
        spared.elsewhere(200);
        assert_eq!(spared.looks_at(u64::MAX - 1), 200 + LOOK_NS);
        assert_eq!(spared.looks_at(300), 300);
    }

    #[test]
    fn a_machine_that_was_stopped_says_little_about_the_call() {
        let mut spared = Spared::default();
        let again = |beat: &u64| spared.again(7, (1, 1), 100 + beat * 10 * BEAT_NS);
        assert_eq!((0..1000).take_while(again).count(), (LATE * BEATS_BY_CLOCK) as usize);
        // Put aside there, and found when it goes on, each time.
        let mut spared = Spared::default();
        let again = |beat: &u64| {
            spared.elsewhere(100 + beat * 10 * BEAT_NS);
            spared.again(7, (1, 1), 101 + beat * 10 * BEAT_NS)
        };
        assert_eq!((0..1000).take_while(again).count(), (LATE * SPARED_BEATS) as usize);
    }

    #[test]
    fn whoever_does_not_come_back_is_stopped_within_10_ms_if_beats_are_a_little_late() {
        for beat in (BEAT_NS..BEAT_NS * 3 / 2).step_by(7_000) {
            let mut spared = Spared::default();
            spared.elsewhere(0);
            let mut now = 3 * BEAT_NS + 499_000;
            while spared.again(7, (1, 1), now) {
                now += beat;
            }
            assert!(now < 10 * BEAT_NS, "{beat}: {now}");
        }
    }
}
