//! What a scheduler is told: the page that it reads, and what has no room there yet (core/sched, outbox).

use abi::sched::{EVENTS, Event, RING_FIRST};
use ::sched::{Nonsense, Outbox, Weight};
use arch::frames::Frame;
use zerocopy::IntoBytes;
use abi::Error;
use abi::layout::PAGE;

const HEAD: usize = 0;
const TAIL: usize = 4;
const MISSED: usize = 8;
const PROCESSOR: usize = 16;

/// The ring of a processor.
#[derive(Default)]
pub struct Ring {
    outbox: Outbox<Event, EVENTS>,
    /// The same for all that ever sit here.
    page: Option<Frame>,
}

impl Ring {
    /// There is a page from now on.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn make(&mut self) -> Result<(), Error> {
        if self.page.is_none() {
            self.page = Some(Frame::lasting().ok_or(Error::NoMemory)?);
        }
        Ok(())
    }

    /// The page, empty, for the section by which programs see it.
    pub fn begin(&self, processor: u64) -> Option<Frame> {
        let page = self.page.as_ref().and_then(Frame::again)?;
        page.write(HEAD, &[0; PAGE as usize]);
        page.write(PROCESSOR, &processor.to_le_bytes());
        Some(page)
    }

    /// A new reader begins.
    pub fn forget(&mut self) {
        self.outbox = Outbox::new();
    }

    /// Tells something. Whether the reader should look soon.
    ///
    /// # Errors
    /// It says that it has read what was not written.
    pub fn post(&mut self, event: Event, weight: Weight) -> Result<bool, Nonsense> {
        let Ring { outbox, page: Some(page) } = self else { return Ok(false) };
        let soon = outbox.post(event, weight, page.load(HEAD), |slot, event| put(page, slot, event));
        page.write(MISSED, &outbox.missed().to_le_bytes());
        page.store(TAIL, outbox.tail());
        soon
    }

    /// Puts what had no room into the page. How much there is to read.
    ///
    /// # Errors
    /// As for [`Ring::post`].
    pub fn catch_up(&mut self) -> Result<u32, Nonsense> {
        let Ring { outbox, page: Some(page) } = self else { return Ok(0) };
        let head = page.load(HEAD);
        let caught = outbox.catch_up(head, |slot, event| put(page, slot, event));
        page.store(TAIL, outbox.tail());
        caught.and_then(|()| outbox.unread(head))
    }

    /// How much can be told and read at once, if nothing waits for room before it.
    pub fn room(&self) -> u32 {
        let head = self.page.as_ref().map_or(0, |page| page.load(HEAD));
        self.outbox.room(head)
    }

    /// Whether everything was read.
    pub fn is_read(&self) -> bool {
        self.outbox.is_empty(self.page.as_ref().map_or(0, |page| page.load(HEAD))) == Ok(true)
    }

    /// Events that were lost.
    pub fn missed(&self) -> u64 {
        self.outbox.missed()
    }
}

fn put(page: &Frame, slot: u32, event: &Event) {
    page.write(RING_FIRST as usize + slot as usize * size_of::<Event>(), event.as_bytes());
}
