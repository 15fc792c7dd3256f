//! A pager that keeps pages compressed. At most so many are in memory; the one that came first goes first.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};
use musubi::Error;
use musubi::abi::layout::PAGE;
use musubi::abi::section::kind;
use musubi::interfaces::memory::{GiveBack, MemoryService, give_back_serve_by};
use musubi::interfaces::pager::{Pager, pager_serve};
use musubi::rt::gate::ANYBODY;
use musubi::rt::pager::{self, Was, answer, supply};
use musubi::rt::post::Post;
use musubi::rt::serve::Ways;
use musubi::rt::{Mutex, Section};

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub faults: u64,
    pub squeezed: u64,
    /// Pages that went without being compressed again: nothing had been stored to them.
    pub dropped: u64,
    /// Compressed pages, and their bytes.
    pub kept: u64,
    pub bytes: u64,
}

struct State {
    /// A page to put together what is supplied, and to look at what was taken.
    scratch: Section,
    room: Vec<u8>,
    /// Pages that are in memory, in the order in which they came.
    there: VecDeque<u64>,
    /// What is kept of pages; of one that is not here and not there, zeroes.
    kept: BTreeMap<u64, Box<[u8]>>,
    counts: Counts,
    given: u64,
}

/// With fewer pages it would not get on.
const LEAST: usize = 8;

/// A section that is larger than what it has in memory.
pub struct Keeper {
    base: u64,
    /// Pages that may be in memory: fewer when it is asked to give some back.
    most: AtomicUsize,
    state: Mutex<State>,
}

impl Keeper {
    /// A section of `len` bytes, with at most `most` pages in memory. This program is its pager for as long as it runs.
    pub fn section(len: u64, most: usize) -> Result<(Section, &'static Keeper), Error> {
        let section = Section::create(len, len, kind::DATA, 0)?;
        let scratch = Section::create(PAGE, PAGE, kind::DATA, 0)?;
        let room = vec![0; get_maximum_output_size(PAGE as usize)];
        let (there, kept) = (VecDeque::with_capacity(most), BTreeMap::new());
        let state = Mutex::new(State { scratch, room, there, kept, counts: Counts::default(), given: 0 });
        let keeper: &'static Keeper =
            Box::leak(Box::new(Keeper { base: section.base(), most: AtomicUsize::new(most.max(LEAST)), state }));
        pager::set(section.base(), pager_serve(keeper)?.address(), 1, 0)?;
        // Without a memory server nobody asks.
        if let Ok(server) = musubi::names::lookup("memory").map(MemoryService::new) {
            let post = Post::any()?;
            give_back_serve_by(keeper, Ways { receivers: 1, ..Ways::default().post(post) })?.admit(&ANYBODY)?;
            server.register(post.0)?;
        }
        Ok((section, keeper))
    }

    pub fn counts(&self) -> Counts {
        let state = self.state.lock();
        let bytes = state.kept.values().map(|page| page.len() as u64).sum();
        Counts { kept: state.kept.len() as u64, bytes, ..state.counts }
    }

    /// Gives the memory of pages back until at most `most` are there.
    pub fn shrink(&self, most: usize) -> Result<(), Error> {
        let state = &mut *self.state.lock();
        while state.there.len() > most {
            self.one_goes(state)?;
        }
        Ok(())
    }

    /// Pages that were given back when somebody asked.
    pub fn given(&self) -> u64 {
        self.state.lock().given
    }

    fn one_goes(&self, state: &mut State) -> Result<(), Error> {
        let Some(page) = state.there.pop_front() else { return Ok(()) };
        let gone = self.goes(state, page);
        if gone.is_err() {
            state.there.push_front(page);
        }
        gone
    }

    fn goes(&self, state: &mut State, page: u64) -> Result<(), Error> {
        let at = self.base + page * PAGE;
        if pager::drop_clean(at)? != Was::Dirty {
            state.counts.dropped += 1;
            return Ok(());
        }
        pager::take_page(at, state.scratch.base())?;
        let len = compress_into(state.scratch.bytes(), &mut state.room).map_err(|_| Error::TooBig)?;
        state.kept.insert(page, Box::from(&state.room[..len]));
        state.counts.squeezed += 1;
        Ok(())
    }
}

impl Pager for Keeper {
    fn fault(&self, _: u64, offset: u64, _: u64, _: u64) -> Result<u64, Error> {
        let (page, state) = (offset / PAGE, &mut *self.state.lock());
        state.counts.faults += 1;
        while state.there.len() >= self.most.load(Ordering::SeqCst) {
            self.one_goes(state)?;
        }
        let at = self.base + page * PAGE;
        match state.kept.get(&page) {
            Some(kept) => {
                // What is kept stays until something else is stored there.
                let len = decompress_into(kept, state.scratch.bytes_mut()).map_err(|_| Error::Refused)?;
                if len != PAGE as usize {
                    return Err(Error::Refused);
                }
                pager::supply_page(at, state.scratch.base(), supply::CLEAN)?;
            }
            None => pager::supply_zeroes(at, supply::CLEAN)?,
        }
        state.there.push_back(page);
        Ok(answer::DONE)
    }
}

impl GiveBack for Keeper {
    /// What it has given it does not take again by itself. Compressed pages need memory, too: what there is of them counts less.
    fn give_back(&self, pages: u64) -> Result<u64, Error> {
        let state = &mut *self.state.lock();
        let before = state.there.len();
        let left = before.saturating_sub(usize::try_from(pages).unwrap_or(usize::MAX)).max(LEAST.min(before));
        self.most.store(left.max(LEAST), Ordering::SeqCst);
        // As far as it gets: where there is no memory for what is compressed, the page stays.
        while state.there.len() > left && self.one_goes(state).is_ok() {}
        let given = (before - state.there.len()) as u64;
        state.given += given;
        Ok(given)
    }
}
