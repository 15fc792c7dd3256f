//! Pipes whose makers have ended, and how many one program may have.

use crate::report::{Outcome, doing};
use crate::{holds, same};
use alloc::format;
use alloc::vec::Vec;
use musubi::abi::rights::principal;
use musubi::command::Command;
use musubi::interfaces::pipes::PipesClient;
use musubi::interfaces::stream::StreamClient;
use musubi::rt::post::Post;
use musubi::rt::{thread, time};
use musubi::{AclEntry, Error, Rights, names};

const PATIENCE_NS: u64 = 20_000_000_000;
/// Pipes that one task may have, as its server says.
const EACH: usize = 128;

fn server() -> Result<(PipesClient, StreamClient), Error> {
    let pipes = PipesClient::bind(names::lookup("pipes")?)?;
    let streams = StreamClient::bind_with_args(pipes.streams()?, 4096)?;
    Ok((pipes, streams))
}

/// Makes a pipe, and says which at this post.
pub fn maker(post: u64) -> i32 {
    let made = server().and_then(|(pipes, _)| pipes.make());
    let said = made.and_then(|id| Post(post).send(1, [id, 0, 0, 0, 0, 0], None));
    if said.is_err() {
        return 1;
    }
    thread::park()
}

/// Its maker is killed while somebody waits at one end and nobody is at the other: he hears that, and does not wait for ever.
pub fn a_pipe_ends_with_its_users() -> Outcome {
    let post = Post::any().map_err(doing("a post"))?;
    let entry = AclEntry { principal: principal::ANY, rights: Rights::CALL.bits(), id: 0, text: 0 };
    post.allow(&entry).map_err(doing("its list"))?;
    for reads in [true, false] {
        let child = Command::new(b"bin/check").args(["check", "as", "pipe-maker", &format!("{}", post.0)]).spawn();
        let child = child.map_err(doing("starting"))?;
        let id = post.receive(PATIENCE_NS).map_err(doing("its number"))?.words[0];
        let waits = move || -> Result<u64, Error> {
            let (_, streams) = server()?;
            if reads {
                return streams.read(id, &mut [0; 8]);
            }
            loop {
                streams.write(id + 1, &[7; 4096])?;
            }
        };
        let outcome = alloc::sync::Arc::new(musubi::rt::Mutex::new(None));
        let here = outcome.clone();
        let waiter = thread::spawn(move || *here.lock() = Some(waits()), 0).map_err(doing("a thread"))?;
        time::sleep_ns(20_000_000);
        same!(*outcome.lock(), None, "as long as the maker is there");
        child.kill().and_then(|()| child.wait().map(drop)).map_err(doing("killing"))?;
        let until = time::now_ns() + PATIENCE_NS;
        while outcome.lock().is_none() {
            holds!(time::now_ns() < until, "it waits for ever, reads: {reads}");
            time::sleep_ns(5_000_000);
        }
        waiter.join().map_err(doing("joining"))?;
        let expected = if reads { Ok(0) } else { Err(Error::Dead) };
        same!(outcome.lock().take(), Some(expected), "what it hears, reads: {reads}");
    }
    post.free(true).map_err(doing("freeing"))
}

/// One program's pipes leave some to others, and what it closes it may have again.
pub fn no_program_has_all_pipes() -> Outcome {
    let (pipes, streams) = server().map_err(doing("pipes"))?;
    let made: Vec<u64> = core::iter::from_fn(|| pipes.make().ok()).take(2 * EACH).collect();
    let refused = pipes.make();
    // (Others of this user's have some, too: what is left then is theirs as much as this program's.)
    holds!(made.len() > EACH / 2 && made.len() <= EACH, "{} pipes", made.len());
    same!(refused, Err(Error::Quota), "one more");
    let close = |id: u64| streams.close(id).and_then(|()| streams.close(id + 1));
    close(made[0]).map_err(doing("closing"))?;
    let again = pipes.make().map_err(doing("another one in its place"))?;
    made.into_iter().skip(1).chain([again]).try_for_each(close).map_err(doing("closing"))?;
    Ok(())
}
