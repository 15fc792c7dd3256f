//! Who has been introduced, and what is known of the lists of posts.

use super::one::world;
use super::*;
use crate::{By, Known, SEVERAL_MAX};

const NAME: u64 = 0x4000_0020_0000;

#[test]
fn permits_are_good_until_the_list_changes() {
    alone(|| {
        let (pool, a, _) = world();
        pool.get(1, SYSTEM).unwrap();
        let asked = std::cell::Cell::new(0);
        let count = |result: Result<(), Error>| {
            asked.set(asked.get() + 1);
            result
        };
        let other = Caller { sender: Sender { place: 0x5000_0000, ..a.sender }, domain: 2, ..a.by() };
        let own = a.by();
        assert_eq!(pool.known(a.receiver, 1, 0).map(|known| known.by.sender()), None, "nobody was introduced");
        [&own, &other].into_iter().for_each(|by| pool.introduce(by));
        assert_eq!(pool.known(a.receiver, 1, own.processor).map(|known| known.by.sender()), Some(own.sender));
        let get = |text, rights, result| {
            let by = if text == 0x4000 { &own } else { &other };
            pool.permit_for(by, (1, NAME), rights, || count(result))
        };
        let first = get(0x4000, Rights::CALL, Ok(())).unwrap();
        assert_eq!((get(0x4000, Rights::CALL, Ok(())), asked.get()), (Ok(first), 1), "not asked again");
        assert_eq!(
            (get(0x5000, Rights::CALL, Err(Error::Denied)), asked.get()),
            (Err(Error::Denied), 2),
            "another text"
        );
        assert_eq!(
            (get(0x4000, Rights::READ, Err(Error::Denied)), asked.get()),
            (Err(Error::Denied), 3),
            "another right"
        );
        assert_eq!((get(0x4000, Rights::CALL, Ok(())), asked.get()), (Ok(first), 3));
        pool.changed(1, |_| Ok(()), |woken| panic!("{woken:?}"));
        assert_eq!(pool.send(&first, &a.by(), &body(1), 0), Err(Error::Changed), "revoked is gone");
        assert_eq!((get(0x4000, Rights::CALL, Err(Error::Denied)), asked.get()), (Err(Error::Denied), 4));
        let again = get(0x4000, Rights::CALL, Ok(())).unwrap();
        assert_eq!(pool.send(&again, &a.by(), &body(1), 0), Ok(None));
        pool.free(1, true, 0, |_| {}).unwrap();
        pool.get(1, SYSTEM).unwrap();
        assert_eq!(get(0x4000, Rights::CALL, Err(Error::Denied)), Err(Error::Denied), "another's post");
        get(0x4000, Rights::CALL, Ok(())).unwrap();
        let third = Caller { sender: Sender { place: 0x6000_0000, ..a.sender }, domain: 3, ..a.by() };
        pool.introduce(&third);
        assert_eq!(
            (
                pool.known(a.receiver, 1, 0).map(|known| known.by.sender()),
                pool.known(a.receiver, 3, third.processor).map(|known| known.by.sender())
            ),
            (None, Some(third.sender)),
            "in its place"
        );
        assert_eq!(
            pool.known(a.receiver, 3, 0).unwrap().permit(NAME, Rights::CALL),
            None,
            "with nothing of the other's"
        );
        // Whatever is named where none is kept, 0 as well.
        let known = pool.known(a.receiver, 3, 0).unwrap();
        for name in (0..64).map(|n| n * abi::layout::GRANULE).chain([1, NAME + 1]).flat_map(|name| [name, !name]) {
            let permits = [Rights::CALL, Rights::READ].map(|right| known.permit(name, right));
            assert_eq!(permits, [None; 2], "{name:#x}");
        }
        let of_other = pool.known(a.receiver, 2, 0).unwrap();
        for (known, post) in [known, of_other].into_iter().flat_map(|known| (0..64).map(move |post| (known, post))) {
            let permits = [Rights::CALL, Rights::READ].map(|right| known.permit_further(post, right));
            assert_eq!(permits, [None; 2], "{post}");
        }
        pool.forget_text(0x5000_0000);
        assert_eq!(pool.known(a.receiver, 2, 0).map(|known| known.by.sender()), None, "whose text has another owner");
        pool.forget_domain(a.receiver, 3);
        assert_eq!(pool.known(a.receiver, 3, 0).map(|known| known.by.sender()), None, "whose domain is gone");
    });
}

