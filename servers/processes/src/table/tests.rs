use super::*;
use alloc::collections::BTreeMap;
use musubi::abi::task::exit;

const SHELL: By = By { task: 10, user: 1 };
const OTHER: By = By { task: 11, user: 2 };
const SYSTEM: By = By { task: 1, user: USER_SYSTEM };

const MADE: Made = Made { name: [b'x'; NAME_LEN], user: 1, payer: 10 };

fn name() -> [u8; NAME_LEN] {
    [b'x'; NAME_LEN]
}

fn start(table: &mut Table, by: By, group: u64, task: u64) -> Result<u64, Error> {
    let ticket = table.begin(by, group, MADE)?;
    assert_eq!(table.enter(ticket, task, by.user, name(), all_live), Ok(false));
    Ok(task)
}

fn ended(task: u64, payer: u64) -> Ended {
    let exit = Exit { kind: exit::EXITED, code: task, ..Exit::default() };
    Ended { task, payer, user: 1, began: 1, exit, name: name() }
}

fn all_live(_: u64) -> bool {
    true
}

fn group_of(table: &Table, task: u64) -> u64 {
    table.get(task).unwrap().group
}

#[test]
fn an_end_is_known_until_it_is_forgotten() {
    let mut table = Table::new();
    assert_eq!(table.awaited(SHELL, whom::CHILD), Err(Error::NotFound));
    start(&mut table, SHELL, group::NEW, 20).unwrap();
    assert_eq!(table.awaited(SHELL, whom::CHILD), Ok(Found::Running));
    assert_eq!(table.awaited(SHELL, 20), Ok(Found::Running));
    assert_eq!(table.forget(SHELL, 20), Err(Error::Busy));
    assert!(table.over(&ended(20, 10), all_live));
    for whom in [whom::CHILD, 20, whom::GROUP | 20] {
        // As often as somebody asks.
        assert_eq!([table.awaited(SHELL, whom), table.awaited(SHELL, whom)], [Ok(Found::Over(20)); 2]);
    }
    assert_eq!(table.get(20).unwrap().exit.code, 20);
    assert_eq!(table.forget(OTHER, 20), Err(Error::Denied));
    assert_eq!(table.forget(SHELL, 20), Ok(()));
    assert_eq!(table.forget(SHELL, 20), Err(Error::NotFound));
    assert_eq!(table.awaited(SHELL, whom::CHILD), Err(Error::NotFound));
}

#[test]
fn who_waits_for_a_group_or_any_child() {
    let mut table = Table::new();
    start(&mut table, SHELL, group::NEW, 20).unwrap();
    start(&mut table, SHELL, 20, 21).unwrap();
    start(&mut table, SHELL, group::NEW, 30).unwrap();
    table.over(&ended(30, 10), all_live);
    assert_eq!(table.awaited(SHELL, whom::GROUP | 20), Ok(Found::Running));
    assert_eq!(table.awaited(SHELL, whom::CHILD), Ok(Found::Over(30)));
    table.over(&ended(21, 10), all_live);
    assert_eq!(table.awaited(SHELL, whom::GROUP | 20), Ok(Found::Over(21)));
    assert_eq!(table.awaited(SHELL, whom::GROUP | 99), Err(Error::NotFound));
    assert_eq!(table.awaited(OTHER, whom::CHILD), Err(Error::NotFound), "somebody else's children");
    assert_eq!(table.awaited(OTHER, 20), Err(Error::Denied), "another user's process");
    assert_eq!(table.awaited(SYSTEM, 20), Ok(Found::Running));
}

#[test]
fn a_group_is_inherited_made_and_joined() {
    let mut table = Table::new();
    start(&mut table, SHELL, group::SAME, 20).unwrap();
    assert_eq!(group_of(&table, 20), 20, "of one who is in none");
    let child = By { task: 20, user: 1 };
    start(&mut table, child, group::SAME, 21).unwrap();
    start(&mut table, child, group::NEW, 22).unwrap();
    assert_eq!((group_of(&table, 21), group_of(&table, 22)), (20, 22));
    assert_eq!(table.begin(SHELL, 99, MADE), Err(Error::NotFound));
    assert_eq!(table.begin(OTHER, 20, MADE), Err(Error::Denied));
    assert_eq!(table.join(child, 22, 20), Ok(20));
    assert_eq!(table.join(child, 20, group::NEW), Ok(20));
    assert_eq!(table.join(child, 21, group::NEW), Ok(21));
    assert_eq!(table.join(SHELL, 21, 20), Err(Error::Denied), "a grandchild");
    assert_eq!(table.join(SHELL, 99, 20), Err(Error::NotFound));
    table.over(&ended(22, 20), all_live);
    assert_eq!(table.join(child, 22, group::NEW), Err(Error::NotFound), "it has ended");
}

