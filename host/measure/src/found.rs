//! What it costs to find who waits at a post, against who is known by number (K1-M2): of an answer, which goes to a post or to the thread that asked. The call is
//! the same otherwise: its caller waits at its own post then, and who is found goes on.

use crate::figure::{Figure, unit};

/// The call that answers, in rounds by these ways; and the round that is found by number.
pub const CASE: &str = "answered";
pub const AT_A_POST: &str = "at-a-post";
pub const BY_THREAD: &str = "by-thread";
pub const BY_NUMBER: &str = "ping-pong-by-number";

const ROUND: &str = "ping-pong";
const ANSWERS: &str = "ping-pong/kernel back";
const POSTS: &str = "pool";
const THREADS: &str = "question";
const REFERENCE: &str = "rendezvous";

/// Both, and what a round of the reference would take whose one message to a post were found in the same way as its answer is; of machines where steps are told.
pub fn figures(all: &[Figure]) -> Vec<Figure> {
    let of = |case: &str, way: &str, cpus: u32| {
        let same = |f: &&Figure| f.case == case && f.way == way && f.cpus == cpus && f.unit == unit::INSTRUCTIONS;
        all.iter().find(same)
    };
    let rounds = all.iter().filter(|f| f.case == ROUND && f.way == REFERENCE && f.unit == unit::INSTRUCTIONS);
    let known = rounds.filter_map(|round| {
        let [posts, thread] = [of(ANSWERS, POSTS, round.cpus)?, of(ANSWERS, THREADS, round.cpus)?];
        let less = posts.value.saturating_sub(thread.value);
        let number = |value: u64| value.saturating_sub(less);
        let named = |figure: &Figure, way: &str| Figure { case: CASE.into(), way: way.into(), ..figure.clone() };
        let reckoned = Figure {
            case: BY_NUMBER.into(),
            value: number(round.value),
            min: number(round.min),
            max: number(round.max),
            ..round.clone()
        };
        Some([named(posts, AT_A_POST), named(thread, BY_THREAD), reckoned])
    });
    known.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{MUSUBI, Source};

    fn figure(case: &str, way: &str, cpus: u32, value: u64) -> Figure {
        Figure {
            bench: "messages".into(),
            case: case.into(),
            bytes: 48,
            system: MUSUBI.into(),
            way: way.into(),
            cpus,
            unit: unit::INSTRUCTIONS.into(),
            value,
            min: value,
            max: value + 9,
            n: 5,
            source: Source::Measured,
        }
    }

    #[test]
    fn an_answer_to_a_post_and_to_a_thread_and_the_difference_from_the_reference() {
        let all = [
            figure("ping-pong/kernel there", "pool", 1, 400),
            figure("ping-pong/kernel back", "pool", 1, 360),
            figure("ping-pong/kernel back", "question", 1, 346),
            figure("ping-pong", "rendezvous", 1, 699),
            // Nothing is known of a machine whose steps are not told.
            figure("ping-pong", "rendezvous", 2, 699),
        ];
        let told: Vec<_> = figures(&all).into_iter().map(|f| (f.case, f.way, f.cpus, f.value)).collect();
        let expected = [(CASE, AT_A_POST, 1, 360), (CASE, BY_THREAD, 1, 346), (BY_NUMBER, REFERENCE, 1, 685)];
        assert_eq!(told, expected.map(|(case, way, cpus, value)| (case.into(), way.into(), cpus, value)));
        assert_eq!(figures(&[]), []);
    }
}
