//! Calling services that the shell does not know, by name.

use super::{misused, number, text};
use crate::io::Io;
use crate::say;
use crate::shell::Shell;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::interfaces::{self, Interface};
use musubi::rt::abi::gate::grade;
use musubi::rt::bound::result_of;
use musubi::rt::gate::{Method, Returns};
use musubi::rt::{Bound, section, time};
use musubi::why;

pub fn names(_: &mut Shell, _: &[Vec<u8>], io: &mut Io) -> i32 {
    let all = match musubi::names::list() {
        Ok(all) => all,
        Err(e) => {
            io.complain("names", format_args!("{}", why(e)));
            return 1;
        }
    };
    for name in all {
        let Ok(gate) = musubi::names::lookup(&name) else { continue };
        let owner = section::info(gate).map_or(0, |info| info.owner);
        say!(io, "{name:<16} gate {gate:#x}  task {owner}");
    }
    0
}

fn signature(method: &Method) -> String {
    let arguments: Vec<String> = method.arguments.iter().map(|(name, ty)| format!("{name}: {ty}")).collect();
    format!("{}({})", method.name, arguments.join(", "))
}

pub fn call(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    let (plain, rest) = match &words[1..] {
        [option, how, rest @ ..] if option == b"--grade" => match text(how) {
            "plain" => (true, rest),
            "epc-s" => (false, rest),
            _ => return misused(words, io),
        },
        rest => (false, rest),
    };
    let Some((name, rest)) = rest.split_first() else { return misused(words, io) };
    let name = text(name);
    let interface = interfaces::ALL.iter().find(|i| i.name == name);
    let Some((method, numbers)) = rest.split_first() else {
        return list_methods(name, interface, io);
    };
    let Some(numbers) = numbers.iter().map(|w| number(w)).collect::<Option<Vec<u64>>>().filter(|n| n.len() <= 6) else {
        io.complain("call", format_args!("arguments are numbers, at most six of them"));
        return 2;
    };
    let (index, known) = match find_method(interface, text(method)) {
        Ok(found) => found,
        Err(why) => {
            io.complain("call", format_args!("{why}"));
            return 1;
        }
    };
    if let Some(known) = known
        && let Err(why) = fits(known, numbers.len())
    {
        io.complain("call", format_args!("{why}"));
        return 1;
    }
    let mut registers = [0; 6];
    registers[..numbers.len()].copy_from_slice(&numbers);
    let bound =
        musubi::names::lookup(name).and_then(|gate| if plain { Ok(Bound::plain(gate)) } else { Bound::bind(gate, 0) });
    let outcome = bound.and_then(|bound| {
        let began = time::ticks();
        let values = bound.call(index, registers);
        let ticks = time::ticks() - began;
        let how = if bound.binding().grade == grade::PLAIN { "plain call" } else { "EPC-S" };
        let _ = bound.unbind();
        values.map(|values| (values, ticks, how))
    });
    let (values, ticks, how) = match outcome {
        Ok(done) => done,
        Err(e) => {
            io.complain("call", format_args!("{name}: {}", why(e)));
            return 1;
        }
    };
    match known.map(|m| m.returns) {
        Some(Returns::Status) => match result_of(values) {
            Ok(value) => say!(io, "{value} ({how}, {ticks} ticks)"),
            Err(e) => {
                io.complain("call", format_args!("{name} {}: {}", text(method), why(e)));
                return 1;
            }
        },
        _ => say!(io, "{} {} ({how}, {ticks} ticks)", values[0], values[1]),
    }
    0
}

fn list_methods(name: &str, interface: Option<&Interface>, io: &mut Io) -> i32 {
    let Some(interface) = interface else {
        io.complain("call", format_args!("{name}: no interface of that name; methods can be called by number"));
        return 1;
    };
    for method in interface.methods {
        say!(io, "{name} {}", signature(method));
    }
    0
}

fn find_method(interface: Option<&Interface>, method: &str) -> Result<(u64, Option<&'static Method>), String> {
    let methods = interface.map_or(&[][..], |i| i.methods);
    if let Some(index) = methods.iter().position(|m| m.name == method) {
        return Ok((index as u64, Some(&methods[index])));
    }
    match number(method.as_bytes()) {
        Some(index) => Ok((index, methods.get(index as usize))),
        None if methods.is_empty() => Err(format!("{method}: methods of an unknown interface are called by number")),
        None => Err(format!("{method}: no such method; there are {}", {
            let all: Vec<&str> = methods.iter().map(|m| m.name).collect();
            all.join(", ")
        })),
    }
}

fn fits(method: &Method, given: usize) -> Result<(), String> {
    if method.arguments.iter().any(|a| a.1.starts_with('&')) {
        return Err(format!("{} takes memory; from here only numbers can be passed", signature(method)));
    }
    if method.arguments.len() != given {
        let plural = if method.arguments.len() == 1 { "" } else { "s" };
        return Err(format!("{} takes {} number{plural}", signature(method), method.arguments.len()));
    }
    Ok(())
}
