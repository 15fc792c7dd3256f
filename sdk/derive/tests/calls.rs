//! An interface end to end in one process: the skeleton behind its gates, the client in front of them.

use derive::interface;
use rt::{Caller, Error};

/// All that can be passed.
#[interface]
pub trait Demo {
    fn add(&self, a: u64, b: u32) -> u64;
    fn negate(&self, n: i64) -> i64;
    fn pair(&self, a: u64, b: i64) -> (u64, u64);
    fn is_even(&self, n: u8) -> bool;
    fn fill(&self, buffer: &mut [u8], with: u8);
    fn map(&self, pixels: &mut [u8], table: &[u8; 256]) -> Result<(), Error>;
    #[repeat]
    fn length(&self, text: &str) -> Result<u64, Error>;
    fn who(&self, caller: &Caller) -> Result<u64, Error>;
    fn fail(&self, n: i32) -> Result<i32, Error>;
}

struct Server;

impl Demo for Server {
    fn add(&self, a: u64, b: u32) -> u64 {
        a + u64::from(b)
    }
    fn negate(&self, n: i64) -> i64 {
        -n
    }
    fn pair(&self, a: u64, b: i64) -> (u64, u64) {
        (a, b.cast_unsigned())
    }
    fn is_even(&self, n: u8) -> bool {
        n.is_multiple_of(2)
    }
    fn fill(&self, buffer: &mut [u8], with: u8) {
        buffer.fill(with);
    }
    fn map(&self, pixels: &mut [u8], table: &[u8; 256]) -> Result<(), Error> {
        pixels.iter_mut().for_each(|p| *p = table[usize::from(*p)]);
        Ok(())
    }
    fn length(&self, text: &str) -> Result<u64, Error> {
        Ok(text.len() as u64)
    }
    fn who(&self, caller: &Caller) -> Result<u64, Error> {
        Ok(caller.task)
    }
    fn fail(&self, n: i32) -> Result<i32, Error> {
        if n < 0 { Err(Error::Exists) } else { Ok(-n) }
    }
}

fn client() -> (DemoClient, u64) {
    let gates = demo_serve(&Server).unwrap();
    (DemoClient::bind(gates.address()).unwrap(), gates.address())
}

#[test]
fn words_and_results() {
    let (demo, _) = client();
    assert_eq!(demo.add(40, 2), Ok(42));
    assert_eq!(demo.negate(-5), Ok(5));
    assert_eq!(demo.pair(1, -1), Ok((1, u64::MAX)));
    assert_eq!(demo.is_even(4), Ok(true));
    assert_eq!(demo.who(), Ok(1));
    assert_eq!(demo.fail(-1), Err(Error::Exists));
    assert_eq!(demo.fail(7), Ok(-7));
}

#[test]
fn slices_are_lent_and_come_back() {
    let (demo, _) = client();
    let mut table = [0; 256];
    (0..=255).for_each(|i| table[usize::from(i)] = 255 - i);
    let mut pixels = vec![3u8; 8192];
    assert_eq!(demo.map(&mut pixels, &table), Ok(()));
    assert!(pixels.iter().all(|&p| p == 252));
    let mut lent = demo.alloc(100).unwrap();
    assert_eq!(demo.fill(&mut lent, 9), Ok(()));
    assert!(lent.iter().all(|&b| b == 9));
    assert_eq!(demo.length("結び"), Ok(6));
    assert_eq!(demo.length(""), Ok(0));
    assert_eq!(demo.fill(&mut vec![0; 70_000], 1), Err(Error::TooBig));
}

#[test]
fn without_a_line_what_is_for_later_is_done_at_once() {
    let (demo, gate) = client();
    let (first, second) = (demo.later().add(40, 2).unwrap(), demo.later().fail(-1).unwrap());
    assert_eq!((second.wait(), first.wait()), (Err(Error::Exists), Ok(42)));
    let mut lent = demo.alloc(100).unwrap();
    demo.later().fill(&mut lent, 5).unwrap().wait().unwrap();
    assert!(lent.iter().all(|&b| b == 5));
    assert!(DemoClient::bind_itc(gate, 4096).is_err(), "this server offers no lines");
}

#[test]
fn the_skeleton_refuses_what_the_caller_may_not_touch() {
    let (demo, gate) = client();
    let inside = demo.alloc(256).unwrap();
    let secret = [7u8; 16];
    let raw = |index, words| rt::bound::result_of(demo.bound().call(index, words).unwrap());
    assert_eq!(raw(4, [secret.as_ptr() as u64, 16, 1, 0, 0, 0]), Err(Error::Refused), "outside of what was lent");
    assert_eq!(raw(4, [inside.address(), 1 << 20, 1, 0, 0, 0]), Err(Error::Refused), "longer than what was lent");
    assert_eq!(raw(4, [u64::MAX - 3, 16, 1, 0, 0, 0]), Err(Error::Refused), "wraps round");
    assert_eq!(raw(4, [inside.address(), 16, 256, 0, 0, 0]), Err(Error::Refused), "not a u8");
    assert_eq!(raw(5, [inside.address(), 16, inside.address(), 0, 0, 0]), Err(Error::Refused), "overlap");
    assert_eq!(raw(3, [999, 0, 0, 0, 0, 0]), Err(Error::Refused));
    assert_eq!(DemoClient::plain(gate).length("abc"), Err(Error::Refused), "a plain call lends nothing");
    assert_eq!(DemoClient::plain(gate).add(1, 2), Ok(3));
    assert_eq!(demo.bound().call(9, [0; 6]), Err(Error::NotFound));
}

#[test]
fn an_interface_describes_itself() {
    let described = DemoClient::INTERFACE;
    assert_eq!(described.name, "demo");
    assert_eq!(described.methods[3].name, "is-even");
    assert_eq!(described.methods[5].arguments, &[("pixels", "&mut [u8]"), ("table", "&[u8; 256]")]);
}

#[test]
fn a_client_of_servers_that_are_restarted() {
    let demo = DemoService::new(client().1);
    assert_eq!(demo.add(40, 2), Ok(42));
    assert_eq!(demo.length("Musubi"), Ok(6));
    let mut buffer = [0; 3];
    assert_eq!(demo.fill(&mut buffer, 7), Ok(()));
    assert_eq!(buffer, [7; 3]);
    assert_eq!(demo.fail(-1), Err(Error::Exists));
    assert_eq!(demo.pair(1, -1), Ok((1, u64::MAX)));
    // Nobody restarts servers here, so nobody is waited for.
    assert_eq!(DemoService::new(8).add(1, 2), Err(Error::Dead));
}
