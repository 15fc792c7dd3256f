//! Programs that the loader is asked for by its post: a thread of the loader's own starts them, and nobody has by that what he may not have.

use super::{END_NS, answers};
use crate::processes::role;
use crate::report::{Outcome, doing};
use crate::{holds, same};
use alloc::vec::Vec;
use musubi::abi::task::exit;
use musubi::command::Child;
use musubi::files::{self, File};
use musubi::interfaces::loader::LoaderClient;
use musubi::interfaces::request::Request;
use musubi::rt::{Answers, task};
use musubi::{Error, names};

fn loader() -> Result<LoaderClient, Error> {
    LoaderClient::bind(names::lookup("loader")?)
}

/// Requests at a time, of which some may be told to try again.
const CROWD: usize = 12;

/// What is started is its sender's; what only the system may have is refused; and so is what is no request, as by the gate.
pub fn started_by_the_loaders_post() -> Outcome {
    let (client, answers) = (loader().map_err(doing("loader"))?, answers()?);
    let posts = client.by_post(&answers).map_err(doing("by_post"))?;
    let mut room = client.alloc(256).map_err(doing("room"))?;
    let request = role(&["park"]).request();
    let (me, user) = (task::identity().task, musubi::start().user());
    for by_post in [false, true] {
        let started = match by_post {
            true => posts.spawn(&request, &mut room).and_then(|one| one.wait()),
            false => client.spawn(&request, &mut room),
        };
        let child = Child { task: started.map_err(doing("spawn"))? };
        let listed = task::info(child.task).ok_or("it is not there")?;
        same!((listed.payer, listed.user), (me, user), "who pays, and its user (by the post: {by_post})");
        child.kill().map_err(doing("kill"))?;
        same!(child.wait_for(END_NS).map(|exit| exit.kind), Ok(exit::KILLED), "its end (by the post: {by_post})");
    }
    let mut others = Vec::new();
    for (what, user, payer, path, why) in [
        ("as the system", 0, 0, &b"bin/check"[..], Error::Denied),
        ("at the system's cost", user, 1, b"bin/check", Error::Denied),
        ("what is not there", user, 0, b"bin/nothing-of-this-name", Error::NotFound),
        ("a directory", user, 0, b"/bin", Error::IsADirectory),
    ] {
        let mut other = Request::decode(&request).map_err(doing("decode"))?;
        (other.user, other.payer, other.path) = (user, payer, path.to_vec());
        others.push((what, other.encode(), why));
    }
    others.push(("half of a request", request[..request.len() / 2].to_vec(), Error::BadArgument));
    for (what, other, why) in others {
        same!(client.spawn(&other, &mut room), Err(why), "{what}, by the gate");
        let refused = posts.spawn(&other, &mut room).and_then(|one| one.wait());
        same!(refused, Err(why), "{what}, by the post");
    }
    let refused = [
        posts.place_as("check", 1, 0).and_then(|one| one.wait()),
        posts.use_files(1).and_then(|one| one.wait()),
        posts.use_linux(0).and_then(|one| one.wait()),
    ];
    same!(refused, [Err(Error::Denied); 3], "what is the system's, by the post");
    same!(answers.strangers(), 0, "other messages");
    a_crowd(&client, &answers)
}

/// Many at once, and senders that do not wait for what they have asked for: the loader goes on.
fn a_crowd(client: &LoaderClient, answers: &Answers) -> Outcome {
    let posts = client.by_post(answers).map_err(doing("by_post"))?;
    let nothing = role(&[]).request();
    let nothing =
        Request { path: b"bin/nothing-of-this-name".to_vec(), ..Request::decode(&nothing).map_err(doing("decode"))? };
    let nothing = nothing.encode();
    for round in 0..3 {
        let all: Result<Vec<_>, Error> = (0..CROWD).map(|_| posts.spawn(&nothing, &mut [])).collect();
        for one in all.map_err(doing("sending"))? {
            let told = one.wait();
            holds!(matches!(told, Err(Error::NotFound | Error::Busy)), "one of many, round {round}: {told:?}");
        }
        let ended = role(&["services", "ask-and-leave"]).spawn().map_err(doing("who does not wait"))?;
        same!(ended.wait_for(END_NS).map(|exit| exit.code), Ok(0), "who does not wait, round {round}");
        same!(posts.spawn(&nothing, &mut []).and_then(|one| one.wait()), Err(Error::NotFound), "after round {round}");
    }
    Ok(())
}

/// The program: asks for some that end at once, and ends.
pub fn ask_and_leave() -> Result<(), Error> {
    let (client, answers) = (loader()?, Answers::new()?);
    let posts = client.by_post(&answers)?;
    let request = role(&["status", "0"]).request();
    let all: Result<Vec<_>, Error> = (0..4).map(|_| posts.spawn(&request, &mut [])).collect();
    all?.into_iter().for_each(core::mem::forget);
    task::exit(0)
}

/// By the gate a file is read on the thread of who asks; by the post by its mode, on a thread of the system's. So by the post
/// nobody has one started that he may not read, nor one that only some may.
pub fn only_what_may_be_read_is_started() -> Outcome {
    const PATH: &[u8] = b"/tmp/not-to-be-started";
    let (client, answers) = (loader().map_err(doing("loader"))?, answers()?);
    let posts = client.by_post(&answers).map_err(doing("by_post"))?;
    let file = File::create(PATH).map_err(doing("create"))?;
    file.write_all(0, b"\x7fELF, but no more of it").map_err(doing("write"))?;
    drop(file);
    let request = Request { path: PATH.to_vec(), ..Request::decode(&role(&[]).request()).map_err(doing("decode"))? };
    let request = request.encode();
    let mut room = client.alloc(256).map_err(doing("room"))?;
    for (mode, by_gate, by_post) in [
        (0o755, Error::BadProgram, Error::BadProgram),
        (0o700, Error::BadProgram, Error::Denied),
        (0o311, Error::Denied, Error::Denied),
        (0o644, Error::Denied, Error::Denied),
        (0, Error::Denied, Error::Denied),
    ] {
        files::set_mode(PATH, mode).map_err(doing("set_mode"))?;
        same!(client.spawn(&request, &mut room), Err(by_gate), "of mode {mode:o}, by the gate");
        let told = posts.spawn(&request, &mut room).and_then(|one| one.wait());
        same!(told, Err(by_post), "of mode {mode:o}, by the post");
    }
    files::remove(PATH).map_err(doing("remove"))
}
