//! A message that stays in its slot until whoever has received it goes on.

use super::one::world;
use super::*;
use crate::receive::Step;
use crate::{Back, By, Hands, Letter, Lies, Question, Sent, Woken};

/// Hands that send nothing, and keep where a message lies.
struct Stays(Option<Lies>);

impl Hands for Stays {
    fn op(&self) -> u64 {
        0
    }

    fn lend(&self) -> u16 {
        0
    }

    fn words(&self) -> &[u64; 6] {
        &[0; 6]
    }

    fn carry(&mut self, _: &Woken, _: Sent, _: u32, _: impl By, _: (u32, Option<Question>), _: impl FnOnce()) -> bool {
        false
    }

    fn wake(&mut self, woken: Woken) {
        panic!("{woken:?}");
    }

    fn show(&mut self, lies: Lies, _: &Letter) -> bool {
        self.0 = Some(lies);
        true
    }

    fn may_receive(&self, _: u32, _: impl By) -> Result<(), Error> {
        Err(Error::Changed)
    }
}

#[test]
fn nobody_writes_where_a_message_stays() {
    alone(|| {
        let (pool, a, b) = world();
        let post = allow(&pool, pool.get(1, SYSTEM).unwrap());
        assert_eq!(pool.send(&post, &a.by(), &body(7), 0), Ok(None));
        let mut hands = Stays(None);
        assert_eq!(pool.receive_with(&[post], b.by(), true, &mut hands), Step::Came);
        let lies = hands.0.unwrap();
        let Lies::Slot(slot) = lies else { panic!("{lies:?}") };
        assert_eq!(pool.charged(a.account), 1, "its sender pays for it");
        // Whatever is sent meanwhile, by whichever processor, lies elsewhere.
        let others: Vec<u64> = [&a, &a, &b, &b, &b]
            .iter()
            .zip(10..)
            .map(|(by, op)| {
                pool.send(&post, &by.by(), &body(op), 0).unwrap();
                op
            })
            .collect();
        assert_eq!(pool.send(&post, &a.by(), &body(9), 0), Err(Error::MessageQuota));
        assert_eq!(pool.letter(lies).body(), body(7));
        pool.done_with(slot, b.processor);
        assert_eq!((pool.charged(a.account), pool.send(&post, &a.by(), &body(9), 0)), (2, Ok(None)));
        let came = std::iter::from_fn(|| Some(op(pool.receive(&[post], &b.by(), false).ok()?).1));
        assert_eq!(came.collect::<Vec<u64>>(), [&others[..], &[9]].concat());
    });
}

/// Messages that were written before they are sent: who waits is given the first ones, the others lie where they were written.
#[test]
fn many_are_written_before_they_are_sent() {
    alone(|| {
        let (pool, a, b) = world();
        let post = allow(&pool, pool.get(1, SYSTEM).unwrap());
        let write = |most: u32| {
            let rooms = pool.rooms(&a.by(), most);
            for (n, room) in rooms.iter().enumerate() {
                (0..7).for_each(|at| pool.write(*room, at, 10 * n as u64 + at as u64));
            }
            rooms
        };
        let expected = |n: u64| Body { op: 10 * n, words: [1, 2, 3, 4, 5, 6].map(|at| 10 * n + at), lend: 0 };
        let mut woken = Vec::new();
        assert_eq!(pool.receive(&[post], &b.by(), true).unwrap(), Received::Waits(1));
        let rooms = write(5);
        assert_eq!((rooms.len(), pool.charged(a.account)), (3, 3), "as many as it may");
        assert_eq!(pool.send_written(&post, &a.by(), &rooms, |one| woken.push(one.thread)), Ok(3));
        assert_eq!((woken, pool.charged(a.account)), (vec![200], 2));
        let first = pool.collect(b.receiver).unwrap();
        let others = [1, 2].map(|_| pool.receive(&[post], &b.by(), false).unwrap());
        for (n, received) in [first].into_iter().chain(others).enumerate() {
            let Received::Message(1, message) = received else { panic!("{received:?}") };
            assert_eq!((message.body, message.from, message.back), (expected(n as u64), a.sender, Back::Nowhere));
        }
        assert_eq!((pool.charged(a.account), write(0).len()), (0, 0));
        let rooms = write(2);
        pool.changed(1, |_| Ok(()), |woken| panic!("{woken:?}"));
        assert_eq!(pool.send_written(&post, &a.by(), &rooms, |one| panic!("{one:?}")), Err(Error::Changed));
        rooms.into_iter().for_each(|room| pool.done_with(room, a.processor));
        assert_eq!((pool.charged(a.account), pool.depth(1)), (0, (0, 0)));
    });
}
