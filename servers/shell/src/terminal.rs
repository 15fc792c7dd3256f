//! The console as the shell uses it: raw keys at the prompt, lines and `^C` for programs.

use musubi::Error;
use musubi::interfaces::console::{ConsoleClient, mode};
use musubi::rt::Once;

static CLIENT: Once<ConsoleClient> = Once::new();

fn client() -> Result<&'static ConsoleClient, Error> {
    CLIENT.get_or_try(|| ConsoleClient::bind(musubi::names::lookup("console")?))
}

pub fn raw() {
    let _ = client().and_then(|c| c.set_mode(mode::RAW));
}

pub fn cooked() {
    let _ = client().and_then(|c| c.set_mode(mode::COOKED));
}

/// Lets `^C` kill the task, too.
pub fn foreground(task: u64) {
    let _ = client().and_then(|c| c.foreground(task));
}

/// Lets `^C` kill nobody.
pub fn no_foreground() {
    foreground(0);
}

pub fn columns() -> usize {
    client().and_then(ConsoleClient::size).map_or(80, |size| (size.0 as usize).max(20))
}
