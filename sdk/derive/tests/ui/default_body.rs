use derive::interface;
use rt::Error;

#[interface]
pub trait Wrong {
    fn one(&self) -> u64 { 1 }
}

fn main() {
    let _: Option<Error> = None;
}