#[test]
fn a_group_ends_with_those_that_are_being_started_in_it() {
    let mut table = Table::new();
    start(&mut table, SHELL, group::NEW, 20).unwrap();
    start(&mut table, SHELL, 20, 21).unwrap();
    let member = By { task: 20, user: 1 };
    let ticket = table.begin(member, group::SAME, MADE).unwrap();
    assert_eq!(table.end_group(OTHER, 20), Err(Error::Denied));
    assert_eq!(table.end_group(SHELL, 99), Err(Error::NotFound));
    assert_eq!(table.end_group(member, 20), Ok(Vec::from([21, 20])), "whoever asks goes last");
    assert_eq!(table.begin(member, group::NEW, MADE), Err(Error::Killed), "the dying start nobody");
    assert_eq!(table.enter(ticket, 23, 1, name(), all_live), Ok(true));
    assert_eq!((table.take_doomed(), table.take_doomed()), (Vec::from([23]), Vec::new()));
    assert_eq!(table.begin(By { task: 23, user: 1 }, group::SAME, MADE), Err(Error::Killed));
    assert_eq!(table.begin(SHELL, 20, MADE).map(drop), Ok(()), "others do, while there is anybody");
}

/// Nobody runs in the group any more, and somebody's is being started there: it is not another user's to end.
#[test]
fn a_start_is_ended_by_its_user_only() {
    let mut table = Table::new();
    start(&mut table, SHELL, group::NEW, 20).unwrap();
    let ticket = table.begin(SHELL, 20, MADE).unwrap();
    table.end(20, Exit::default(), |_| true);
    assert_eq!(table.end_group(OTHER, 20), Err(Error::Denied));
    assert!(!table.is_doomed(ticket));
    assert_eq!(table.end_group(SHELL, 20), Ok(Vec::new()));
    assert!(table.is_doomed(ticket));
    assert_eq!(table.enter(ticket, 21, 1, name(), all_live), Ok(true));
}

/// Tasks that are there before this table hears of them, and start others themselves.
#[test]
fn who_is_brought_into_a_group_that_ends_ends() {
    let mut table = Table::new();
    start(&mut table, SHELL, group::NEW, 20).unwrap();
    let member = By { task: 20, user: 1 };
    table.adopt(21, 20, 1, name());
    assert_eq!(table.join(member, 21, group::SAME), Ok(20));
    assert_eq!(table.end_group(SHELL, 20), Ok(Vec::from([20, 21])));
    // Brought by its parent, which is being ended.
    table.adopt_in(20, 22, 20, 1, name());
    assert_eq!(table.join(member, 22, 20), Err(Error::Killed));
    assert_eq!(table.take_doomed(), Vec::from([22]));
    // It asks before its parent has brought it, and has a child, too.
    table.adopt(23, 20, 1, name());
    let unheard = By { task: 23, user: 1 };
    assert_eq!(table.join(unheard, 23, group::SAME), Err(Error::Killed));
    table.adopt(24, 23, 1, name());
    assert_eq!(table.join(unheard, 24, 20), Err(Error::Killed));
    assert_eq!(table.take_doomed(), Vec::from([23, 24]));
    // It is over at last, and nothing is kept of who has ended.
    table.adopt(30, 1, 1, name());
    for task in [20, 21, 22, 23, 24] {
        table.over(&ended(task, 20), all_live);
    }
    table.over(&ended(25, 20), all_live);
    assert!(table.killed.is_empty() && table.take_doomed().is_empty());
    assert_eq!(table.join(By { task: 30, user: 1 }, 30, group::SAME), Ok(30));
}

