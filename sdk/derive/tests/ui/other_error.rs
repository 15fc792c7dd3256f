use derive::interface;
use rt::Error;

#[interface]
pub trait Wrong {
    fn go(&self) -> Result<u64, String>;
}

fn main() {
    let _: Option<Error> = None;
}
