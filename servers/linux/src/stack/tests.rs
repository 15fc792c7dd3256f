use super::*;
use crate::map::STACK_TOP;

fn strings(list: &[&str]) -> Vec<Vec<u8>> {
    list.iter().map(|s| s.as_bytes().to_vec()).collect()
}

struct Reader(Stack);

impl Reader {
    fn word(&self, address: u64) -> u64 {
        let at = (address - self.0.pointer) as usize;
        u64::from_le_bytes(self.0.bytes[at..at + 8].try_into().unwrap())
    }

    fn string(&self, address: u64) -> &str {
        let bytes = &self.0.bytes[(address - self.0.pointer) as usize..];
        std::str::from_utf8(&bytes[..bytes.iter().position(|&c| c == 0).unwrap()]).unwrap()
    }
}

#[test]
fn a_program_finds_what_it_was_given() {
    for extra in 0..20 {
        let arguments = strings(&["busybox", "echo", "", &"x".repeat(extra)]);
        let environment = strings(&["PATH=/bin", "A="]);
        let auxiliary = [(auxvec::AT_PAGESZ, 4096), (auxvec::AT_ENTRY, 0x40_0000)];
        let start = Start {
            arguments: &arguments,
            environment: &environment,
            path: b"/bin/busybox",
            random: [7; 16],
            auxiliary: &auxiliary,
        };
        let stack = Reader(build(STACK_TOP, &start).unwrap());
        let pointer = stack.0.pointer;
        assert_eq!(pointer % 16, 0);
        assert_eq!(pointer + stack.0.bytes.len() as u64, STACK_TOP);
        assert_eq!(stack.word(pointer), 4);
        let mut at = pointer + 8;
        for list in [&arguments, &environment] {
            for string in list {
                assert_eq!(stack.string(stack.word(at)).as_bytes(), string);
                at += 8;
            }
            assert_eq!(stack.word(at), 0);
            at += 8;
        }
        let pairs: Vec<(u64, u64)> =
            (0..).map(|i| (stack.word(at + 16 * i), stack.word(at + 16 * i + 8))).take_while(|p| p.0 != 0).collect();
        let value = |key: u32| pairs.iter().find(|p| p.0 == u64::from(key)).unwrap().1;
        assert_eq!(value(auxvec::AT_PAGESZ), 4096);
        assert_eq!(value(auxvec::AT_ENTRY), 0x40_0000);
        assert_eq!(stack.string(value(auxvec::AT_EXECFN)), "/bin/busybox");
        assert_eq!(stack.string(value(auxvec::AT_PLATFORM)), "x86_64");
        assert_eq!(stack.word(value(auxvec::AT_RANDOM)), 0x0707_0707_0707_0707);
        assert_eq!(pairs.len(), 5);
        assert_eq!(stack.word(STACK_TOP - 8), 0);
    }
}

#[test]
fn too_much_is_refused() {
    let long = [vec![b'x'; STRING_MAX]];
    let many = vec![vec![b'x'; 1000]; 3000];
    let none = [];
    let start = |arguments| Start { arguments, environment: &none, path: b"x", random: [0; 16], auxiliary: &[] };
    assert_eq!(build(STACK_TOP, &start(&long)), fail(errno::E2BIG));
    assert_eq!(build(STACK_TOP, &start(&many)), fail(errno::E2BIG));
    assert!(build(STACK_TOP, &start(&many[..2000])).is_ok());
    assert!(build(STACK_TOP, &start(&[])).is_ok());
}
