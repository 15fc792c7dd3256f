//! Who has been introduced, and what is known of the lists of posts.

use super::one::world;
use super::*;
use crate::By;

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
            pool.permit_for(by, (1, NAME), (rights, false), || count(result))
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
        for name in (0..32).map(|n| n * abi::layout::GRANULE).chain([1, NAME + 1]).flat_map(|name| [name, !name]) {
            let permits = [Rights::CALL, Rights::READ].map(|right| known.permit(name, right));
            assert_eq!((permits, known.permit_among(name)), ([None; 2], None), "{name:#x}");
        }
        pool.forget_text(0x5000_0000);
        assert_eq!(pool.known(a.receiver, 2, 0).map(|known| known.by.sender()), None, "whose text has another owner");
        pool.forget_domain(a.receiver, 3);
        assert_eq!(pool.known(a.receiver, 3, 0).map(|known| known.by.sender()), None, "whose domain is gone");
    });
}

/// Who waits at as many posts as there may be has all permits at hand, and names of theirs are good for nothing else.
#[test]
fn permits_of_several_posts_have_room() {
    const SEVERAL: u32 = 4 + 2;
    alone(|| {
        let (pool, a, _) = world();
        pool.introduce(&a.by());
        let name = |post: u32| 0x4000_0000_0000 + u64::from(post) * abi::layout::GRANULE;
        for post in 1..=SEVERAL {
            pool.get(post, SYSTEM).unwrap();
        }
        let ask = |post, among| pool.permit_for(&a.by(), (post, name(post)), (Rights::READ, among), || Ok(())).unwrap();
        let permits: Vec<Permit> = (1..=SEVERAL).map(|post| ask(post, true)).collect();
        let known = pool.known(a.receiver, 1, a.processor).unwrap();
        let at_hand = || (1..=SEVERAL).map(|post| known.permit_among(name(post))).collect::<Option<Vec<Permit>>>();
        assert_eq!(at_hand().as_ref(), Some(&permits));
        for name in (1..=SEVERAL).map(name).flat_map(|name| [name, !name, name | 1]) {
            assert_eq!(known.permit(name, Rights::CALL), None, "to send: {name:#x}");
            assert!(known.permit_among(name).is_none_or(|permit| permits.contains(&permit)), "{name:#x}");
        }
        // A sender's takes the place of one of them, which is asked for again.
        let to = pool.permit_for(&a.by(), (1, name(1)), (Rights::CALL, false), || Ok(())).unwrap();
        assert_eq!((known.permit(name(1), Rights::CALL), known.permit_among(name(1))), (Some(to), None));
        assert_eq!((ask(1, true), at_hand()), (permits[0], Some(permits)));
    });
}
