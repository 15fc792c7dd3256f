#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub use derive::interface;
pub use interfaces;
pub use rt;
pub use rt::abi;
pub use rt::{AclEntry, Caller, Error, Rights, Start, start};

pub mod clock;
pub mod command;
pub mod debug;
pub mod driver;
pub mod ended;
pub mod files;
pub mod ledger;
pub mod names;
pub mod order;
pub mod parallel;
pub mod pass;
mod passing;
pub mod processes;
pub mod servers;
pub mod stream;
pub mod trace;
mod why;

pub use why::why;

/// Makes `run` the program's main function: `fn run(start: &musubi::Start) -> i32`. Its value is the exit status.
#[macro_export]
macro_rules! program {
    ($run:path) => {
        fn __begin(start: &$crate::Start) -> i32 {
            $crate::begin(start, $run)
        }
        $crate::rt::program!(__begin);
    };
}

#[doc(hidden)]
pub fn begin(start: &Start, run: fn(&Start) -> i32) -> i32 {
    rt::sched::set_direct(passing::DIRECT);
    rt::service::set_wait(&servers::WAIT);
    if start.stream(2).gate != 0 {
        rt::set_panic_output(|text| {
            let _ = stream::errors().write_all(text);
        });
    }
    if start.variable(debug::VARIABLE).is_some() {
        debug::begin();
    }
    run(start)
}

/// Prints on the standard output.
#[macro_export]
macro_rules! print {
    ($($arg:tt)*) => { $crate::stream::print(1, ::core::format_args!($($arg)*)) };
}

/// Prints a line on the standard output.
#[macro_export]
macro_rules! println {
    () => { $crate::print!("\n") };
    ($($arg:tt)*) => { $crate::stream::print_line(1, ::core::format_args!($($arg)*)) };
}

/// Prints on the error stream.
#[macro_export]
macro_rules! eprint {
    ($($arg:tt)*) => { $crate::stream::print(2, ::core::format_args!($($arg)*)) };
}

/// Prints a line on the error stream.
#[macro_export]
macro_rules! eprintln {
    () => { $crate::eprint!("\n") };
    ($($arg:tt)*) => { $crate::stream::print_line(2, ::core::format_args!($($arg)*)) };
}
