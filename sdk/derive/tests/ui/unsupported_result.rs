use derive::interface;
use rt::Error;

#[interface]
pub trait Wrong {
    fn name(&self) -> String;
}

fn main() {
    let _: Option<Error> = None;
}
