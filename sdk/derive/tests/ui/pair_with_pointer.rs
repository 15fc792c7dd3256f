use derive::interface;
use rt::Error;

#[interface]
pub trait Wrong {
    fn both(&self, text: &str) -> (u64, u64);
}

fn main() {
    let _: Option<Error> = None;
}
