#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

musubi::program!(run);

fn run(_: &musubi::Start) -> i32 {
    loop {
        core::hint::spin_loop();
    }
}
