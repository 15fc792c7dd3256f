use super::*;
use crate::arrows::check;

/// A tree where crate `user` uses crate `used`, in the given table of its manifest.
fn uses(user: &str, used: &str, table: &str) -> Tree {
    let up = "../".repeat(user.split('/').count());
    let tail = format!("[{table}]\n{} = {{ path = \"{up}{used}\" }}\n", used.replace('/', "-"));
    Tree::new().member(used, "").member(user, &tail)
}

#[test]
fn arrows_that_point_down_are_fine() {
    for (user, used) in [
        ("core/acl", "abi"),
        ("core/acl", "core/space"),
        ("kernel/arch", "core/paging"),
        ("kernel", "kernel/arch"),
        ("kernel", "core/acl"),
        ("sdk/rt", "abi"),
        ("sdk/rt", "sdk/derive"),
        ("interfaces", "sdk/derive"),
        ("sdk/musubi", "interfaces"),
        ("servers/loader", "sdk/musubi"),
        ("servers/loader", "core/elf"),
        ("servers/loader", "sdk/instance"),
        ("sdk/instance", "core/elf"),
        ("apps/bench", "interfaces"),
        ("host/cli", "core/elf"),
        ("host/cli", "host/image"),
        ("tests/stages", "host/cli"),
        ("tests/guest", "sdk/musubi"),
        ("tests/guest", "tests/protocol"),
    ] {
        none(check(uses(user, used, "dependencies").root()));
    }
}

#[test]
fn arrows_that_point_up_are_found() {
    for (user, used) in [
        ("abi", "core/acl"),
        ("core/sync", "abi"),
        ("core/space", "core/acl"),
        ("core/acl", "kernel/arch"),
        ("kernel/arch", "core/store"),
        ("kernel/arch", "kernel"),
        ("kernel", "host/cli"),
        ("sdk/rt", "interfaces"),
        ("sdk/rt", "core/acl"),
        ("interfaces", "sdk/musubi"),
        ("servers/loader", "kernel/arch"),
        ("servers/loader", "servers/store"),
        ("servers/files", "sdk/instance"),
        ("sdk/musubi", "sdk/instance"),
        ("sdk/instance", "core/store"),
        ("servers/loader", "core/store"),
        ("apps/bench", "servers/store"),
        ("apps/bench", "core/acl"),
        ("host/cli", "kernel"),
        ("host/cli", "servers/store"),
        ("tests/stages", "kernel/arch"),
        ("tests/stages", "sdk/musubi"),
        ("tests/guest", "kernel/arch"),
    ] {
        let problem = only(check(uses(user, used, "dependencies").root()));
        assert!(problem.contains(&format!("{user} may not use {used}: ")), "{problem}");
    }
}

#[test]
fn build_scripts_are_held_to_the_same() {
    assert!(only(check(uses("core/acl", "host/cli", "build-dependencies").root())).contains("may not use"));
}

#[test]
fn tests_may_use_a_little_more() {
    none(check(uses("core/acl", "tests/ops", "dev-dependencies").root()));
    none(check(uses("sdk/derive", "sdk/musubi", "dev-dependencies").root()));
    assert!(only(check(uses("core/acl", "tests/ops", "dependencies").root())).contains("may not use"));
    assert!(only(check(uses("tests/stages", "kernel/arch", "dev-dependencies").root())).contains("may not use"));
}

#[test]
fn a_crate_without_a_place_is_found() {
    assert!(only(check(Tree::new().member("core/stuff", "").root())).contains("put it into CORE"));
    assert!(only(check(Tree::new().member("lib/stuff", "").root())).contains("has no place here"));
}

#[test]
fn crates_from_elsewhere_are_no_arrows() {
    none(check(Tree::new().member("core/acl", "[dependencies]\nbitflags = \"2\"\n").root()));
}
