//! What programs read of the keys.

use super::cache::Program;
use super::*;

#[test]
fn each_key_is_told() {
    let mut program = Program::bound_to(CLASS_KEYS as u64 + 1);
    let told = |program: &Program| program.keys.told();
    assert!(told(&program).iter().all(|key| key.entries == 0));
    (0..CLASS_KEYS).for_each(|server| assert!(!program.call(server) && program.call(server)));
    let now = told(&program);
    assert!(now.iter().zip(1..).all(|(key, text)| (key.text, key.entries, key.uses) == (text, 1, 0)));
    // Nobody uses the others any more: the last of the servers gets a key, and uses are known as of then.
    while !program.call(CLASS_KEYS) {}
    let now = told(&program);
    let lost = (0..CLASS_KEYS).find(|server| !program.has_key(*server)).unwrap();
    assert_eq!(now[lost].text, CLASS_KEYS as u64 + 1);
    assert!(now.iter().enumerate().all(|(server, key)| server == lost || (key.uses, key.heat > 0) == (1, true)));
    let shared =
        class(&[entry(principal::ANY, 0, ANY_TEXT, Rights::WRITE), entry(principal::ANY, 0, 77, Rights::READ)]);
    let mut keys = Keys::new();
    let _ = keys.find(&shared);
    assert_eq!((keys.told()[0].text, keys.told()[0].entries), (77, 2));
}
