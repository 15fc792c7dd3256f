use derive::interface;
use rt::Error;

#[interface]
pub trait Wrong {
    fn both(&self) -> Result<(u64, u64), Error>;
}

fn main() {
    let _: Option<Error> = None;
}
