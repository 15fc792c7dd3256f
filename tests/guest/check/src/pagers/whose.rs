//! Whose pager is asked for a page that is invalid: the task's, where the task itself has made it so (SSS-58; architecture, section 14).

use super::{Does, Own, own, paged, read};
use crate::memory::{data, load};
use crate::report::{Outcome, doing};
use crate::sections::{everybody, role as run_role};
use crate::{holds, same};
use alloc::format;
use musubi::Rights;
use musubi::abi::layout::PAGE;
use musubi::abi::task::exit;
use musubi::rt::section::{self, invalidate, validate};
use musubi::rt::{pager, task};

/// What is asked about a page.
type Asked = (Option<u64>, u64, u64);

fn asked(page: u64, of_task: &Own, of_section: &Own) -> Asked {
    (read(page), of_task.calls(), of_section.calls())
}

/// Another task without a pager, which may change the section, makes pages invalid, in so many calls.
fn another(base: u64, pages: u64) -> Outcome {
    let how = run_role(&["makes-invalid", &format!("{base}"), &format!("{pages}")])?;
    same!((how.kind, how.code), (exit::EXITED, 0), "how the other task ended");
    Ok(())
}

/// What the task did before it had a pager, and what others do, is the section's pager's; also where a thread has done so by the short way before, and page
/// by page.
pub fn of_its_own() -> Outcome {
    let (section, of_section) = paged(200, Does::Validate, 0)?;
    let base = section.base();
    let page = |n: u64| base + n * PAGE;
    section::grant(base, &everybody(Rights::READ | Rights::WRITE | Rights::CHANGE_ACL)).map_err(doing("grant"))?;
    let (of_task, gate) = own(Does::Validate)?;
    let absent = |n: u64| invalidate(page(n), PAGE).map_err(doing("invalidate"));
    // By the short way, at the end.
    for round in 0..4 {
        absent(0)?;
        same!(asked(page(0), of_task, of_section), (Some(1), 0, 1), "without a pager of the task's, round {round}");
    }
    absent(0)?;
    absent(130)?;
    pager::set_for_task(gate, 0).map_err(doing("task pager"))?;
    absent(1)?;
    absent(131)?;
    for (n, who, wanted) in [
        (0, "before there was one", (Some(1), 0, 1)),
        (1, "by the task", (Some(2), 1, 0)),
        (130, "before there was one", (Some(131), 0, 1)),
        (131, "by the task", (Some(132), 1, 0)),
    ] {
        same!(asked(page(n), of_task, of_section), wanted, "page {n}, made invalid {who}");
    }
    // Nothing is invalid: from here on all is the task's, by the short way too.
    for round in 0..6 {
        absent(0)?;
        same!(asked(page(0), of_task, of_section), (Some(1), 1, 0), "all by the task, round {round}");
    }
    // Others in between: who did it last.
    invalidate(base, 200 * PAGE).map_err(doing("invalidate"))?;
    another(base, 3)?;
    for (n, wanted) in [(0, (Some(1), 0, 1)), (2, (Some(3), 0, 1)), (3, (Some(4), 1, 0)), (199, (Some(200), 1, 0))] {
        same!(asked(page(n), of_task, of_section), wanted, "page {n}, of which another task has made three invalid");
    }
    for round in 0..4 {
        absent(1)?;
        same!(asked(page(1), of_task, of_section), (Some(2), 1, 0), "the task's again, round {round}");
    }
    // Without its pager the task notes nothing; what it has noted is there when it has one again.
    absent(5)?;
    pager::set_for_task(0, 0).map_err(doing("no task pager"))?;
    absent(6)?;
    pager::set_for_task(gate, 0).map_err(doing("task pager"))?;
    same!(asked(page(5), of_task, of_section), (Some(6), 1, 0), "made invalid when there was one");
    same!(asked(page(6), of_task, of_section), (Some(7), 0, 1), "made invalid when there was none");
    pager::set_for_task(0, 0).map_err(doing("no task pager"))?;
    section.delete().map_err(doing("delete"))
}

/// What says who it was is charged to the section's owner, and comes back; with one task alone there is nothing to say.
pub fn paid() -> Outcome {
    // What children of the checks before have had comes back to this task when they are taken apart, which is after their end.
    crate::deaths::settled()?;
    let (_, gate) = own(Does::Validate)?;
    let section = data(256 * PAGE).map_err(doing("create"))?;
    let base = section.base();
    let frames = || task::info(musubi::start().task()).map(|info| info.used.frames).ok_or("no task");
    load(base);
    invalidate(base, 256 * PAGE).map_err(doing("invalidate"))?;
    let alone = frames()?;
    pager::set_for_task(gate, 0).map_err(doing("task pager"))?;
    for n in [0, 64, 65, 255] {
        invalidate(base + n * PAGE, PAGE).map_err(doing("invalidate"))?;
    }
    let noted = frames()?;
    same!(noted - alone, 3, "pieces that say who it was");
    validate(base, 256 * PAGE).map_err(doing("validate"))?;
    invalidate(base, PAGE).map_err(doing("invalidate"))?;
    same!(frames()?, alone, "when all is one task's again");
    pager::set_for_task(0, 0).map_err(doing("no task pager"))?;
    section.delete().map_err(doing("delete"))?;
    holds!(frames()? < alone, "what was deleted");
    Ok(())
}

/// Makes pages invalid that are another task's.
pub fn role(base: u64, pages: u64) -> i32 {
    i32::from((0..pages).any(|n| invalidate(base + n * PAGE, PAGE).is_err()))
}
