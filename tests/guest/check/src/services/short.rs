//! A server that finds no more memory: it refuses what it has not begun, whichever way that came, goes on, and takes up more when it has given
//! some back.

use super::{END_NS, answers};
use crate::report::{Outcome, doing};
use crate::{holds, same};
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Bound::{Excluded, Unbounded};
use musubi::abi::task::Limits;
use musubi::command::Command;
use musubi::interfaces::ledger::{ENTRY_MAX, Ledger, LedgerClient, RECORD_MAX, ledger_serve_by};
use musubi::rt::post::Post;
use musubi::rt::serve::Ways;
use musubi::rt::sync::Mutex;
use musubi::rt::{task, time};
use musubi::{Caller, Error, names};

/// What the server may have: itself (all these checks), and a heap of some hundred pages.
const FRAMES: u64 = 1500;
/// More records than have room there.
const MOST: usize = 20_000;
/// Tries in vain.
const VAIN: usize = 50;

/// Keeps on its heap what anybody gives it.
struct Keeper(Mutex<BTreeMap<String, Vec<u8>>>);

impl Ledger for Keeper {
    fn keep(&self, _: &Caller, _: u64, key: &str, record: &[u8]) -> Result<(), Error> {
        self.0.lock().insert(key.to_owned(), record.to_vec());
        Ok(())
    }

    fn forget(&self, _: &Caller, _: u64, key: &str) -> Result<(), Error> {
        self.0.lock().remove(key).map(drop).ok_or(Error::NotFound)
    }

    fn next(&self, _: &Caller, after: &str, entry: &mut [u8]) -> Result<u64, Error> {
        let all = self.0.lock();
        let (key, record) = all.range::<str, _>((Excluded(after), Unbounded)).next().ok_or(Error::NotFound)?;
        let parts = [key.as_bytes(), b"\0", record];
        let len = parts.iter().map(|part| part.len()).sum();
        let to = entry.get_mut(..len).ok_or(Error::TooBig)?;
        to.copy_from_slice(&parts.concat());
        Ok(len as u64)
    }
}

/// The server, by this name.
pub fn role(name: &str) -> i32 {
    static KEEPER: Keeper = Keeper(Mutex::new(BTreeMap::new()));
    let serve = || {
        let gates = ledger_serve_by(&KEEPER, Ways::default().post(Post::any()?))?;
        names::publish(name, &gates)
    };
    match serve() {
        Ok(()) => time::sleep_ns(u64::MAX / 4),
        Err(error) => return 100 + error.word() as i32,
    }
    1
}

pub fn a_server_without_memory_refuses() -> Outcome {
    let name = format!("keeper-{}", task::identity().task);
    let limits = Limits { frames: FRAMES, ..Limits::default() };
    let command = Command::new(b"bin/check").args(["check", "as", "keeper", &name]).limits(limits);
    let child = command.spawn().map_err(doing("the server"))?;
    let gate = names::await_name(&name, END_NS).map_err(doing("its name"))?;
    let by_gate = LedgerClient::bind(gate).map_err(doing("bind"))?;
    let answers = answers()?;
    let by_post = by_gate.by_post(&answers).map_err(doing("by_post"))?;
    let record = [7; RECORD_MAX];
    let keep = |n: usize| match n % 2 {
        0 => by_gate.keep(1, &format!("{n:06}"), &record),
        _ => by_post.keep(1, &format!("{n:06}"), &record)?.wait(),
    };
    let kept = (0..MOST).find_map(|n| keep(n).err().map(|error| (n, error)));
    let Some((kept, error)) = kept else { return Err(format!("{MOST} records found room")) };
    same!(error, Error::NoMemory, "what did not find room");
    for n in kept..kept + VAIN {
        same!(keep(n), Err(Error::NoMemory), "more of it");
    }
    // Nothing of that was begun, and all else is there.
    let (mut entry, mut after, mut found) = ([0; ENTRY_MAX], String::new(), 0);
    loop {
        match by_gate.next(&after, &mut entry) {
            Ok(len) => {
                let wanted = format!("{found:06}");
                let (key, value) = entry[..len as usize].split_at(wanted.len());
                holds!(key == wanted.as_bytes() && value[0] == 0 && value[1..] == record, "record {found}");
                (after, found) = (wanted, found + 1);
            }
            Err(error) => {
                same!(error, Error::NotFound, "the end");
                break;
            }
        }
    }
    same!(found, kept, "what it has");
    // What it gives back it can take again.
    for n in 0..kept / 2 {
        same!(by_gate.forget(1, &format!("{n:06}")), Ok(()), "giving back");
    }
    for n in 0..kept / 4 {
        same!(keep(n), Ok(()), "room again");
    }
    holds!(task::info(child.task).is_some(), "the server has ended");
    child.kill().map_err(doing("kill"))?;
    child.wait_for(END_NS).map(drop).map_err(doing("its end"))
}