#[test]
fn who_is_started_by_one_that_ends_is_nobodys() {
    let mut table = Table::new();
    start(&mut table, SHELL, group::NEW, 20).unwrap();
    let parent = By { task: 20, user: 1 };
    start(&mut table, parent, group::SAME, 21).unwrap();
    start(&mut table, parent, group::SAME, 22).unwrap();
    let ticket = table.begin(parent, group::SAME, MADE).unwrap();
    table.over(&ended(22, 20), all_live);
    table.over(&ended(20, 10), all_live);
    assert_eq!(table.get(21).map(|one| (one.parent, one.group)), Some((20, 20)), "an orphan, in its group");
    assert_eq!(table.get(22), None, "nobody asks for its end");
    assert_eq!(table.enter(ticket, 23, 1, name(), all_live), Err(Error::Dead));
    let [stray] = table.take_strays()[..] else { panic!("one was being started") };
    assert_eq!((stray.parent, stray.group, stray.doomed), (20, 20, false));
    assert!(table.is_starting(20), "until it was looked for");
    table.cancel(stray.ticket);
    assert!(!table.is_starting(20));
    assert!(table.adopt_in(20, 24, 20, 1, name()) && !table.adopt_in(20, 24, 20, 1, name()));
    assert_eq!(group_of(&table, 24), 20);
    assert_eq!(table.end_group(SHELL, 20), Ok(Vec::from([21, 24])));
    assert!(table.over(&ended(21, 20), |task| task != 20));
    assert_eq!(table.get(21), None);
}

#[test]
fn what_nobody_has_told_of() {
    let mut table = Table::new();
    assert!(!table.over(&ended(5, 0), all_live), "the system's own");
    assert!(table.over(&Ended { began: 0, ..ended(6, 0) }, all_live), "what has never run is nobody's");
    assert!(table.over(&ended(20, 10), all_live));
    assert_eq!(table.awaited(SHELL, 20), Ok(Found::Over(20)), "it is whose quota it used");
    assert!(table.over(&ended(21, 9), |task| task != 9));
    assert_eq!(table.get(21), None);
}

/// The loader has ended in the middle of a start, and has left a program.
#[test]
fn what_the_loader_has_left_is_looked_for() {
    let mut table = Table::new();
    let ticket = table.begin(SHELL, group::NEW, MADE).unwrap();
    let stray = table.stray(ticket).unwrap();
    let others = [Made { payer: 0, ..MADE }, Made { user: 2, ..MADE }, Made { name: [b'y'; NAME_LEN], ..MADE }];
    assert!(!others.iter().any(|made| table.is_left_by(&stray, 20, *made)), "of another start");
    assert!(!table.is_left_by(&stray, 10, MADE), "it was there before");
    assert!(table.is_left_by(&stray, 20, MADE));
    table.take_in(&stray, 20);
    assert!(!table.is_left_by(&stray, 20, MADE), "nobody's else");
    assert_eq!((table.get(20).map(|one| (one.parent, one.group)), table.take_doomed().len()), (Some((10, 20)), 0));
    table.cancel(ticket);
    assert_eq!((table.stray(ticket), table.awaited(SHELL, whom::CHILD)), (None, Ok(Found::Running)));
    // Whose parent has ended is looked for by who hears of that.
    let ticket = table.begin(SHELL, group::SAME, MADE).unwrap();
    table.over(&ended(10, 1), all_live);
    assert_eq!((table.stray(ticket), table.take_strays().len()), (None, 1));
}

/// Of what the system has started for itself nobody else hears, so that its end would stay with the kernel.
#[test]
fn what_the_loader_has_left_of_the_systems() {
    let mut table = Table::new();
    let made = Made { user: USER_SYSTEM, payer: 0, ..MADE };
    let ticket = table.begin(SYSTEM, group::NEW, made).unwrap();
    assert!(!table.over(&ended(20, 0), all_live));
    let stray = table.stray(ticket).unwrap();
    assert!(table.is_left_by(&stray, 20, made));
    table.take_in(&stray, 20);
    assert!(table.over(&ended(20, 0), all_live));
}

#[test]
fn what_is_left_of_a_group_that_has_ended_ends() {
    let mut table = Table::new();
    start(&mut table, SHELL, group::NEW, 20).unwrap();
    let ticket = table.begin(SHELL, 20, MADE).unwrap();
    let stray = table.stray(ticket).unwrap();
    table.end_group(SHELL, 20).unwrap();
    table.take_in(&stray, 21);
    assert_eq!((group_of(&table, 21), table.take_doomed()), (20, Vec::from([21])));
}

