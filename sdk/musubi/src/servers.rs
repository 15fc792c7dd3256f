//! Servers that are restarted where they stood (docs/decisions/0011): waiting for them, and being one.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use interfaces::servers::{RECORD, ServerInfo, ServersClient, TEXT_MAX};
use rt::post::Post;
use rt::{Error, Once};
use zerocopy::{FromBytes, FromZeros};

pub use interfaces::servers::{act as acts, state};

static CLIENT: Once<ServersClient> = Once::new();

/// Who restarts servers is never restarted: without it there is no system.
fn client() -> Result<&'static ServersClient, Error> {
    CLIENT.get_or_try(|| ServersClient::bind_with_args(crate::names::lookup("servers")?, 4096))
}

/// How this program waits for a server whose binding is dead: see `rt::service`.
pub(crate) static WAIT: rt::service::Wait = |gate, ns| client()?.wait(gate, ns);

/// The environment variable in which a server finds the post that outlives it.
pub const POST: &str = "POST";

/// The post that is this server's as long as it is here, and the next one's then; none if nobody restarts it.
#[must_use]
pub fn own_post() -> Option<Post> {
    number(POST).map(Post)
}

/// That one, or another one where nobody restarts it.
///
/// # Errors
/// What the kernel answers.
pub fn post() -> Result<Post, Error> {
    own_post().map_or_else(Post::any, Ok)
}

/// The same for its streams.
pub const STREAM_POST: &str = "STREAM_POST";

/// A post for the streams that this server offers ([`interfaces::stream`]), as [`post`] is for all else.
///
/// # Errors
/// What the kernel answers.
pub fn stream_post() -> Result<Post, Error> {
    number(STREAM_POST).map_or_else(Post::any, |post| Ok(Post(post)))
}

/// A decimal number in the environment.
#[must_use]
pub fn number(variable: &str) -> Option<u64> {
    rt::start().variable(variable).and_then(|value| core::str::from_utf8(value).ok()?.parse().ok())
}

/// A server of the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    pub name: String,
    pub info: ServerInfo,
    /// Why it has ended last; empty: it never has.
    pub why: String,
}

/// All servers that are restarted, in the order in which they were started first.
///
/// # Errors
/// What the kernel answers.
pub fn list() -> Result<Vec<Server>, Error> {
    let mut all = Vec::new();
    let (mut record, mut said) = ([0; RECORD], [0; TEXT_MAX]);
    loop {
        let len = match client()?.status(all.len() as u64, &mut record, &mut said) {
            Err(Error::NotFound) => return Ok(all),
            len => len? as usize,
        };
        let info = ServerInfo::read_from_bytes(&record).unwrap_or_else(|_| ServerInfo::new_zeroed());
        let said = String::from_utf8_lossy(&said[..len.min(TEXT_MAX)]).into_owned();
        let (name, why) = said.split_once('\0').unwrap_or((&said, ""));
        all.push(Server { name: name.to_owned(), info, why: why.to_owned() });
    }
}

/// Has a server executed in another class: see `interfaces::servers::Servers::place`. Returns when it is there.
///
/// # Errors
/// As [`act`].
pub fn place(name: &str, class: u64, exclusion: u64) -> Result<(), Error> {
    client()?.place(name, class, exclusion)
}

/// Has a server ended or started: see `interfaces::servers::Servers::act`. Returns when it is done.
///
/// # Errors
/// `NotFound`: there is no such server; `Refused`: the machine is of no use without it; `Dead`: it was stopped or given up.
pub fn act(name: &str, what: u64) -> Result<(), Error> {
    client()?.act(name, what)
}
