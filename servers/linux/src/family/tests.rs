use super::{Family, Which};
use crate::answer::{End, Errno, errno};

const NONE: Result<Option<(u64, End)>, Errno> = Err(Errno(errno::ECHILD));

fn three() -> Family {
    let mut family = Family::default();
    family.enter(1);
    family.born(1, 2);
    family.born(1, 3);
    family
}

#[test]
fn an_end_is_told_once_and_to_the_parent() {
    let mut family = three();
    assert_eq!(family.take(1, Which::Any), Ok(None));
    assert_eq!(family.take(2, Which::Any), NONE);
    assert_eq!(family.end(3, End::Exit(7), |_| true), Some(1));
    assert_eq!(family.end(3, End::Signal(9), |_| true), None, "it ends once");
    assert_eq!(family.take(1, Which::One(2)), Ok(None));
    assert_eq!(family.take(1, Which::Any), Ok(Some((3, End::Exit(7)))));
    assert_eq!(family.take(1, Which::One(3)), NONE);
    assert_eq!(family.end(2, End::Signal(9), |_| false), Some(1), "who does not want to know");
    family.born(1, 4);
    family.kill(4, End::Signal(15));
    family.kill(4, End::Signal(2));
    assert_eq!(family.end(4, End::Signal(9), |_| true), Some(1));
    assert_eq!(family.take(1, Which::Any), Ok(Some((4, End::Signal(15)))), "why it was ended");
    assert_eq!(family.take(1, Which::Any), NONE);
}

#[test]
fn who_has_lost_his_parent_is_nobodys() {
    let mut family = three();
    family.born(2, 4);
    family.born(2, 5);
    assert_eq!(family.end(5, End::Exit(0), |_| true), Some(2));
    assert_eq!(family.end(2, End::Exit(0), |_| true), Some(1));
    assert_eq!((family.parent(4), family.parent(2), family.parent(1)), (None, Some(1), None));
    assert_eq!(family.group(5), Err(Errno(errno::ESRCH)), "it went with its parent");
    assert_eq!(family.end(4, End::Exit(0), |_| true), None);
    assert_eq!(family.take(2, Which::Any), NONE);
}

#[test]
fn groups_and_sessions() {
    let mut family = three();
    assert_eq!((family.group(3), family.session(3)), (Ok(1), Ok(1)));
    assert_eq!(family.set_group(1, 2, 2), Ok(()));
    assert_eq!(family.set_group(1, 3, 2), Ok(()));
    assert_eq!(family.in_group(2), [2, 3]);
    assert_eq!(family.end(2, End::Exit(0), |_| true), Some(1));
    assert_eq!((family.in_group(2), family.take(1, Which::Group(1))), (vec![3], NONE));
    assert_eq!(family.take(1, Which::Group(2)), Ok(Some((2, End::Exit(0)))));
    assert_eq!(family.set_group(1, 3, 99), Err(Errno(errno::EPERM)), "a group that is not there");
    assert_eq!(family.set_group(3, 1, 1), Err(Errno(errno::ESRCH)), "not one's own child");
    assert_eq!(family.set_group(1, 1, 1), Ok(()), "where it is already");
    assert_eq!(family.set_session(1), Err(Errno(errno::EPERM)));
    assert_eq!(family.set_session(3), Ok(()));
    assert_eq!((family.group(3), family.session(3), family.parent(3)), (Ok(3), Ok(3), Some(1)));
    assert_eq!(family.set_group(1, 3, 1), Err(Errno(errno::EPERM)), "it leads a session");
    family.enter(10);
    family.born(10, 11);
    assert_eq!(family.set_group(11, 11, 1), Err(Errno(errno::EPERM)), "a group of another session");
}
