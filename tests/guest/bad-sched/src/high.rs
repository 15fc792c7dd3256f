#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

musubi::program!(run);

/// There is nothing for it to do.
fn run(_: &musubi::Start) -> i32 {
    musubi::rt::thread::park()
}
