//! Who is asked, and waited for. What a pager does not receive lies at its post, charged to this server, whatever it has answered: so it is not asked
//! again before it has received what it was asked last, and those who have answered nothing yet are asked only so many at a time.

use super::{MOST, Pager, has_room};
use crate::round::Said;
use alloc::boxed::Box;
use alloc::vec::Vec;
use musubi::abi::info::layout::PostCounts;
use musubi::abi::post;
use musubi::abi::rights::principal;
use musubi::interfaces::memory::{GiveBackLater, TIME_NS};
use musubi::rt::later::Answer;
use musubi::rt::post::Post;
use musubi::rt::{Answers, info, section, task};
use musubi::{AclEntry, Error, Rights};

/// Of the kernel's heap for each request that may lie unanswered: a message of the server's account stands for half a megabyte (decision 9), a request
/// that is waited for [`TIME_NS`] in vain leaves three of them, and half of the account is for something else. And at least so many, which the
/// smallest account has room for.
const HEAP_EACH: u64 = 3 << 20;
const LEAST: u64 = 4;

/// A request that is not over.
struct Open {
    task: u64,
    post: Post,
    pages: u64,
    /// So many messages had been sent to the post when the request was, and when no more was to come of it: they are received in that order.
    request: u64,
    last: u64,
    /// Where it is answered, until it is. For this one alone: of what nobody waits for any more nothing else is asked.
    wait: Option<(&'static Answers, Answer<'static, u64>)>,
}

pub struct Desk {
    idle: Vec<&'static Answers>,
    /// One of each task's.
    open: Vec<Open>,
    most: usize,
}

/// What has come to a post; nothing where there is no such post.
fn counts(post: Post) -> PostCounts {
    let number = post::number(task::identity().node, post.0);
    number.zip(info::all().ok()).map_or(PostCounts::default(), |(number, all)| all.post_counts(number.into()))
}

fn answers() -> Result<&'static Answers, Error> {
    Answers::new().map(|answers| &*Box::leak(Box::new(answers)))
}

impl Desk {
    pub fn new() -> Result<Desk, Error> {
        let (mut idle, open) = (Vec::with_capacity(MOST + 1), Vec::with_capacity(MOST));
        idle.push(answers()?);
        Ok(Desk { idle, open, most: (task::memory()?.kernel_heap / HEAP_EACH).max(LEAST) as usize })
    }

    /// What is over meanwhile; `late` hears how much a task says to have given after all.
    pub fn look(&mut self, mut late: impl FnMut(u64, u64)) {
        let idle = &mut self.idle;
        self.open.retain_mut(|one| {
            // Its answer may be the last that comes from there.
            let is_gone = section::owner(one.post.0) != Ok(one.task);
            if let Some((answers, answer)) = &mut one.wait {
                let is_here = answer.is_ready();
                if is_here && let Ok(given) = answer.wait_for(0) {
                    late(one.task, given.min(one.pages));
                }
                if is_here || is_gone {
                    idle.push(answers);
                    one.wait = None;
                }
            }
            !is_gone && (one.wait.is_some() || counts(one.post).received() < one.last)
        });
    }

    /// Whoever answers what it is asked is always asked: if it waits for that, nothing lies there.
    fn may_ask(&self, pager: &Pager) -> bool {
        let own = self.open.iter().find(|one| one.task == pager.task);
        // Before the next request it has to receive what lies there.
        let is_over =
            |one: &Open| one.wait.is_none() && one.post == pager.post && counts(one.post).received() >= one.request;
        if own.is_some_and(|one| !is_over(one)) {
            return false;
        }
        let others = self.open.iter().map(|one| one.task).filter(|task| *task != pager.task);
        own.is_none() && pager.prompt || has_room(others, pager.task, self.most)
    }

    /// One that answers an error has given nothing; what it says to have given is only counted.
    pub fn ask(&mut self, pager: &Pager, pages: u64) -> Said {
        if !self.may_ask(pager) {
            return Said::Unasked;
        }
        let Some(answers) = self.idle.pop().or_else(|| answers().ok()) else { return Said::Unasked };
        // Nothing changes if it is there; and it goes with that text.
        let entry = AclEntry { principal: principal::ANY, rights: Rights::CALL.bits(), id: 0, text: pager.text };
        let asked = answers
            .admit(&entry)
            .and_then(|()| GiveBackLater::to_program(pager.post, answers, pager.text).give_back(pages));
        let request = counts(pager.post).sent();
        let (wait, said) = match asked.map(|mut answer| (answer.wait_for(TIME_NS), answer)) {
            Ok((Err(Error::TimedOut), answer)) => (Some((answers, answer)), Said::Nothing),
            Ok((Ok(given), _)) => (None, Said::Gave(given.min(pages))),
            Err(Error::MessageQuota | Error::NoMemory) => (None, Said::Unasked),
            Ok((Err(_), _)) | Err(_) => (None, Said::Nothing),
        };
        if wait.is_none() {
            self.idle.push(answers);
        }
        if said != Said::Unasked {
            self.open.retain(|one| one.task != pager.task);
            let Pager { task, post, .. } = *pager;
            let there = counts(post);
            if wait.is_some() || there.received() < there.sent() {
                self.open.push(Open { task, post, pages, request, last: there.sent(), wait });
            }
        }
        said
    }
}
