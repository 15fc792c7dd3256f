//! Starting a program.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use interfaces::first::FirstClient;
use interfaces::loader::LoaderService;
use interfaces::request::{LEN_MAX, Request};
use rt::Error;
use rt::abi::start::StreamRef;
use rt::abi::task::{Exit, Limits};

use crate::processes::{self, group};

/// A program to be started; what is not said is inherited.
#[derive(Clone, Debug)]
pub struct Command {
    request: Request,
    group: u64,
}

/// Why a program was not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub error: Error,
    /// One line from whoever refused, or empty.
    pub reason: String,
}

impl core::fmt::Display for Refused {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.reason.as_str() {
            "" => write!(f, "{}", crate::why(self.error)),
            reason => f.write_str(reason),
        }
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused { error, reason: String::new() }
    }
}

impl Command {
    /// The program in the file `path`, called by that name.
    #[must_use]
    pub fn new(path: &[u8]) -> Command {
        let start = rt::start();
        let request = Request {
            path: path.to_vec(),
            args: alloc::vec![path.to_vec()],
            env: start.env().map(<[u8]>::to_vec).collect(),
            streams: [0, 1, 2].map(|i| start.stream(i)),
            limits: Limits::default(),
            user: start.user(),
            payer: 0,
            names: start.names(),
            class: 0,
            exclusion: 0,
        };
        Command { request, group: group::SAME }
    }

    /// All arguments, the name that the program is called by first.
    #[must_use]
    pub fn args<A: AsRef<[u8]>>(mut self, args: impl IntoIterator<Item = A>) -> Command {
        self.request.args = args.into_iter().map(|a| a.as_ref().to_owned()).collect();
        self
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, arg: &[u8]) -> Command {
        self.request.args.push(arg.to_vec());
        self
    }

    /// The whole environment.
    #[must_use]
    pub fn env(mut self, env: Vec<Vec<u8>>) -> Command {
        self.request.env = env;
        self
    }

    /// 0: input, 1: output, 2: errors.
    #[must_use]
    pub fn stream(mut self, number: usize, stream: StreamRef) -> Command {
        self.request.streams[number] = stream;
        self
    }

    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Command {
        self.request.limits = limits;
        self
    }

    /// As another user: user 0 only.
    #[must_use]
    pub fn user(mut self, user: u64) -> Command {
        self.request.user = user;
        self
    }

    #[must_use]
    pub fn names(mut self, names: u64) -> Command {
        self.request.names = names;
        self
    }

    /// Where its text is executed (`abi::section::class`), whatever whoever made the image says; NSys with the texts of this group (0: by
    /// itself). In supervisor mode: user 0, and programs that the image names (`etc/placement`).
    #[must_use]
    pub fn placed(mut self, class: u64, exclusion: u64) -> Command {
        (self.request.class, self.request.exclusion) = (class + 1, exclusion);
        self
    }

    /// In another group than this process ([`group::NEW`], or the number of one that is there).
    #[must_use]
    pub fn group(mut self, group: u64) -> Command {
        self.group = group;
        self
    }

    /// Starts the program.
    ///
    /// # Errors
    /// With the reason that the loader gives.
    pub fn spawn(&self) -> Result<Child, Refused> {
        let processes = processes::client()?;
        self.spawn_with(|request, reason| processes.spawn(request, self.group, reason))
    }

    /// What the process server is asked, for who sends that himself.
    #[must_use]
    pub fn request(&self) -> Vec<u8> {
        self.request.encode()
    }

    /// Starts the program without the process server: who does so waits for its end by `rt::task::wait`. User 0 only.
    ///
    /// # Errors
    /// With the reason that the loader gives.
    pub fn spawn_by(&self, loader: &LoaderService) -> Result<Child, Refused> {
        self.spawn_with(|request, reason| loader.spawn(request, reason))
    }

    /// The same with the program of a place that the first task keeps (`interfaces::first`), whatever the path says: by that one, without the loader.
    ///
    /// # Errors
    /// With the reason that the first task gives.
    pub fn spawn_at(&self, first: &FirstClient, place: u64) -> Result<Child, Refused> {
        self.spawn_with(|request, reason| first.spawn_at(place, request, reason))
    }

    fn spawn_with(&self, start: impl FnOnce(&[u8], &mut [u8]) -> Result<u64, Error>) -> Result<Child, Refused> {
        let request = self.request.encode();
        if request.len() > LEN_MAX {
            return Err(Refused { error: Error::TooBig, reason: "arguments too long".to_owned() });
        }
        let mut reason = [0; 256];
        match start(&request, &mut reason) {
            Ok(task) => Ok(Child { task }),
            Err(error) => {
                let len = reason.iter().position(|&b| b == 0).unwrap_or(reason.len());
                Err(Refused { error, reason: String::from_utf8_lossy(&reason[..len]).into_owned() })
            }
        }
    }
}

/// A program that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    pub task: u64,
}

impl Child {
    /// Waits until it has ended. It is told of once.
    ///
    /// # Errors
    /// `NotFound`: it was told of before, or is nobody's child any more.
    pub fn wait(self) -> Result<Exit, Error> {
        self.wait_for(u64::MAX)
    }

    /// # Errors
    /// `TimedOut`; as [`Child::wait`].
    pub fn wait_for(self, timeout_ns: u64) -> Result<Exit, Error> {
        processes::collect(self.task, timeout_ns).map(|ended| ended.1)
    }

    /// # Errors
    /// `NotFound`: it has ended.
    pub fn kill(self) -> Result<(), Error> {
        processes::kill(self.task).map(drop)
    }
}
