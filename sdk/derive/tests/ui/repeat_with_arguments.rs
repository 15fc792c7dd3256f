use derive::interface;

#[interface]
trait Wrong {
    #[repeat(twice)]
    fn method(&self);
    #[repeat]
    #[repeat]
    fn again(&self);
}

fn main() {}
