//! What time it would be if processors ran at once. Where an emulator has them take turns, a thread that does nothing but count on a
//! processor of its own has as many turns as each other one that is not idle: its beats are time on a machine whose processors are equally fast.
//! Who waits for another one, asleep or not, lets beats go by. Turns are to be shorter than whatever may be waited for.
//!
//! The emulator (QEMU 7.2) gives whoever comes after one that has used its whole turn an empty one. So every second processor has a thread
//! that wants none. Whoever works stays where it is: no other processor is ever idle but that of one who works.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use musubi::Error;
use musubi::rt::itc::Here;
use musubi::rt::thread::{self, Thread};
use musubi::rt::{Mutex, sync, task};

type Job = dyn Fn(usize) -> Result<(), Error> + Send + Sync;

/// Beats in many turns.
const BREATH: u64 = 1 << 16;

pub struct Stand {
    here: Here,
    /// Of each thread: the processor on which it is, and one.
    seats: Box<[AtomicU64]>,
    /// And who it is.
    names: Box<[AtomicU64]>,
    /// Each has one of its own.
    settled: AtomicU32,
    beats: AtomicU64,
    is_over: AtomicBool,
    /// The job, for how many it is, and how many there were before.
    job: Mutex<Option<(usize, &'static Job, u32)>>,
    /// How many jobs there were.
    jobs: AtomicU32,
    /// How many still work on this one.
    left: AtomicU32,
    failed: AtomicU64,
    threads: Mutex<Vec<Thread>>,
}

/// How many can work on so many processors.
pub fn places(processors: usize) -> usize {
    (processors / 2).saturating_sub(1)
}

impl Stand {
    /// On all processors.
    pub fn start() -> Result<&'static Stand, Error> {
        let processors = task::processors().count();
        let stand: &'static Stand = Box::leak(Box::new(Stand {
            here: Here::find()?,
            seats: (0..processors).map(|_| AtomicU64::new(0)).collect(),
            names: (0..processors).map(|_| AtomicU64::new(0)).collect(),
            settled: AtomicU32::new(0),
            beats: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            job: Mutex::new(None),
            jobs: AtomicU32::new(0),
            left: AtomicU32::new(0),
            failed: AtomicU64::new(0),
            threads: Mutex::new(Vec::new()),
        }));
        for number in 0..processors {
            let thread = thread::spawn(move || stand.live(number), 0)?;
            stand.threads.lock().push(thread);
        }
        while stand.settled.load(Ordering::SeqCst) == 0 {
            let _ = sync::wait(&stand.settled, 0, u64::MAX);
        }
        Ok(stand)
    }

    /// Whether nobody else has had one of the processors on which somebody never waits: then whoever was there is elsewhere, and turns were not fair.
    pub fn is_kept(&self) -> bool {
        let running: Vec<u64> = self.here.running().collect();
        let mut all = self.seats.iter().zip(&self.names);
        all.all(|(seat, name)| {
            let seat = seat.load(Ordering::SeqCst) as usize - 1;
            (seat.is_multiple_of(2) && seat != 0) || running.get(seat) == Some(&name.load(Ordering::SeqCst))
        })
    }

    pub fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// So many do this, each with its number. What `read` says before, and when the last one is done.
    pub fn run<T>(
        &self,
        count: usize,
        job: impl Fn(usize) -> Result<(), Error> + Send + Sync + 'static,
        read: impl Fn() -> T,
    ) -> Result<[T; 2], Error> {
        let job: &'static Job = Box::leak(Box::new(job));
        self.left.store(count as u32, Ordering::SeqCst);
        let number = self.jobs.load(Ordering::SeqCst);
        let before = read();
        *self.job.lock() = Some((count, job, number));
        self.jobs.store(number + 1, Ordering::SeqCst);
        sync::wake(&self.jobs, u64::MAX);
        loop {
            match self.left.load(Ordering::SeqCst) {
                0 => break,
                left => _ = sync::wait(&self.left, left, u64::MAX),
            }
        }
        let after = read();
        match self.failed.load(Ordering::SeqCst) {
            0 => Ok([before, after]),
            word => Err(Error::from_word(word).unwrap_or(Error::Faulted)),
        }
    }

    pub fn stop(&self) -> Result<(), Error> {
        self.is_over.store(true, Ordering::SeqCst);
        self.jobs.fetch_add(1, Ordering::SeqCst);
        sync::wake(&self.jobs, u64::MAX);
        let threads = core::mem::take(&mut *self.threads.lock());
        threads.into_iter().try_for_each(|one| one.join().map(drop))
    }

    fn live(&self, number: usize) {
        let seat = self.sit(number);
        match (seat % 2, seat / 2) {
            (1, _) => self.pause(),
            (_, 0) => self.beat(),
            (_, place) => self.work(place - 1),
        }
    }

    /// Waits until each has a processor of its own. Which one.
    fn sit(&self, number: usize) -> usize {
        let me = task::identity().thread;
        self.names[number].store(me, Ordering::SeqCst);
        loop {
            if let Some(at) = self.here.running().position(|thread| thread == me) {
                self.seats[number].store(at as u64 + 1, Ordering::SeqCst);
            }
            let taken = self.seats.iter().fold(0u64, |taken, seat| taken | 1 << seat.load(Ordering::SeqCst));
            if taken == (2 << self.seats.len()) - 2 {
                self.settled.store(1, Ordering::SeqCst);
                sync::wake(&self.settled, u64::MAX);
            }
            if self.settled.load(Ordering::SeqCst) == 1 {
                return self.seats[number].load(Ordering::SeqCst) as usize - 1;
            }
            core::hint::spin_loop();
        }
    }

    fn pause(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            core::hint::spin_loop();
        }
    }

    fn beat(&self) {
        let mut beats = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            beats += 1;
            self.beats.store(beats, Ordering::Relaxed);
            if beats.is_multiple_of(BREATH) {
                // Nobody is left without a turn for ever, if they are not as they should be.
                core::hint::spin_loop();
            }
        }
    }

    fn work(&self, number: usize) {
        let mut seen = 0;
        loop {
            while self.jobs.load(Ordering::SeqCst) == seen {
                let _ = sync::wait(&self.jobs, seen, u64::MAX);
            }
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            // Who was none of those that worked on the last one may be late for this one, and does it once.
            let Some((count, job, at)) = *self.job.lock() else { continue };
            if at < seen {
                continue;
            }
            seen = at + 1;
            if number >= count {
                continue;
            }
            if let Err(error) = job(number) {
                self.failed.store(error.word(), Ordering::SeqCst);
            }
            if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
                sync::wake(&self.left, 1);
            }
        }
    }
}
