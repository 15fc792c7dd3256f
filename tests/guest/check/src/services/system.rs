//! The system's own servers.

use super::answers;
use crate::report::{Outcome, doing};
use crate::{holds, same};
use musubi::command::Command;
use musubi::files::{self, File};
use musubi::interfaces::console::ConsoleClient;
use musubi::interfaces::keyboard::KeyboardClient;
use musubi::interfaces::linux::{LinuxClient, LinuxService};
use musubi::interfaces::pipes::PipesClient;
use musubi::interfaces::sched::SchedClient;
use musubi::rt::section;
use musubi::{Error, Rights, names};

/// One question to each server of the system, by its gate and by its post (K1-5, 9).
pub fn every_server_by_both_ways() -> Outcome {
    let answers = answers()?;
    let gate = |name| names::lookup(name).map_err(doing(name));
    let console = ConsoleClient::bind(gate("console")?).map_err(doing("bind"))?;
    let posts = console.by_post(&answers).map_err(doing("console"))?;
    same!(posts.size().map_err(doing("sending"))?.wait(), console.size(), "the console's size");
    let pipes = PipesClient::bind(gate("pipes")?).map_err(doing("bind"))?;
    let posts = pipes.by_post(&answers).map_err(doing("pipes"))?;
    same!(posts.streams().map_err(doing("sending"))?.wait(), pipes.streams(), "the gates of pipes");
    // The personality makes tasks on its caller's thread, which pays for them.
    let linux = LinuxClient::bind(gate("linux")?).map_err(doing("bind"))?;
    same!(linux.by_post(&answers).err(), Some(Error::NotSupported), "the personality's post");
    let sched = SchedClient::bind(gate("sched")?).map_err(doing("bind"))?;
    let posts = sched.by_post(&answers).map_err(doing("sched"))?;
    same!(
        posts.processors(u64::MAX).map_err(doing("sending"))?.wait(),
        sched.processors(u64::MAX),
        "a job that is not there"
    );
    let keyboard = KeyboardClient::bind(gate("keyboard")?).map_err(doing("bind"))?;
    let posts = keyboard.by_post(&answers).map_err(doing("keyboard"))?;
    same!(
        posts.listen(u64::MAX).map_err(doing("sending"))?.wait(),
        keyboard.listen(u64::MAX),
        "a way that is not there"
    );
    Ok(())
}

/// The personality reads more than its callers may, and knows a file by where it begins: what it runs for somebody is what that one may
/// read, whatever length he says.
pub fn a_file_that_may_not_be_read() -> Outcome {
    const PATH: &[u8] = b"/tmp/not-to-be-read";
    let file = File::create(PATH).map_err(doing("create"))?;
    file.write_all(0, b"\x7fELF, but no more of it").map_err(doing("write"))?;
    drop(file);
    let linux = LinuxService::new_with_args(names::lookup("linux").map_err(doing("linux"))?, 4096);
    let request = Command::new(PATH).args(["it"]).request();
    let run = |at: u64, len: u64| linux.spawn(&request, at, len, &mut [0; 64]);
    let info = files::find(PATH).map_err(doing("find"))?;
    same!(run(info.section, info.len), Err(Error::BadProgram), "one that may be read");
    files::set_mode(PATH, 0).map_err(doing("set_mode"))?;
    holds!(!section::may(info.section, 1, Rights::READ, section::Who::Own), "it may be read");
    for len in [info.len, 1, 0] {
        same!(run(info.section, len), Err(Error::Denied), "one that may not be read, of {len} bytes");
    }
    same!(run(0, 0), Err(Error::BadProgram), "an empty file");
    files::remove(PATH).map_err(doing("remove"))
}