#[test]
fn an_end_before_its_start_is_known() {
    let mut table = Table::new();
    start(&mut table, SHELL, group::NEW, 20).unwrap();
    let ticket = table.begin(By { task: 20, user: 1 }, group::SAME, MADE).unwrap();
    table.over(&ended(30, 20), all_live);
    assert!(table.is_starting(20) && !table.is_starting(10));
    assert_eq!(table.enter(ticket, 30, 1, name(), all_live), Ok(false));
    assert!(!table.is_starting(20));
    let one = table.get(30).unwrap();
    assert_eq!((one.parent, one.group, one.over != 0, one.exit.code), (20, 20, true, 30));
}

/// Whoever waits for any child while another thread of the same program starts one.
#[test]
fn who_was_told_of_before_his_start_is_known_does_not_begin_once_more() {
    let gone = |_: u64| false;
    let mut table = Table::new();
    let ticket = table.begin(SHELL, group::SAME, MADE).unwrap();
    assert!(table.over(&ended(20, 10), all_live));
    assert_eq!(table.awaited(SHELL, whom::CHILD), Ok(Found::Over(20)));
    assert_eq!(table.forget(SHELL, 20), Ok(()));
    assert_eq!(table.enter(ticket, 20, 1, name(), gone), Ok(false));
    assert_eq!((table.get(20), table.is_starting(10)), (None, false), "nor is it being started");
    for whom in [whom::CHILD, 20, whom::GROUP | 20] {
        assert_eq!(table.awaited(SHELL, whom), Err(Error::NotFound));
    }
    // Nor is it to be ended with its group, or for its parent.
    start(&mut table, SHELL, group::NEW, 30).unwrap();
    let ticket = table.begin(SHELL, 30, MADE).unwrap();
    table.end_group(SHELL, 30).unwrap();
    assert_eq!(table.enter(ticket, 31, 1, name(), gone), Ok(false));
    assert_eq!(table.take_doomed(), Vec::new());
    // Others' ends have taken its place.
    let ticket = table.begin(SHELL, group::SAME, MADE).unwrap();
    for task in 40..=40 + ENDED_MAX as u64 {
        table.over(&ended(task, 10), all_live);
    }
    assert_eq!(table.enter(ticket, 40, 1, name(), gone), Ok(false));
    assert_eq!(table.get(40), None);
    // It has ended, and nobody has heard of it yet.
    let ticket = table.begin(SHELL, group::SAME, MADE).unwrap();
    assert_eq!(table.enter(ticket, 200, 1, name(), all_live), Ok(false));
    assert_eq!(table.awaited(SHELL, 200), Ok(Found::Running));
    table.over(&ended(200, 10), all_live);
    assert_eq!(table.awaited(SHELL, 200), Ok(Found::Over(200)));
}

#[test]
fn ends_do_not_gather() {
    let mut table = Table::new();
    for task in 100..100 + 10 * ENDED_MAX as u64 {
        table.over(&ended(task, 10), all_live);
    }
    assert_eq!(table.all.all().count(), ENDED_MAX);
    assert!(
        table.all.all().map(|one| one.task).all(|task| task >= 100 + 9 * ENDED_MAX as u64),
        "the last ones are kept"
    );
    // The one with the lowest number has ended last: it is the oldest end that goes.
    start(&mut table, SHELL, group::NEW, 20).unwrap();
    table.over(&ended(20, 10), all_live);
    assert_eq!(table.awaited(SHELL, 20), Ok(Found::Over(20)));
    assert_eq!(table.awaited(SHELL, 100 + 9 * ENDED_MAX as u64), Err(Error::NotFound), "the first of the others");
    assert_eq!(
        table.awaited(SHELL, whom::CHILD),
        Ok(Found::Over(101 + 9 * ENDED_MAX as u64)),
        "the first to have ended"
    );
    // So it is for the next server, too.
    let mut next = Table::new();
    table.all.all().for_each(|one| next.restore(*one));
    start(&mut next, SHELL, group::NEW, 21).unwrap();
    next.over(&ended(21, 10), all_live);
    assert_eq!(next.awaited(SHELL, 20), Ok(Found::Over(20)));
    assert_eq!(next.awaited(SHELL, 101 + 9 * ENDED_MAX as u64), Err(Error::NotFound));
    // An end that is heard of twice is the same one.
    let seen = *table.get(20).unwrap();
    table.over(&ended(20, 10), all_live);
    assert_eq!(table.get(20), Some(&seen));
    // Each of another parent that goes unseen.
    for task in 1000..3000 {
        table.over(&ended(task, task + 100_000), |parent| parent >= task + 100_000);
    }
    let others = table.all.all().filter(|one| one.task >= 1000).count();
    assert!(others <= 2 * FEW + ENDED_MAX, "{others}");
}

