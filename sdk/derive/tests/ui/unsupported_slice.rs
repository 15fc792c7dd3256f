use derive::interface;
use rt::Error;

#[interface]
pub trait Wrong {
    fn sum(&self, numbers: &[u64]) -> u64;
}

fn main() {
    let _: Option<Error> = None;
}
