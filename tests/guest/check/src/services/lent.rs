//! Requests that lend what they pass by pointer with the message.

use super::answers;
use crate::report::{Outcome, doing};
use crate::{holds, same};
use alloc::vec::Vec;
use musubi::Error;
use musubi::abi::layout::PAGE;
use musubi::interfaces::names::NamesClient;
use musubi::rt::answers::join_all;
use musubi::rt::bound::result_of;
use musubi::rt::later::Later;
use musubi::rt::section;

/// With each message: the list of the argument section never says that the server's threads may use it.
pub fn until_the_answer() -> Outcome {
    let answers = answers()?;
    let gate = musubi::start().names();
    let client = NamesClient::bind_with_args(gate, 4 * PAGE).map_err(doing("bind"))?;
    let args = client.bound().binding().args;
    let before = section::acl(args);
    holds!(before.is_ok(), "the argument section's list: {before:?}");
    let posts = client.by_post(&answers).map_err(doing("by_post"))?;
    for round in 0..20 {
        let found: Result<Vec<_>, Error> =
            ["files", "nobody", "files"].map(|name| posts.lookup(name)).into_iter().collect();
        let found = answers.block_on(join_all(found.map_err(doing("sending"))?)).map_err(doing("waiting"))?;
        same!(
            found.iter().map(|one| one.as_ref().err().copied()).collect::<Vec<_>>(),
            [None, Some(Error::NotFound), None],
            "what is found in round {round}"
        );
    }
    let mut page = client.alloc(64).map_err(doing("alloc"))?;
    page.fill(0xff);
    let listed = posts.list(0, &mut page).map_err(doing("sending"))?.wait();
    holds!(listed.is_ok() && page.iter().any(|byte| *byte != 0xff), "what the server writes: {listed:?}");
    // Who drops a request has what it lent, and is not answered.
    for _ in 0..20 {
        drop(posts.list(0, &mut page).map_err(doing("sending"))?);
        page.fill(0x55);
        holds!(page.iter().all(|byte| *byte == 0x55), "what is written to afterwards");
    }
    same!((answers.under_way(), answers.strangers()), (0, 0), "requests under way, and what is the answer to none");
    same!(section::acl(args), before, "the list of the argument section");
    // Without a loan there is nothing to be used, and the server goes on.
    let methods = NamesClient::INTERFACE.methods.len() as u64;
    let raw = Later::by_post(client.bound(), &answers, methods, NamesClient::IDENTITY);
    let raw = raw.map_err(doing("by_post"))?.begin(false, 1, [args, 4, 0, 0, 0, 0], []);
    let outcome = raw.map_err(doing("sending"))?.wait().and_then(result_of);
    holds!(
        matches!(outcome, Err(Error::BadAddress | Error::Refused | Error::Faulted)),
        "what is not lent: {outcome:?}"
    );
    same!(posts.lookup("files").map_err(doing("sending"))?.wait().is_ok(), true, "afterwards");
    drop(page);
    client.unbind().map_err(doing("unbind"))
}