const POSTS: u32 = 200;

/// Name of this post.
fn name(post: u32) -> u64 {
    0x4000_0000_0000 + u64::from(post) * abi::layout::GRANULE
}

/// Wherever it is.
fn find(known: &Known, post: u32, right: Rights) -> Option<Permit> {
    let (at_hand, further) = (known.permit(name(post), right), known.permit_further(post, right));
    assert!(at_hand.is_none() || further.is_none(), "{post} is kept twice");
    at_hand.or(further)
}

fn pool() -> (Pool, Who) {
    let pool = Pool::new(Config { posts: POSTS, ..CONFIG });
    let a = Who::new(&pool, 100, 0);
    pool.introduce(&a.by());
    (1..=POSTS).for_each(|post| _ = pool.get(post, SYSTEM).unwrap());
    (pool, a)
}

fn ask(pool: &Pool, by: &Caller, post: u32, right: Rights) -> Permit {
    pool.permit_for(by, (post, name(post)), right, || Ok(())).unwrap()
}

/// Which of these are kept after all were asked for, one after the other.
fn kept(asked: impl Iterator<Item = (u32, Rights)> + Clone, look: impl Fn(&Known)) -> Vec<bool> {
    let (pool, a) = pool();
    let known = pool.known(a.receiver, 1, a.processor).unwrap();
    for (post, right) in asked.clone() {
        let permit = ask(&pool, &a.by(), post, right);
        assert_eq!(find(&known, post, right), Some(permit), "the last one");
    }
    look(&known);
    asked.map(|(post, right)| find(&known, post, right).is_some_and(|permit| permit.post() == post)).collect()
}

/// Who sends to sixteen and receives at one, or receives at as many as there may be and sends to some, has all permits, whatever their numbers.
#[test]
fn permits_of_many_posts_have_room() {
    alone(|| {
        for distance in [1, 2, 3, 4, 5, 8, 11] {
            for (to_send, to_receive) in [(16, 1), (8, SEVERAL_MAX as u32)] {
                let send = (0..to_send).map(|n| (1 + n * distance, Rights::CALL));
                let receive = (0..to_receive).map(|n| (200 - n * distance, Rights::READ));
                let kept = kept(send.chain(receive), |_| ());
                assert!(kept.iter().all(|is_kept| *is_kept), "{distance}, {to_send}, {to_receive}: {kept:?}");
            }
        }
    });
}

/// Calls in turn that need permits with one place find them there, once they were fetched; and nobody's is lost by that.
#[test]
fn permits_are_fetched() {
    alone(|| {
        let posts = [5, 21, 37, 53, 69];
        let rights = [Rights::CALL, Rights::READ];
        kept(rights.into_iter().flat_map(|right| posts.map(|post| (post, right))), |known| {
            for post in posts.into_iter().chain(posts).chain(posts.into_iter().rev()) {
                for right in rights {
                    let is_there = known.permit(name(post), right).is_some();
                    assert_eq!(known.fetch((post, name(post)), right), Some(!is_there), "{post}");
                    assert_eq!(known.permit(name(post), right).map(|permit| permit.post()), Some(post));
                    assert_eq!(known.fetch((post, name(post)), right), Some(false));
                    posts.iter().for_each(|post| assert!(find(known, *post, right).is_some(), "{post}"));
                }
            }
            assert_eq!(known.fetch((6, name(6)), Rights::CALL), None, "never asked for");
        });
    });
}

