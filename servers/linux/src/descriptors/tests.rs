use super::*;

fn null() -> Arc<Description> {
    Description::new(Object::Device(Device::Null), b"/dev/null", 1, 0)
}

fn table(count: i32) -> Descriptors {
    let mut table = Descriptors::default();
    (0..count).for_each(|n| assert_eq!(table.add(null(), 0, OnExec::Keep), Ok(n)));
    table
}

#[test]
fn the_lowest_free_number_is_taken() {
    let mut table = table(5);
    table.close(1).unwrap();
    table.close(3).unwrap();
    assert_eq!(table.add(null(), 0, OnExec::Keep), Ok(1));
    assert_eq!(table.add(null(), 2, OnExec::Keep), Ok(3));
    assert_eq!(table.add(null(), 10, OnExec::Keep), Ok(10));
    assert_eq!(table.add(null(), 10, OnExec::Keep), Ok(11));
    assert_eq!(table.add(null(), 0, OnExec::Keep), Ok(5));
}

#[test]
fn numbers_that_are_not_open() {
    let mut table = table(2);
    for number in [-1, 2, 5000, i32::MAX, i32::MIN] {
        assert_eq!(table.get(number).err(), Some(Errno(errno::EBADF)));
        assert_eq!(table.close(number).err(), Some(Errno(errno::EBADF)));
        assert_eq!(table.set_on_exec(number, OnExec::Close), Err(Errno(errno::EBADF)));
        assert_eq!(table.replace(number, 0, OnExec::Keep).err(), Some(Errno(errno::EBADF)));
    }
    assert!(table.close(1).is_ok());
    assert_eq!(table.close(1).err(), Some(Errno(errno::EBADF)));
    assert_eq!(table.replace(0, -1, OnExec::Keep).err(), Some(Errno(errno::EBADF)));
    assert_eq!(table.replace(0, 1024, OnExec::Keep).err(), Some(Errno(errno::EBADF)));
    assert_eq!(table.add(null(), -1, OnExec::Keep), Err(Errno(errno::EINVAL)));
    assert_eq!(table.add(null(), 1024, OnExec::Keep), Err(Errno(errno::EINVAL)));
}

#[test]
fn there_is_a_limit() {
    let mut table = table(DESCRIPTORS_MAX as i32);
    assert_eq!(table.add(null(), 0, OnExec::Keep), Err(Errno(errno::EMFILE)));
    table.close(7).unwrap();
    table.set_limit(7);
    assert_eq!(table.add(null(), 0, OnExec::Keep), Err(Errno(errno::EMFILE)));
    table.set_limit(8);
    assert_eq!(table.add(null(), 0, OnExec::Keep), Ok(7));
    table.set_limit(usize::MAX);
    assert_eq!(table.limit(), DESCRIPTORS_MAX);
}

#[test]
fn doubled_descriptors_share_and_some_close_on_exec() {
    let mut table = table(2);
    table.replace(0, 9, OnExec::Close).unwrap();
    assert!(Arc::ptr_eq(table.get(0).unwrap(), table.get(9).unwrap()));
    *table.get(0).unwrap().position.lock() = 5;
    assert_eq!(*table.get(9).unwrap().position.lock(), 5);
    assert_eq!(table.on_exec(9), Ok(OnExec::Close));
    table.set_on_exec(1, OnExec::Close).unwrap();
    table.exec();
    assert!(table.get(0).is_ok() && table.get(1).is_err() && table.get(9).is_err());
}
