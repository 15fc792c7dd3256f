//! Receiving at one post: as at several, without what only those need; and what becomes of either.

use crate::message::Hands;
use crate::pool::{By, Permit, Pool};
use crate::receive::{Registered, Step};
use crate::receiver::Receiver;
use abi::Error;

impl Pool {
    /// [`Pool::receive_with`] at one post.
    #[inline(always)]
    pub(crate) fn receive_alone(&self, at: Permit, by: impl By, waits: bool, hands: &mut impl Hands) -> Step {
        if !waits {
            return self.poll(&[at], by, hands).unwrap_or_else(Step::Refused);
        }
        if self.is_stale(&at) {
            return Step::Refused(Error::Changed);
        }
        let me = self.receiver(by.receiver());
        let ticket = me.begin(by.domain());
        match self.register(me, by, ticket, 0, (at, self.post(at.post())), hands) {
            Registered::Waits | Registered::Taken => Step::Waits(ticket),
            over => self.over(me, over, by, ticket, hands),
        }
    }

    /// What a wait has come to that is over.
    #[cold]
    #[inline(never)]
    pub(crate) fn over(
        &self,
        me: &Receiver,
        registered: Registered,
        by: impl By,
        ticket: u32,
        hands: &mut impl Hands,
    ) -> Step {
        me.rest(ticket);
        match registered {
            Registered::Waits | Registered::Taken => Step::Waits(ticket),
            Registered::Refused(error) => Step::Ended(error),
            Registered::Came(popped) => self.take(popped, by, hands),
        }
    }
}
