//! What somebody asks to have started, as bytes: who may ask for that, and what he is told if it is refused.

use crate::image::Refusal;
use alloc::format;
use musubi::abi::gate::record::{BY_LINE, BY_POST};
use musubi::abi::task::{USER_NOBODY, USER_SYSTEM};
use musubi::interfaces::request::{LEN_MAX, Request};
use musubi::rt::fault;
use musubi::{Caller, Error};

/// Whether it runs on a thread of this program's.
#[must_use]
pub fn is_by_message(caller: &Caller) -> bool {
    caller.flags & (BY_POST | BY_LINE) != 0
}

/// Who may start a program as this user, at the cost of that task.
fn may_ask(caller: &Caller, request: &Request) -> Result<(), Refusal> {
    let user = caller.user;
    // Who speaks for nobody has nobody to pay for him once his call is over.
    if user == USER_NOBODY {
        return Err(Error::Denied.into());
    }
    if (request.user != user || request.payer != 0) && user != USER_SYSTEM {
        let reason = format!("user {user} cannot start a program as user {}", request.user);
        return Err(Refusal { error: Error::Denied, reason });
    }
    Ok(())
}

/// Starts what an encoded request says, in some way.
///
/// # Errors
/// Why not, with a line in `reason`.
pub fn start(
    caller: &Caller,
    request: &[u8],
    reason: &mut [u8],
    start: impl FnOnce(&Request) -> Result<u64, Refusal>,
) -> Result<u64, Error> {
    if request.len() > LEN_MAX {
        return Err(Error::TooBig);
    }
    // A copy: the caller's other threads could change it between check and use.
    let mut request = Request::decode(&fault::copy_in(request)?)?;
    let started = may_ask(caller, &request).and_then(|()| {
        // Nobody would pay for what a message has started here.
        if is_by_message(caller) && request.payer == 0 {
            request.payer = caller.task;
        }
        start(&request)
    });
    started.map_err(|refusal| {
        let line = refusal.reason.as_bytes();
        let len = line.len().min(reason.len().saturating_sub(1));
        match fault::copy_out(reason, &[&line[..len], &[0u8][..]].concat()) {
            Ok(()) => refusal.error,
            Err(gone) => gone,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use musubi::abi::gate::Record;

    #[test]
    fn who_may_ask_for_what() {
        let asks = |of: u64, flags: u32, user: u64, payer: u64| {
            let caller = Caller(Record { user: of, task: 7, flags, ..Record::default() });
            let request = Request { user, payer, ..Request::default() };
            let mut paid = None;
            let begin = |request: &Request| Ok(*paid.insert(request.payer));
            (start(&caller, &request.encode(), &mut [0; 64], begin), paid)
        };
        for flags in [0, BY_POST] {
            assert_eq!(asks(1, flags, 0, 0), (Err(Error::Denied), None), "as the system");
            assert_eq!(asks(1, flags, 1, 3), (Err(Error::Denied), None), "at another one's cost");
            assert_eq!(asks(USER_SYSTEM, flags, 1, 3), (Ok(3), Some(3)));
        }
        assert_eq!([0, BY_POST, BY_LINE].map(|flags| asks(1, flags, 1, 0).0), [Ok(0), Ok(7), Ok(7)]);
    }
}