#[test]
fn limits_are_for_those_it_descends_from() {
    let mut table = Table::new();
    start(&mut table, SHELL, group::NEW, 20).unwrap();
    let child = By { task: 20, user: 1 };
    start(&mut table, child, group::SAME, 21).unwrap();
    assert_eq!(table.may_limit(SHELL, 20), Ok(()));
    assert_eq!(table.may_limit(SHELL, 21), Ok(()));
    assert_eq!(table.may_limit(child, 21), Ok(()));
    assert_eq!(table.may_limit(child, 20), Err(Error::Denied), "one's own");
    assert_eq!(table.may_limit(By { task: 21, user: 1 }, 20), Err(Error::Denied));
    assert_eq!(table.may_limit(OTHER, 20), Err(Error::Denied));
    assert_eq!(table.may_limit(SYSTEM, 21), Ok(()));
    assert_eq!(table.may_limit(SHELL, 99), Err(Error::NotFound));
}

/// What is written down, read back, is the same table.
#[test]
fn what_has_changed_is_the_whole_table() {
    let (mut table, mut book) = (Table::new(), BTreeMap::new());
    let mut seed = 7u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % below
    };
    for task in 20..500 {
        let by = By { task: 10 + random(task - 10), user: 1 };
        let group = [group::SAME, group::NEW, 20 + random(task - 10)][random(3) as usize];
        let _ = start(&mut table, by, group, task);
        let end = 20 + random(task - 10);
        table.over(&ended(end, 10), |parent| !parent.is_multiple_of(7));
        let _ = table.forget(by, 20 + random(task - 10));
        let _ = table.join(by, 20 + random(task - 10), group::NEW);
        // Now and then there is no room: it is written down when there is.
        let room = [usize::MAX, 3, 0][random(3) as usize];
        let outcome = write_down(&mut table, &mut book, room);
        assert!(outcome == Err(Error::Quota) || book == known(&table));
    }
    assert_eq!(write_down(&mut table, &mut book, usize::MAX), Ok(()));
    assert_eq!(book, known(&table));
    assert!(!book.is_empty());
}

/// Into a book that has room for so many more.
fn known(table: &Table) -> BTreeMap<u64, ProcessInfo> {
    table.all.all().map(|one| (one.task, *one)).collect()
}

fn write_down(table: &mut Table, book: &mut BTreeMap<u64, ProcessInfo>, room: usize) -> Result<(), Error> {
    let most = book.len().saturating_add(room);
    loop {
        let Some((task, info)) = table.unwritten().next().map(|(task, info)| (task, info.copied())) else {
            return Ok(());
        };
        match info {
            Some(_) if book.len() >= most && !book.contains_key(&task) => return Err(Error::Quota),
            Some(info) => drop(book.insert(task, info)),
            None => drop(book.remove(&task)),
        }
        table.is_written(task, info.as_ref());
    }
}

/// What has gone makes room for what has come in the same step.
#[test]
fn what_is_not_needed_goes_first() {
    let (mut table, mut book) = (Table::new(), BTreeMap::new());
    start(&mut table, SHELL, group::NEW, 20).unwrap();
    write_down(&mut table, &mut book, 1).unwrap();
    table.over(&ended(20, 10), all_live);
    table.forget(SHELL, 20).unwrap();
    start(&mut table, SHELL, group::NEW, 15).unwrap();
    assert_eq!(write_down(&mut table, &mut book, 0), Ok(()));
    assert_eq!(book, known(&table));
}

/// Threads of one that are killed while they start somebody never say what became of it.
#[test]
fn starts_that_nobody_ends_do_not_gather() {
    let mut table = Table::new();
    let other = table.begin(OTHER, group::NEW, MADE).unwrap();
    let all: Vec<u64> = (0..10 * STARTS_MAX).map(|_| table.begin(SHELL, group::NEW, MADE).unwrap()).collect();
    assert_eq!(table.starts.len(), STARTS_MAX + 1);
    let (first, last) = (all[0], all[all.len() - 1]);
    assert_eq!(table.enter(first, 20, SHELL.user, name(), all_live), Err(Error::Dead), "the oldest made room");
    assert_eq!(table.enter(last, 21, SHELL.user, name(), all_live), Ok(false));
    assert_eq!(
        table.enter(other, 22, OTHER.user, name(), all_live),
        Ok(false),
        "another one's has nothing to do with it"
    );
}
