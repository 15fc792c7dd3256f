//! The rules about files, manifests and the reading order.

use super::*;
use crate::{invariants, manifests, names, reading, sizes};

fn long_file(lines: usize, list: &str) -> Tree {
    let tree = Tree::new().write("abi/src/table.rs", &"// a line\n".repeat(lines));
    tree.write("tests/house/long-files.toml", list)
}

fn entry(max: usize, reason: &str) -> String {
    format!("[[file]]\npath = \"abi/src/table.rs\"\nmax = {max}\nreason = \"{reason}\"\n")
}

#[test]
fn a_long_file_is_found() {
    none(sizes::check(long_file(500, "").root()));
    assert!(only(sizes::check(long_file(501, "").root())).starts_with("abi/src/table.rs: 501 lines; split it"));
    for file in ["kernel/boot/entry.S", "host/set-up.sh", "musubi"] {
        let tree = Tree::new().write(file, &"#\n".repeat(501));
        assert!(only(sizes::check(tree.root())).starts_with(file));
    }
    none(sizes::check(Tree::new().write("docs/long.md", &"text\n".repeat(501)).root()));
}

#[test]
fn a_listed_file_may_be_long_within_its_bound() {
    none(sizes::check(long_file(600, &entry(600, "one table")).root()));
    assert!(only(sizes::check(long_file(601, &entry(600, "one table")).root())).contains("allows 600"));
    assert!(only(sizes::check(long_file(600, &entry(600, " ")).root())).contains("has no reason"));
}

#[test]
fn the_list_of_long_files_only_shrinks() {
    none(sizes::check(long_file(540, &entry(600, "one table")).root()));
    assert!(only(sizes::check(long_file(539, &entry(600, "one table")).root())).contains("lower max"));
    assert!(only(sizes::check(long_file(500, &entry(501, "one table")).root())).contains("remove its entry"));
    let gone = long_file(501, &entry(600, "one table")).remove("abi/src/table.rs");
    assert!(only(sizes::check(gone.root())).contains("does not exist"));
    assert!(sizes::check(long_file(1, "[[files]]\n").root()).is_err());
}

const PAGE: &str =
    "# Order\n\nSee `abi/src/other.rs`.\n\n- `abi/src/lib.rs`: the contract\n2. `core/sync/src/lib.rs`: locks\n";

fn reading(page: &str) -> Tree {
    Tree::new().write("docs/reading.md", page)
}

#[test]
fn the_reading_order_is_held() {
    none(reading::check(reading(PAGE).root()));
    none(reading::check(reading(PAGE).write("host/cli/src/main.rs", "").root()));
    for file in ["abi/src/new.rs", "kernel/arch/src/entry.S", "kernel/link.ld", "core/sync/src/tests.rs"] {
        assert!(only(reading::check(reading(PAGE).write(file, "").root())).starts_with(&format!("{file}: not in")));
    }
    let gone = reading(PAGE).write("abi/src/main.rs", "fn main() {}").remove("abi/src/lib.rs");
    let problems = reading::check(gone.root()).unwrap();
    assert!(problems[0].contains("reading.md:5: abi/src/lib.rs is not a source file"), "{problems:?}");
    assert!(only(reading::check(reading(&PAGE.replace(": locks", "")).root())).contains("say in half a line"));
    assert!(
        only(reading::check(reading(&format!("{PAGE}- `abi/src/lib.rs`: again\n")).root())).contains("listed twice")
    );
    assert_eq!(reading::check(reading("").remove("docs/reading.md").root()).unwrap().len(), 2);
}

#[test]
fn an_unfurnished_crate_is_found() {
    none(manifests::check(Tree::new().root()));
    assert!(only(manifests::check(Tree::new().remove("abi/README.md").root())).contains("no README.md"));
    assert!(only(manifests::check(Tree::new().write("abi/README.md", "\n").root())).contains("no README.md"));
    let with = |from: &str, to: &str| {
        let text = manifest("abi", "");
        assert!(text.contains(from));
        only(manifests::check(Tree::new().write("abi/Cargo.toml", &text.replace(from, to)).root()))
    };
    assert!(with("[lints]\nworkspace = true\n", "").contains("[lints]"));
    assert!(with("[lints]\nworkspace = true\n", "[lints.rust]\nunsafe_code = \"allow\"\n").contains("[lints]"));
    assert!(with("license.workspace = true", "license = \"MIT\"").contains("license.workspace"));
    assert!(with("license.workspace = true\n", "").contains("license.workspace"));
}

#[test]
fn empty_names_are_found() {
    for name in ["util", "misc", "common", "manager"] {
        let file = format!("abi/src/{name}.rs");
        assert!(only(names::check(Tree::new().write(&file, "").root())).starts_with(&file));
    }
    none(names::check(Tree::new().write("abi/src/utilisation.rs", "").root()));
}

#[test]
fn places_outside_the_project_are_found() {
    for place in [concat!("see ..", "/shared/x"), concat!("the seeds", "-digest says")] {
        let tree = Tree::new().write("docs/page.md", &format!("one\n{place}\n"));
        assert!(only(names::check(tree.root())).starts_with("docs/page.md:2: names"));
    }
    none(names::check(Tree::new().write("docs/page.md", "shared memory\n").root()));
}

#[test]
fn what_git_ignores_is_not_looked_at() {
    let tree = Tree::new().write("abi/src/util.rs", "").write(".gitignore", "util.rs\n");
    only(names::check(tree.root()));
    let made = std::process::Command::new("git").arg("init").arg("-q").current_dir(tree.root()).status();
    assert!(made.unwrap().success());
    none(names::check(tree.root()));
    none(names::check(Tree::new().write("target/src/util.rs", "").root()));
}

const INVARIANTS: &str = "# Invariants\n\n1. **One.** Text. *Owner: core/space*\n2. **Two.** *Owner: abi*\n";

#[test]
fn invariants_are_numbered_owned_and_cited_rightly() {
    let page = |text: &str| Tree::new().write("docs/invariants.md", text);
    let code = |text: &str| page(INVARIANTS).write("abi/src/lib.rs", text);
    none(invariants::check(page(INVARIANTS).root()));
    none(invariants::check(code("// SAFETY: per invariant 2 (frames)\nlet invariant = \"invariant 9\";").root()));
    assert!(only(invariants::check(code("// by invariant 3\n").root())).starts_with("abi/src/lib.rs:1: there is no"));
    assert!(only(invariants::check(page(&INVARIANTS.replace("2. ", "3. ")).root())).contains("number 3 after 1"));
    assert!(only(invariants::check(page(&INVARIANTS.replace("2. ", "1. ")).root())).contains("number 1 after 1"));
    assert!(only(invariants::check(page(&INVARIANTS.replace(" *Owner: abi*", "")).root())).contains("Owner"));
    assert!(only(invariants::check(page(&INVARIANTS.replace("core/space", "lib/space")).root())).contains("Owner"));
}
