use super::*;
use std::collections::BTreeSet;

#[test]
fn numbers_and_names_are_those_of_linux() {
    let mut seen = BTreeSet::new();
    for row in TABLE {
        assert_eq!(name(row.number), row.name.to_lowercase(), "{}", row.number);
        assert!(seen.insert(row.number), "{} is there twice", row.name);
        assert!(row.arguments.len() <= 6);
    }
    use linux_raw_sys::general as linux;
    for (number, name) in [
        (linux::__NR_read, "READ"),
        (linux::__NR_newfstatat, "NEWFSTATAT"),
        (linux::__NR_rseq, "RSEQ"),
        (linux::__NR_clone3, "CLONE3"),
        (linux::__NR_faccessat2, "FACCESSAT2"),
    ] {
        assert_eq!(row(u64::from(number)).unwrap().name, name);
    }
}

#[test]
fn every_family_is_in_the_order_of_the_numbers() {
    for pair in TABLE.windows(2).filter(|pair| pair[0].family == pair[1].family) {
        assert!(pair[0].number < pair[1].number, "{} and {}", pair[0].name, pair[1].name);
    }
}

#[test]
fn registers_become_arguments_as_in_c() {
    assert_eq!(<i32 as Argument>::of(0xffff_ffff), -1);
    assert_eq!(<i32 as Argument>::of(0x1_0000_0003), 3, "the upper half counts for nothing");
    assert_eq!(<u32 as Argument>::of(u64::MAX), u32::MAX);
    assert_eq!(<i64 as Argument>::of(u64::MAX), -1);
}

#[test]
fn numbers_without_a_name() {
    assert_eq!(name(u64::MAX), "?");
    assert!(row(u64::MAX).is_none());
}
