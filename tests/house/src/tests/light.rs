//! The kernel as it is passes; a copy of it in which something could wait without being saved does not.

use super::*;
use crate::{light, tree};

const SAVED: &str = "thread: Saved<'_>";
const ALONE: &str = "thread: &Arc<Thread>";

/// The kernel's sources, with `from` in one of them once made `to`.
fn changed(file: &str, from: &str, to: &str) -> Tree {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut copy = Tree::new();
    for one in tree::files(&project).unwrap().iter().filter(|one| one.starts_with("kernel/src/")) {
        let Some(text) = tree::text(&project, one) else { continue };
        if one == file {
            assert_eq!(text.matches(from).count(), 1, "{from} in {file}");
            copy = copy.write(one, &text.replace(from, to));
        } else {
            copy = copy.write(one, &text);
        }
    }
    copy
}

#[test]
fn what_waits_takes_a_saved_thread() {
    none(light::check(changed("kernel/src/wait.rs", "/// `sleep`.", "").root()));
    for (file, head) in [
        // Where a wait begins, in the kernel and in the seat.
        ("kernel/src/sched.rs", "fn begin_wait_that_is_looked_at(THREAD, "),
        ("kernel/src/seat/named.rs", "fn rest(THREAD)"),
        // What handlers call.
        ("kernel/src/wait.rs", "fn sleep(THREAD, "),
        ("kernel/src/wait.rs", "fn on_word(THREAD, "),
        ("kernel/src/sched.rs", "fn begin_wait(THREAD)"),
    ] {
        let [saved, alone] = [SAVED, ALONE].map(|thread| head.replace("THREAD", thread));
        let problems = light::check(changed(file, &saved, &alone).root()).unwrap();
        let name = &head[3..head.find('(').unwrap()];
        assert!(
            !problems.is_empty() && problems.iter().all(|one| one.starts_with(file) && one.contains(name)),
            "{problems:#?}"
        );
    }
    let gives = changed("kernel/src/sched.rs", "fn give_way(_: Saved<'_>)", "fn give_way(_: &Arc<Thread>)");
    assert_eq!(light::check(gives.root()).unwrap().len(), 3, "the place, the call without, and the one with");
}

#[test]
fn a_wait_is_found_however_it_is_written() {
    let here = "kernel/src/light.rs";
    for (what, begins) in [
        ("fn f(t: &Thread) { let mut w = t.wait.lock(); w.life\n        .wait(); }", true),
        ("fn f(l: &mut Life) { if l. wait () { g() } }", true),
        ("fn f(t: &Thread) { local.yields  =\n true; }", true),
        ("fn f(t: Saved<'_>) { fn inner(l: &mut Life) { l.wait(); } }", true),
        ("fn f(t: Option<&Saved<'_>>, l: &mut Life) { l.wait(); }", true),
        ("fn f(t: Saved<'_>, l: &mut Life) -> [u64; 2] { l.wait(); [0; 2] }", false),
        ("fn f(l: &mut Life) { g(\"l.wait()\"); } // l.wait()", false),
        ("fn f(w: &Waiters) { w.wait(t, 0); local.yields = false; }", false),
    ] {
        let marker = "extern \"C\" fn get_taskid(";
        let problems = light::check(changed(here, marker, &format!("{what}\n{marker}")).root()).unwrap();
        assert_eq!(problems.len(), usize::from(begins), "{what}: {problems:#?}");
    }
}

#[test]
fn a_light_call_makes_nobody_saved() {
    let tree = changed(
        "kernel/src/light.rs",
        "extern \"C\" fn get_taskid(",
        "fn f(t: &Arc<Thread>) { wait::sleep(Saved::by_full_entry(t), 1); }\nextern \"C\" fn get_taskid(",
    );
    assert!(only(light::check(tree.root())).starts_with("kernel/src/light.rs: only kernel/src/trap.rs says"));
}

#[test]
fn what_is_gone_is_missed() {
    let tree = changed("kernel/src/wait.rs", "pub fn sleep(", "pub fn slumber(");
    assert!(only(light::check(tree.root())).contains("no function `sleep` any more"));
}
