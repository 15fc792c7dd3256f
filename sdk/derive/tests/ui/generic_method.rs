use derive::interface;
use rt::Error;

#[interface]
pub trait Wrong {
    fn put<T>(&self, value: u64);
}

fn main() {
    let _: Option<Error> = None;
}
