#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]
extern crate alloc;
rt::program!(run);
fn run(start: &rt::Start) -> i32 {
    let v: alloc::vec::Vec<u64> = start.args().map(|a| a.len() as u64).collect();
    v.iter().sum::<u64>() as i32
}
