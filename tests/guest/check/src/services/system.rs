//! The system's own servers.

use super::answers;
use crate::report::{Outcome, doing};
use crate::same;
use musubi::interfaces::console::ConsoleClient;
use musubi::interfaces::keyboard::KeyboardClient;
use musubi::interfaces::linux::LinuxClient;
use musubi::interfaces::pipes::PipesClient;
use musubi::interfaces::sched::SchedClient;
use musubi::{Error, names};

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
