use super::*;
use abi::Error;

const IDENTITY: u32 = 5;
const TEXT: u64 = 0x1000;
const KNOWS: Result<[u64; 2], Error> = Ok([7, 8]);

fn with_server() -> Inside {
    let servers = [Server::new(Post(1), IDENTITY, TEXT, 0)].into();
    Inside { servers, ..Inside::default() }
}

/// Sends a request with the next tag.
fn sent(inside: &mut Inside) -> u32 {
    let tag = inside.requests.len() as u32;
    inside.requests.push(Request::new(request::head(IDENTITY, tag, 3), 0, inside.servers[0].watches, 0));
    inside.servers[0].under_way += 1;
    tag
}

fn message(head: u32, [a, b, c]: [u64; 3]) -> Message {
    let words = [a, b, c, 0, 0, 0];
    Message { op: head, words, lend: 0, post: 0, back: 0, thread: 0, task: 9, user: 0, text: TEXT, node: 0 }
}

fn answered(inside: &mut Inside, tag: u32) {
    inside.came(&message(inside.requests[tag as usize].head, [0, 7, 8]));
}

/// The server was asked for a request, and says whether it knows of it.
fn told(inside: &mut Inside, tag: u32, known: u64) {
    let about = inside.requests[tag as usize].head.into();
    inside.came(&message(request::head(IDENTITY, request::WATCH, 0), [0, about, known]));
}

#[test]
fn an_answer_ends_a_request_and_frees_its_tag() {
    let mut inside = with_server();
    let tag = sent(&mut inside);
    assert_eq!(inside.take(tag), None);
    answered(&mut inside, tag);
    assert_eq!(inside.take(tag), Some(Came::Answer(KNOWS, 9)));
    assert_eq!((inside.servers[0].under_way, inside.free.len(), inside.strangers), (0, 1, 0));
    answered(&mut inside, tag);
    assert_eq!(inside.strangers, 1, "nobody has asked for that");
}

#[test]
fn who_does_not_know_of_it_is_believed_the_third_time() {
    let mut inside = with_server();
    let tag = sent(&mut inside);
    for _ in 1..DOUBTS {
        assert!(inside.was_quiet(TURN_NS));
        told(&mut inside, tag, 0);
        assert_eq!(inside.patience_ns(), PATIENCE_NS, "it has time to find it");
        told(&mut inside, tag, request::KNOWN);
        assert_eq!(inside.take(tag), None);
    }
    told(&mut inside, tag, 0);
    assert_eq!(inside.take(tag), Some(Came::Lost));
    assert_eq!(inside.free.len(), 1);
}

/// Nobody receives it now: its sender is told so. When somebody does after all, the answer is not another request's.
#[test]
fn the_answer_to_what_lay_there_is_nobodys() {
    for is_forgotten in [false, true] {
        let mut inside = with_server();
        let (tag, other) = (sent(&mut inside), sent(&mut inside));
        answered(&mut inside, other);
        if is_forgotten {
            inside.forget(tag);
        }
        inside.lost(0, true);
        assert_eq!(inside.take(tag), (!is_forgotten).then_some(Came::Lost));
        assert_eq!(inside.take(other), Some(Came::Answer(KNOWS, 9)), "that had come before");
        assert_eq!((inside.servers[0].under_way, inside.free.len()), (0, 1), "the tag of what was lost is not free");
        told(&mut inside, tag, 0);
        assert_eq!(inside.free.len(), 1, "that it is not here yet says nothing");
        answered(&mut inside, tag);
        assert_eq!((inside.servers[0].under_way, inside.free.len(), inside.strangers), (0, 2, 0));
        assert_eq!(inside.take(tag), None);
    }
}

#[test]
fn what_was_received_by_one_who_ended_is_lost_for_good() {
    let mut inside = with_server();
    let tag = sent(&mut inside);
    inside.lost(0, false);
    assert_eq!(inside.take(tag), Some(Came::Lost));
    assert_eq!(inside.free.len(), 1);
}

