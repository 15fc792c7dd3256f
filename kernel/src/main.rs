#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "none", no_std, no_main)]
#![deny(unsafe_code)]

macro_rules! on_the_machine {
    ($($item:item)*) => { $( #[cfg(target_os = "none")] $item )* };
}

on_the_machine! {
    extern crate alloc;

    mod alarm;
    mod aside;
mod ask;
    mod boot;
    mod call;
    mod claim;
    mod crossing;
    mod device;
    mod domain;
    mod epc;
    mod fault;
    mod foreign;
mod frame;
    mod gate;
    mod info;
    mod keyed;
    mod light;
    mod line;
    mod machine;
    mod mbcf;
    mod pager;
    mod pass;
    mod place;
    mod post;
    mod promise;
    mod pressure;
    mod processor;
    mod ring;
    mod saved;
    mod sched;
    mod seat;
    mod secret;
    mod section;
    mod task;
    mod text;
    mod thread;
    mod trace;
    mod trap;
    mod view;
    mod wait;
mod watch;
    mod window;
}

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("the kernel runs on the bare machine: ./musubi run");
}
