//! The console as the shell uses it: raw keys at the prompt, lines and `^C` for programs.

use musubi::Error;
use musubi::interfaces::console::{ConsoleService, mode};
use musubi::rt::Once;

static CLIENT: Once<ConsoleService> = Once::new();

fn client() -> Result<&'static ConsoleService, Error> {
    CLIENT.get_or_try(|| musubi::names::lookup("console").map(ConsoleService::new))
}

pub fn raw() {
    let _ = client().and_then(|c| c.set_mode(mode::RAW));
}

pub fn cooked() {
    let _ = client().and_then(|c| c.set_mode(mode::COOKED));
}

/// Lets `^C` end somebody (`processes::whom`), too.
pub fn foreground(whom: u64) {
    let _ = client().and_then(|c| c.foreground(whom));
}

/// Lets `^C` kill nobody.
pub fn no_foreground() {
    foreground(0);
}

pub fn columns() -> usize {
    client().and_then(ConsoleService::size).map_or(80, |size| (size.0 as usize).max(20))
}
