use derive::interface;
use rt::Error;

#[interface]
pub trait Wrong {
    fn blit(&self, from: &[u8], to: &mut [u8], x: u64, y: u64, z: u64);
}

fn main() {
    let _: Option<Error> = None;
}
