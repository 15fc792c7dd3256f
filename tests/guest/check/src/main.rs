#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]

extern crate alloc;

mod acl;
mod alternate;
mod anew;
mod attacks;
mod bad_scheds;
mod calls;
mod clock;
mod crowd;
mod deaths;
mod events;
mod exceptions;
mod exhaustion;
mod faults;
mod files;
mod floods;
mod fuzz;
mod giving;
mod grace;
mod hand_over;
mod info;
mod interrupts;
mod irq;
mod itc;
mod large;
mod lending;
mod light;
mod lines;
mod linux;
mod locks;
mod looks;
mod marks;
mod mbcf;
mod memory;
mod pagers;
mod pages;
mod parts;
mod passing;
mod peer;
mod place;
mod placer;
mod policies;
mod posts;
mod processes;
mod programs;
mod quota;
mod raw;
mod refusals;
mod registers;
mod report;
mod revoke;
mod roles;
mod rouse;
mod sched;
mod sections;
mod services;
mod stranger;
mod stretches;
mod supervision;
mod texts;
mod threads;
mod tied;
mod together;
mod trace;
mod two_users;
mod validity;
mod waiting;
mod window;

use alloc::vec::Vec;
use musubi::{Start, eprintln, println};
use report::Group;

musubi::program!(run);

const GROUPS: &[Group] = &[
    Group { name: "sections", checks: sections::CHECKS },
    Group { name: "acl", checks: acl::CHECKS },
    Group { name: "refusals", checks: refusals::CHECKS },
    Group { name: "revoke", checks: revoke::CHECKS },
    Group { name: "rouse", checks: rouse::CHECKS },
    Group { name: "quota", checks: quota::CHECKS },
    Group { name: "exhaustion", checks: exhaustion::CHECKS },
    Group { name: "crowd", checks: crowd::CHECKS },
    Group { name: "fuzz", checks: fuzz::CHECKS },
    Group { name: "anew", checks: anew::CHECKS },
    Group { name: "calls", checks: calls::CHECKS },
    Group { name: "light", checks: light::CHECKS },
    Group { name: "mbcf", checks: mbcf::CHECKS },
    Group { name: "place", checks: place::CHECKS },
    Group { name: "placer", checks: placer::CHECKS },
    Group { name: "info", checks: info::CHECKS },
    Group { name: "validity", checks: validity::CHECKS },
    Group { name: "pages", checks: pages::CHECKS },
    Group { name: "large", checks: large::CHECKS },
    Group { name: "parts", checks: parts::CHECKS },
    Group { name: "huge", checks: large::HUGE },
    Group { name: "pagers", checks: pagers::CHECKS },
    Group { name: "giving", checks: giving::CHECKS },
    Group { name: "trace", checks: trace::CHECKS },
    Group { name: "texts", checks: texts::CHECKS },
    Group { name: "lending", checks: lending::CHECKS },
    Group { name: "registers", checks: registers::CHECKS },
    Group { name: "deaths", checks: deaths::CHECKS },
    Group { name: "grace", checks: grace::CHECKS },
    Group { name: "faults", checks: faults::CHECKS },
    Group { name: "exceptions", checks: exceptions::CHECKS },
    Group { name: "locks", checks: locks::CHECKS },
    Group { name: "looks", checks: looks::CHECKS },
    Group { name: "threads", checks: threads::CHECKS },
    Group { name: "window", checks: window::CHECKS },
    Group { name: "together", checks: together::CHECKS },
    Group { name: "passing", checks: passing::CHECKS },
    Group { name: "sched", checks: sched::CHECKS },
    Group { name: "events", checks: events::CHECKS },
    Group { name: "floods", checks: floods::CHECKS },
    Group { name: "bad_scheds", checks: bad_scheds::CHECKS },
    Group { name: "interrupts", checks: interrupts::CHECKS },
    Group { name: "irq", checks: irq::CHECKS },
    Group { name: "marks", checks: marks::CHECKS },
    Group { name: "bad_drivers", checks: interrupts::BAD },
    Group { name: "policies", checks: policies::CHECKS },
    Group { name: "itc", checks: itc::CHECKS },
    Group { name: "itc_deaths", checks: itc::MANY },
    Group { name: "lines", checks: lines::CHECKS },
    Group { name: "posts", checks: posts::CHECKS },
    Group { name: "two_users", checks: two_users::CHECKS },
    Group { name: "hand-over", checks: hand_over::CHECKS },
    Group { name: "hand-over-beside", checks: hand_over::BESIDE },
    Group { name: "services", checks: services::CHECKS },
    Group { name: "supervision", checks: supervision::CHECKS },
    Group { name: "processes", checks: processes::CHECKS },
    Group { name: "clock", checks: clock::CHECKS },
    Group { name: "files", checks: files::CHECKS },
    Group { name: "programs", checks: programs::CHECKS },
    Group { name: "linux", checks: linux::CHECKS },
    Group { name: "jumps", checks: attacks::jumps::CHECKS },
    Group { name: "frames", checks: attacks::frames::CHECKS },
    Group { name: "returns", checks: attacks::returns::CHECKS },
    Group { name: "state", checks: attacks::state::CHECKS },
    Group { name: "segments", checks: attacks::segments::CHECKS },
    Group { name: "code", checks: attacks::code::CHECKS },
    Group { name: "loans", checks: attacks::loans::CHECKS },
    Group { name: "addresses", checks: attacks::addresses::CHECKS },
    Group { name: "passed", checks: attacks::passed::CHECKS },
    Group { name: "upcalls", checks: attacks::upcalls::CHECKS },
    Group { name: "deputies", checks: attacks::deputies::CHECKS },
    Group { name: "strangers", checks: attacks::strangers::CHECKS },
    Group { name: "system_deputies", checks: attacks::deputies::OF_THE_SYSTEM },
    Group { name: "secrets", checks: attacks::secrets::CHECKS },
    Group { name: "sweep", checks: attacks::sweep::CHECKS },
    Group { name: "sweep_exactly", checks: attacks::sweep::EXACT },
    Group { name: "switched", checks: attacks::sweep::SWITCHED },
    Group { name: "stopped", checks: attacks::sweep::STOPPED },
    Group { name: "races", checks: attacks::races::CHECKS },
    Group { name: "back", checks: attacks::back::CHECKS },
];

fn run(start: &Start) -> i32 {
    let words: Vec<&str> = start.words().collect();
    let group = |name: &str| GROUPS.iter().find(|g| g.name == name);
    match words.as_slice() {
        [] => {
            for group in GROUPS {
                group.checks.iter().for_each(|check| println!("{} {}", group.name, check.0));
            }
            0
        }
        ["peer", name] => peer::serve(name),
        ["peer-with-lines", name] => peer::serve_with_lines(name),
        ["peer-with-post", post, receivers, name] => {
            peer::serve_with_post(name, roles::number(post), roles::number(receivers) as usize)
        }
        ["as", role, rest @ ..] => roles::run(role, rest),
        ["tied", tests @ ..] => tied::run(tests, |test| {
            GROUPS.iter().find(|group| group.checks.iter().any(|check| check.0 == test)).map(|group| group.name)
        }),
        ["one", name, check] if group(name).is_some() => group(name).map_or(2, |g| report::run_here(g, check)),
        [name, checks @ ..] if group(name).is_some() => group(name).map_or(2, |g| report::run(g, checks)),
        _ => {
            eprintln!("usage: check [GROUP [NAME...]]");
            2
        }
    }
}