/// What is no longer good gives way first, is asked for again, and is then kept once.
#[test]
fn permits_that_are_good_no_more_give_way() {
    alone(|| {
        let (pool, a) = pool();
        let known = pool.known(a.receiver, 1, a.processor).unwrap();
        let posts: Vec<u32> = (1..=17).map(|n| n * 4).collect();
        let first: Vec<Permit> = posts.iter().map(|post| ask(&pool, &a.by(), *post, Rights::CALL)).collect();
        let (gone, changed) = (posts[2], posts[5]);
        pool.changed(changed, |_| Ok(()), |woken| panic!("{woken:?}"));
        pool.free(gone, true, 0, |_| {}).unwrap();
        let refused = pool.permit_for(&a.by(), (changed, name(changed)), Rights::CALL, || Err(Error::Denied));
        assert_eq!(refused, Err(Error::Denied), "asked again");
        let again = ask(&pool, &a.by(), changed, Rights::CALL);
        assert_eq!(find(&known, changed, Rights::CALL), Some(again));
        assert_ne!(again, first[5]);
        // In the room of the one that is gone.
        ask(&pool, &a.by(), 100, Rights::CALL);
        let others = posts.iter().zip(&first).filter(|(post, _)| ![gone, changed].contains(post));
        others.for_each(|(post, permit)| assert_eq!(find(&known, *post, Rights::CALL), Some(*permit), "{post}"));
        assert_eq!((find(&known, gone, Rights::CALL), find(&known, changed, Rights::CALL)), (None, Some(again)));
    });
}

/// Two texts have the room together, and neither finds the other's; what takes the stead of one begins with nothing.
#[test]
fn permits_are_of_one_text() {
    alone(|| {
        let (pool, a) = pool();
        let own = a.by();
        let other = Caller { sender: Sender { place: 0x5000_0000, ..a.sender }, domain: 2, ..own };
        let third = Caller { sender: Sender { place: 0x6000_0000, ..a.sender }, domain: 3, ..own };
        pool.introduce(&other);
        let all = |by: &Caller| {
            let known = pool.known(by.receiver, by.domain, 0).unwrap();
            (1..=POSTS).filter(|post| find(&known, *post, Rights::CALL).is_some()).collect::<Vec<u32>>()
        };
        (1..=8).for_each(|n| _ = ask(&pool, &own, n * 4, Rights::CALL));
        (1..=8).for_each(|n| _ = ask(&pool, &other, n * 4 + 1, Rights::CALL));
        let theirs: Vec<u32> = (1..=8).map(|n| n * 4 + 1).collect();
        assert_eq!((all(&own), all(&other)), ((1..=8).map(|n| n * 4).collect(), theirs.clone()));
        pool.introduce(&third);
        assert_eq!((all(&third), all(&other)), (Vec::new(), theirs));
        // The next one who has the record begins with nothing, whichever texts it comes to.
        pool.close_receiver(a.receiver, |woken| panic!("{woken:?}"));
        assert!((1..=POSTS).all(|post| [0, 1].into_iter().all(|face| {
            pool.receiver(a.receiver).further.find(post, crate::further::Which { face, needed: Rights::CALL }).is_none()
        })));
    });
}

/// Whatever was asked for in whatever order, nothing is found but what was, by its own name and for its own right.
#[test]
fn permits_are_for_what_was_asked() {
    shuttle::check_random(
        || {
            use shuttle::rand::Rng;
            let mut rng = shuttle::rand::thread_rng();
            let rights = [Rights::CALL, Rights::READ];
            let asked: Vec<(u32, Rights)> =
                (0..60).map(|_| (rng.gen_range(1..=POSTS), rights[rng.gen_range(0..2)])).collect();
            kept(asked.iter().copied(), |known| {
                for (post, right) in (1..=POSTS).flat_map(|post| rights.map(|right| (post, right))) {
                    let found = find(known, post, right).map(|permit| permit.post());
                    assert!(
                        found.is_none_or(|found| found == post && asked.contains(&(post, right))),
                        "{post} {right:?}"
                    );
                    let own = name(post);
                    for other in [!own, own | 1, own ^ 1 << 47, !own & !(abi::layout::GRANULE - 1)] {
                        assert_eq!(known.permit(other, right), None, "{other:#x} {right:?}");
                    }
                }
            });
        },
        200,
    );
}