#[test]
fn who_waits_for_long_looks_less_often_until_an_answer_comes() {
    let mut inside = with_server();
    let (tag, other) = (sent(&mut inside), sent(&mut inside));
    assert_eq!(inside.patience_ns(), PATIENCE_NS);
    assert!(!inside.was_quiet(PATIENCE_NS / 2), "a short wait");
    assert_eq!(inside.patience_ns(), PATIENCE_NS / 2, "and another one");
    let mut all = PATIENCE_NS / 2;
    while inside.look_ns() < LOOK_NS {
        let ns = inside.look_ns();
        assert!(ns >= TURN_NS && inside.was_quiet(ns));
        all += ns;
        told(&mut inside, tag, request::KNOWN);
    }
    assert!(all < 2 * LOOK_NS, "{all}");
    assert!(inside.was_quiet(u64::MAX));
    assert_eq!((inside.patience_ns(), inside.look_ns()), (0, LOOK_NS));
    answered(&mut inside, other);
    assert_eq!((inside.patience_ns(), inside.look_ns()), (PATIENCE_NS, TURN_NS));
}

const LOAN: u64 = abi::post::QUESTION | abi::post::LOAN | 77;

/// Sends one that lends something.
fn lent(inside: &mut Inside) -> u32 {
    let tag = sent(inside);
    inside.requests[tag as usize].loan = LOAN;
    tag
}

/// The kernel says that of this loan and no other.
#[test]
fn what_was_lent_and_lost_is_heard_of_once() {
    let mut inside = with_server();
    let (tag, other) = (lent(&mut inside), sent(&mut inside));
    assert_eq!(inside.next(), (Some(other as usize), false), "nobody has to be asked for it");
    let head = inside.requests[tag as usize].head;
    let lost = Message { back: LOAN, text: 0, task: 0, ..message(head, [Error::Dead.word(), 0, 0]) };
    inside.came(&Message { back: LOAN + 1, ..lost });
    inside.came(&Message { op: inside.requests[other as usize].head, ..lost });
    assert_eq!((inside.take(tag), inside.servers[0].under_way), (None, 2));
    inside.came(&lost);
    assert_eq!(inside.take(tag), Some(Came::Lost));
    inside.came(&lost);
    assert_eq!((inside.servers[0].under_way, inside.free.len()), (1, 1));
    // And one that was taken back is nobody's.
    let tag = lent(&mut inside);
    inside.cancelled(tag);
    assert_eq!((inside.servers[0].under_way, inside.free.len()), (1, 2));
}

/// A server that keeps what it was lent, and says that it has answered, or knows nothing of that.
#[test]
fn a_request_that_lends_ends_with_its_loan() {
    let mut inside = with_server();
    let tag = lent(&mut inside);
    let answer = message(inside.requests[tag as usize].head, [0, 7, 8]);
    for back in [0, 0x2000, LOAN + 1] {
        inside.came(&Message { back, ..answer });
    }
    (0..2 * DOUBTS).for_each(|_| told(&mut inside, tag, 0));
    assert_eq!((inside.take(tag), inside.servers[0].under_way, inside.strangers), (None, 1, 3));
    inside.came(&Message { back: LOAN, ..answer });
    assert_eq!(inside.take(tag), Some(Came::Answer(KNOWS, 9)));
    assert_eq!((inside.servers[0].under_way, inside.free.len()), (0, 1));
}

#[test]
fn what_is_taken_back_after_its_end_ends_nothing_else() {
    let mut inside = with_server();
    let (tag, _) = (lent(&mut inside), sent(&mut inside));
    inside.came(&Message { back: LOAN, ..message(inside.requests[tag as usize].head, [0, 7, 8]) });
    inside.cancelled(tag);
    assert_eq!((inside.servers[0].under_way, inside.free.len(), inside.take(tag)), (1, 1, None));
}
