use derive::interface;

#[interface]
trait Wrong {
    #[when_short]
    fn method(&self, n: u64) -> u64;
}

fn main() {}
