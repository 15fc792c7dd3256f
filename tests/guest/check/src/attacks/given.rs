//! Pages that are given and taken by their addresses (pitfalls, H14): with the rights of who asks, on both sides.

use super::Scene;
use super::deputies::is_about_the_address;
use crate::memory::{data, load, store};
use crate::report::{Outcome, doing};
use crate::{holds, same};
use musubi::abi::calls::stub;
use musubi::abi::layout::PAGE;
use musubi::abi::pager::supply::COPY;
use musubi::abi::rights::principal;
use musubi::rt::{Trap, section, task};
use musubi::{AclEntry, Rights};

const OWN: u64 = 0x0123_4567;
/// What a row does: supplies a copy of the page, or the page itself, or takes one there.
const WAYS: [&str; 3] = ["copied", "supplied", "taken"];

/// Whoever may only read a page has copies of it, and nothing else; one's own page comes and goes by each way.
pub fn pages() -> Outcome {
    let scene = Scene::set()?;
    let victims = scene.place / PAGE * PAGE;
    let own = data(PAGE).map_err(doing("create"))?.base();
    let nothing = data(PAGE).map_err(doing("create"))?.base();
    let (read_only, shut) = (data(PAGE).map_err(doing("create"))?.base(), data(PAGE).map_err(doing("create"))?.base());
    for (base, rights) in [(read_only, Rights::READ | Rights::CHANGE_ACL), (shut, Rights::CHANGE_ACL)] {
        store(base, OWN);
        only(base, rights)?;
    }
    for (n, way) in WAYS.iter().enumerate() {
        // (Each time to and from where something is.)
        let go = |other: u64| match n {
            0 => stub::page_supply(&Trap, nothing, other, COPY),
            1 => stub::page_supply(&Trap, nothing, other, 0),
            _ => stub::page_take(&Trap, own, other),
        };
        let clear = || stub::page_free(&Trap, nothing, PAGE).map_err(doing("page_free"));
        store(own, OWN);
        for (whose, other, may_copy) in
            [("the victim's", victims, false), ("a shut one", shut, false), ("one to be read", read_only, true)]
        {
            let outcome = go(other);
            let may = may_copy && n == 0;
            holds!(may == outcome.is_ok(), "{whose}, {way}: {outcome:?}");
            holds!(outcome.err().is_none_or(is_about_the_address), "{whose}, {way}: {outcome:?}");
            if may {
                same!(load(nothing), OWN, "{whose}, {way}");
                clear()?;
            }
            scene.holds(way)?;
            same!(load(own), OWN, "this program's own page, {way} and refused");
        }
        let to = if n == 2 { nothing } else { own };
        go(to).map_err(doing("with one's own page"))?;
        same!(load(nothing), OWN, "what was {way}");
        clear()?;
    }
    scene.end()
}

/// From now on this program has these rights to it, and nobody else has any.
fn only(base: u64, rights: Rights) -> Outcome {
    let own = AclEntry {
        principal: principal::TASK,
        rights: rights.bits(),
        id: task::identity().task,
        text: musubi::start().text(),
    };
    section::grant(base, &own).map_err(doing("grant"))
}
