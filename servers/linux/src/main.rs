//! The service `linux`: what the loader and the shell call.

#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

use abi::gate::record::{BY_LINE, BY_POST};
use abi::task::{USER_NOBODY, USER_SYSTEM};
use alloc::boxed::Box;
use alloc::format;
use musubi::interfaces::linux::{Linux, linux_serve_by};
use musubi::interfaces::request::{LEN_MAX, Request};
use musubi::{Caller, Error, Start};
use personality::coverage::What;
use personality::musubi::Musubi;
use personality::server::{Refusal, Server, Spawn};
use rt::fault;
use rt::section::passed;
use rt::serve::Ways;

musubi::program!(run);

struct Service(&'static Server<Musubi>);

fn run(_start: &Start) -> i32 {
    let ready = personality::musubi::begin().and_then(|server| {
        let service: &'static Service = Box::leak(Box::new(Service(server)));
        let gates = linux_serve_by(service, Ways::default().post(musubi::servers::post()?))?;
        musubi::names::publish("linux", &gates)
    });
    match ready {
        Ok(()) => personality::musubi::close_what_is_left(),
        Err(error) => {
            musubi::eprintln!("linux: {error}");
            1
        }
    }
}

/// What a refusal is among the errors of calls.
fn error_of(refusal: &Refusal) -> Error {
    match refusal {
        Refusal::Defect(_) | Refusal::Native | Refusal::NoInterpreter(_) => Error::BadProgram,
        Refusal::NotReadable => Error::Denied,
        Refusal::Arguments(_) => Error::TooBig,
        Refusal::Kernel(error) => *error,
    }
}

/// Puts a line into a buffer, ended by a zero if there is room.
fn put_line(to: &mut [u8], line: &[u8]) -> Result<u64, Error> {
    let len = line.len().min(to.len().saturating_sub(1));
    // A fault in the middle would end this call, and leave what it has in hand.
    fault::copy_out(to, &[&line[..len], &[0][..]].concat())?;
    Ok(len as u64)
}

impl Linux for Service {
    fn spawn(&self, caller: &Caller, request: &[u8], section: u64, len: u64, reason: &mut [u8]) -> Result<u64, Error> {
        if request.len() > LEN_MAX {
            return Err(Error::TooBig);
        }
        // A copy: the caller's other threads could change it between check and use.
        let request = Request::decode(&fault::copy_in(request)?)?;
        // Who speaks for nobody has nobody to pay for him once his call is over.
        if caller.user == USER_NOBODY
            || (request.user != caller.user || request.payer != 0) && caller.user != USER_SYSTEM
        {
            return Err(Error::Denied);
        }
        // Who sends a message is not there to be asked what he may read; and what he starts is paid for by his task, not by this one's.
        let by_message = caller.flags & (BY_POST | BY_LINE) != 0;
        if by_message && section != 0 && caller.user != USER_SYSTEM {
            return Err(Error::NotSupported);
        }
        let payer = if by_message && request.payer == 0 { caller.task } else { request.payer };
        // This server reads more than its callers may: what it runs for one of them is what that one may read, and
        // no other one's that comes to lie there meanwhile.
        // (What a file holds is known by where it begins, whatever length is said.)
        if section != 0 && !by_message && !passed(section, len.max(1), false) {
            return Err(Error::Denied);
        }
        let spawn = Spawn {
            path: &request.path,
            arguments: &request.args,
            environment: &request.env,
            streams: request.streams,
            file: section,
            len,
            user: request.user,
            limits: request.limits,
            payer,
        };
        self.0.spawn(&spawn).map_err(|refusal| match put_line(reason, format!("{refusal}").as_bytes()) {
            Ok(_) => error_of(&refusal),
            Err(gone) => gone,
        })
    }

    fn unknown(&self, index: u64) -> (u64, u64) {
        let coverage = self.0.coverage.lock();
        let mut calls = coverage.iter().filter_map(|(what, count)| match what {
            What::Call(number) => Some((*number, count.count)),
            _ => None,
        });
        usize::try_from(index).ok().and_then(|index| calls.nth(index)).unwrap_or((0, 0))
    }

    fn refused(&self, index: u64, line: &mut [u8]) -> Result<u64, Error> {
        let lines = self.0.coverage.lock().lines();
        let found = usize::try_from(index).ok().and_then(|index| lines.lines().nth(index));
        put_line(line, found.ok_or(Error::NotFound)?.as_bytes())
    }
}
