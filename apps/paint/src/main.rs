#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::string::String;
use alloc::vec;
use musubi::command::Command;
use musubi::interfaces::colour_map::ColourMapClient;
use musubi::rt::time;
use musubi::{Error, Start, eprintln, names, println};

musubi::program!(run);

const COLUMNS: usize = 128;
const ROWS: usize = 64;

fn run(_: &Start) -> i32 {
    match paint() {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("paint: {why}");
            1
        }
    }
}

fn paint() -> Result<(), String> {
    let bad = |e: Error| alloc::format!("colour-map: {e}");
    let mut started = None;
    let gate = match names::lookup("colour-map") {
        Ok(gate) => gate,
        Err(_) => {
            let child = Command::new(b"bin/colour-map").spawn().map_err(|e| alloc::format!("bin/colour-map: {e}"))?;
            started = Some(child);
            names::await_name("colour-map", 5_000_000_000).map_err(bad)?
        }
    };
    let outcome = colour(gate);
    if let Some(child) = started {
        let _ = child.kill();
    }
    outcome.map_err(bad)
}

fn colour(gate: u64) -> Result<(), Error> {
    let client = ColourMapClient::bind(gate)?;
    let mut table = [0; 256];
    for (i, entry) in (0u8..).zip(&mut table) {
        *entry = b" .:-=+*#%@"[usize::from(i) * 10 / 256];
    }
    let mut lent = client.alloc(COLUMNS * ROWS)?;
    draw(&mut lent);
    let began = time::ticks();
    client.map(&mut lent, &table)?;
    let ticks = time::ticks() - began;
    show(&lent);
    println!("{} pixels where they lie, at {:#x}: {ticks} ticks", lent.len(), lent.address());

    let mut own = vec![0; COLUMNS * ROWS];
    draw(&mut own);
    let began = time::ticks();
    client.map(&mut own, &table)?;
    println!("the same from our own memory, copied there and back: {} ticks", time::ticks() - began);
    if own[..] != lent[..] {
        println!("and the pictures differ!");
        return Err(Error::BadArgument);
    }
    match ColourMapClient::plain(gate).map(&mut own, &table) {
        Err(e) => println!("by a plain call, which lends nothing: {e}"),
        Ok(()) => println!("a plain call changed memory that was not lent!"),
    }
    Ok(())
}

/// Rings round the middle.
fn draw(picture: &mut [u8]) {
    for (i, pixel) in picture.iter_mut().enumerate() {
        let (x, y) = ((i % COLUMNS) as i64 - COLUMNS as i64 / 2, (i / COLUMNS) as i64 - ROWS as i64 / 2);
        *pixel = ((x * x + 4 * y * y) / 16 % 256) as u8;
    }
}

/// Every fourth row and every second column: the picture on a terminal.
fn show(picture: &[u8]) {
    for row in picture.chunks(COLUMNS).step_by(4) {
        let line: String = row.iter().step_by(2).map(|&c| char::from(c)).collect();
        println!("{}", line.trim_end());
    }
}
