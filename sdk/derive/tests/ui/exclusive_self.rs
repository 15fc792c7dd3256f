use derive::interface;
use rt::Error;

#[interface]
pub trait Wrong {
    fn push(&mut self, n: u64);
}

fn main() {
    let _: Option<Error> = None;
}
