//! A high level of a scheduler (CUBIX-48): fixed priorities with ageing, and nothing more. It runs when the fast level calls it, sets
//! the priorities that were asked for, and raises threads that have waited for too many quanta, so that nobody starves (`level.rs`,
//! as for every policy). To write another policy, copy `share.rs`.
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

mod level;

use level::Policy;
use musubi::Start;

musubi::program!(run);

#[derive(Default)]
struct Ageing;

impl Policy for Ageing {}

fn run(_: &Start) -> i32 {
    level::run::<Ageing>()
}
