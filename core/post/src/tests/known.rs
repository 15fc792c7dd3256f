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
            let permits = [Rights::CALL, Rights::READ].map(|right| known.permit_anywhere(name, right));
            assert_eq!(permits, [None; 2], "{name:#x}");
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

/// Which of these are at hand after all were asked for, one after the other.
fn kept(asked: impl Iterator<Item = (u32, Rights)> + Clone, look: impl Fn(&Known)) -> Vec<bool> {
    let pool = Pool::new(Config { posts: POSTS, ..CONFIG });
    let a = Who::new(&pool, 100, 0);
    pool.introduce(&a.by());
    (1..=POSTS).for_each(|post| _ = pool.get(post, SYSTEM).unwrap());
    for (post, right) in asked.clone() {
        let permit = pool.permit_for(&a.by(), (post, name(post)), right, || Ok(())).unwrap();
        let known = pool.known(a.receiver, 1, a.processor).unwrap();
        assert_eq!(known.permit_anywhere(name(post), right), Some(permit), "the last one");
    }
    let known = pool.known(a.receiver, 1, a.processor).unwrap();
    look(&known);
    asked
        .map(|(post, right)| known.permit_anywhere(name(post), right).is_some_and(|permit| permit.post() == post))
        .collect()
}

/// Who sends to sixteen has all permits at hand, whatever the distance of their posts if that is odd; and so has who sends to a few that are
/// just so far apart that they would have one place.
#[test]
fn permits_to_send_to_many_have_room() {
    alone(|| {
        let odd = [1, 3, 5, 7, 9, 11].map(|distance| (0..16).map(|n| 1 + n * distance).collect::<Vec<u32>>());
        for posts in
            odd.into_iter().chain([[5, 21].into(), [5, 21, 37, 53, 69, 85].into(), [7, 7 + 64, 7 + 128].into()])
        {
            let kept = kept(posts.iter().map(|post| (*post, Rights::CALL)), |_| ());
            assert!(kept.iter().all(|is_kept| *is_kept), "{posts:?}: {kept:?}");
        }
    });
}

/// And who waits at as many as there may be, or at a few with one place.
#[test]
fn permits_of_several_posts_have_room() {
    alone(|| {
        for posts in [(60..60 + SEVERAL_MAX as u32).collect(), Vec::from([3, 11, 19, 27, 35, 43]), [1, 17].into()] {
            let kept = kept(posts.iter().map(|post| (*post, Rights::READ)), |_| ());
            assert!(kept.iter().all(|is_kept| *is_kept), "{posts:?}: {kept:?}");
        }
    });
}

/// Two calls in turn that need permits with one place find them there, once they were put back; and nobody's is lost by that.
#[test]
fn permits_are_put_back_into_their_place() {
    alone(|| {
        let posts = [5, 21, 37, 53, 69];
        kept(posts.iter().map(|post| (*post, Rights::CALL)), |known| {
            for post in posts.into_iter().chain(posts).chain(posts.into_iter().rev()) {
                let name = name(post);
                let is_there = known.permit(name, Rights::CALL).is_some();
                assert_eq!(known.put_back(name, Rights::CALL), Some(!is_there), "{post}");
                assert_eq!(known.permit(name, Rights::CALL).map(|permit| permit.post()), Some(post));
                assert_eq!(
                    (known.put_back(name, Rights::CALL), known.put_back(name, Rights::READ)),
                    (Some(false), None)
                );
            }
        });
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
                for post in 1..=POSTS {
                    for (own, right) in [(name(post), Rights::CALL), (name(post), Rights::READ)] {
                        let found = known.permit_anywhere(own, right).map(|permit| permit.post());
                        assert!(
                            found.is_none_or(|found| found == post && asked.contains(&(post, right))),
                            "{own:#x} {right:?}"
                        );
                        for other in [!own, own | 1, own ^ 1 << 47, !own & !(abi::layout::GRANULE - 1)] {
                            assert_eq!(known.permit_anywhere(other, right), None, "{other:#x} {right:?}");
                        }
                    }
                }
            });
        },
        200,
    );
}
