#[derive::interface(for_all)]
trait Clock {
    fn now(&self) -> u64;
}

fn main() {}
