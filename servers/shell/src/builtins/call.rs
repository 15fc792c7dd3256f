//! Calling services that the shell does not know, by name.

use super::{misused, number, text};
use crate::io::Io;
use crate::say;
use crate::shell::Shell;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::Error;
use musubi::interfaces::{self, Interface};
use musubi::rt::abi::gate::{Binding, grade, why as reason};
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

/// Grades of call: number, as typed, as told.
const GRADES: [(u64, &str, &str); 3] =
    [(grade::PLAIN, "plain", "plain call"), (grade::EPC_S, "epc-s", "EPC-S"), (grade::EPC_H, "epc-h", "EPC-H")];

/// Binds as is asked for; if it was asked for a call without the kernel that is not to be had, says why.
fn bind(gate: u64, grade: Option<u64>) -> Result<Result<Bound, String>, Error> {
    let bound = match grade {
        None | Some(grade::EPC_H) => Bound::bind(gate, 0)?,
        Some(grade) => Bound::bind_as(gate, 0, grade)?,
    };
    match why_by_kernel(bound.binding()) {
        Some(why) if grade == Some(grade::EPC_H) => bound.unbind().map(|()| Err(why)),
        _ => Ok(Ok(bound)),
    }
}

/// Why the kernel takes part in calls by a binding; `None` if it does not, or was asked to.
fn why_by_kernel(binding: &Binding) -> Option<String> {
    let unclear = |whose| format!("{whose} text could write the key register, in the page at {:#x}", binding.page);
    Some(match binding.why {
        reason::NO_KEYS => String::from("this machine has no protection keys"),
        reason::CALLER_UNCLEAR => unclear("the caller's"),
        reason::CALLEE_UNCLEAR => unclear("the callee's"),
        reason::NOT_EXECUTABLE => String::from("the caller may not execute the callee's text"),
        reason::NO_ROOM => String::from("the caller has no room for one more binding"),
        reason::SUPERVISOR => String::from("the caller or the callee is in supervisor mode"),
        reason::SECRET => String::from("the caller or the callee has touched a secret section"),
        _ => return None,
    })
}

/// Most calls that one command makes.
const TIMES_MAX: u64 = 1_000_000;

/// The grade that is asked for, how many calls, and the words behind the options.
fn options(words: &[Vec<u8>]) -> Option<(Option<u64>, u64, &[Vec<u8>])> {
    let (mut grade, mut times, mut rest) = (None, 1, words);
    loop {
        match rest {
            [option, how, more @ ..] if option == b"--grade" => {
                grade = Some(GRADES.iter().find(|grade| grade.1 == text(how))?.0);
                rest = more;
            }
            [option, n, more @ ..] if option == b"--times" => {
                times = number(n).filter(|n| (1..=TIMES_MAX).contains(n))?;
                rest = more;
            }
            _ => return Some((grade, times, rest)),
        }
    }
}

pub fn call(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    let Some((grade, times, rest)) = options(&words[1..]) else { return misused(words, io) };
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
    let bound = match musubi::names::lookup(name).and_then(|gate| bind(gate, grade)) {
        Ok(Ok(bound)) => bound,
        Ok(Err(why)) => {
            io.complain("call", format_args!("{name}: no call without the kernel: {why}"));
            return 1;
        }
        Err(e) => {
            io.complain("call", format_args!("{name}: {}", why(e)));
            return 1;
        }
    };
    let (grade, by_kernel) = (bound.binding().grade, why_by_kernel(bound.binding()));
    let outcome = {
        let once = || {
            let began = time::ticks();
            bound.call(index, registers).map(|values| (values, time::ticks() - began))
        };
        // The kernel makes the first call, and checks what the next ones rest on.
        let called = (1..times).try_for_each(|_| once().map(drop)).and_then(|()| once());
        let _ = bound.unbind();
        let named = GRADES.iter().find(|known| known.0 == grade).map_or("", |known| known.2);
        let how = match by_kernel {
            Some(why) => format!("{named}: {why}"),
            None => String::from(named),
        };
        called
            .map(|(values, ticks)| (values, ticks, if times > 1 { format!("{how}, the last of {times}") } else { how }))
    };
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
