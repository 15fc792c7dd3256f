#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod clock;
pub mod colour_map;
pub mod console;
pub mod counter;
pub mod devices;
pub mod files;
pub mod first;
pub mod interrupt;
pub mod keyboard;
pub mod ledger;
pub mod linux;
pub mod loader;
pub mod measure;
pub mod memory;
pub mod names;
pub mod pack;
pub mod pager;
pub mod passing;
pub mod pipes;
pub mod power;
pub mod processes;
pub mod ready;
pub mod request;
pub mod sched;
pub mod servers;
pub mod signal;
pub mod stream;

pub use rt::gate::Interface;

/// Every interface, for programs that call what they do not know.
pub const ALL: &[Interface] = &[
    clock::ClockClient::INTERFACE,
    colour_map::ColourMapClient::INTERFACE,
    console::ConsoleClient::INTERFACE,
    counter::CounterClient::INTERFACE,
    devices::DevicesClient::INTERFACE,
    files::FilesClient::INTERFACE,
    first::FirstClient::INTERFACE,
    interrupt::InterruptClient::INTERFACE,
    keyboard::KeyboardClient::INTERFACE,
    linux::LinuxClient::INTERFACE,
    loader::LoaderClient::INTERFACE,
    measure::MeasureClient::INTERFACE,
    names::NamesClient::INTERFACE,
    pack::PackClient::INTERFACE,
    passing::PassingClient::INTERFACE,
    pipes::PipesClient::INTERFACE,
    power::PowerClient::INTERFACE,
    processes::ProcessesClient::INTERFACE,
    sched::SchedClient::INTERFACE,
    servers::ServersClient::INTERFACE,
    stream::StreamClient::INTERFACE,
];
