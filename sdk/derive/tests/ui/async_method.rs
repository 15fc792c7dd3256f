use derive::interface;
use rt::Error;

#[interface]
pub trait Wrong {
    async fn wait(&self);
}

fn main() {
    let _: Option<Error> = None;
}
