use derive::interface;
use rt::Error;

#[interface]
pub trait Wrong {
    fn greet(&self, name: String) -> u64;
}

fn main() {
    let _: Option<Error> = None;
}
