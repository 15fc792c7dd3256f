use super::*;
use abi::gate::Record;

/// A caller whose argument section is `memory`.
fn caller(memory: &mut [u8]) -> Caller {
    Caller(Record { args_base: memory.as_mut_ptr() as u64, args_len: memory.len() as u64, ..Record::default() })
}

fn shape<'c>(caller: &'c Caller, read: (u64, u64), write: (u64, u64)) -> Result<((u64, usize), (u64, usize)), Error> {
    let (r, w) = arguments(caller, (Read(read.0, read.1), Write(write.0, write.1)))?;
    Ok(((r.as_ptr() as u64, r.len()), (w.as_ptr() as u64, w.len())))
}

/// The definition, for ranges near an argument section of `len` bytes at `base` (elsewhere the host's kernel refuses).
fn expected(base: u64, len: u64, read: (u64, u64), write: (u64, u64)) -> bool {
    let bytes = |range: (u64, u64)| (0..range.1).map(move |n| u128::from(range.0) + u128::from(n));
    let inside = |at: u128| (u128::from(base)..u128::from(base) + u128::from(len)).contains(&at);
    bytes(read).chain(bytes(write)).all(inside) && !bytes(read).any(|at| bytes(write).any(|other| at == other))
}

#[test]
fn what_lies_in_the_argument_section_is_believed() {
    let mut memory = [0u8; 16];
    let caller = caller(&mut memory);
    let base = caller.args_base;
    let near = || (0..20u64).map(|n| base - 2 + n);
    let len = |n: u64| n % 19;
    for read in near() {
        for write in near() {
            for lens in 0..19 * 19 {
                let (read, write) = ((read, len(lens)), (write, len(lens / 19)));
                let outcome = shape(&caller, read, write);
                assert_eq!(outcome.is_ok(), expected(base, 16, read, write), "{base:#x} {read:x?} {write:x?}");
                if let Ok((r, w)) = outcome {
                    assert_eq!((r.1 as u64, w.1 as u64), (read.1, write.1));
                    assert!(read.1 == 0 || r.0 == read.0);
                    assert!(write.1 == 0 || w.0 == write.0);
                }
            }
        }
    }
}

#[test]
fn nothing_is_believed_of_ranges_that_wrap_or_are_longer_than_memory() {
    let mut memory = [0u8; 16];
    let caller = caller(&mut memory);
    let base = caller.args_base;
    let bad = [
        (base, u64::MAX),
        (base, u64::MAX - base + 1),
        (base + 8, u64::MAX - base - 7),
        (base + 8, u64::MAX),
        (base, 1 << 63),
        (u64::MAX - 3, 4),
        (u64::MAX - 3, 5),
        (0, 1),
        (0, u64::MAX),
        (base - 8, 16),
    ];
    for range in bad {
        assert_eq!(shape(&caller, range, (base, 0)), Err(Error::Refused), "{range:x?}");
        assert_eq!(shape(&caller, (base, 0), range), Err(Error::Refused), "{range:x?}");
    }
    let nowhere = Caller::default();
    for address in [0, 1, base, u64::MAX] {
        assert_eq!(shape(&nowhere, (address, 1), (address, 0)), Err(Error::Refused), "{address:#x}");
        assert!(shape(&nowhere, (address, 0), (address, 0)).is_ok(), "nothing is read at {address:#x}");
    }
}

#[test]
fn as_many_pointers_as_words() {
    let mut memory = [b'a'; 64];
    let caller = caller(&mut memory);
    let at = |n: u64| caller.args_base + n;
    let six = |f: u64| {
        let pointers = (
            ReadArray::<8>(at(0), 8),
            ReadArray::<8>(at(0), 8),
            WriteArray::<8>(at(8), 8),
            ReadArray::<8>(at(16), 8),
            ReadArray::<8>(at(24), 8),
            WriteArray::<8>(f, 8),
        );
        arguments(&caller, pointers).map(|(a, b, c, d, e, f)| [*a, *b, *c, *d, *e, *f])
    };
    assert_eq!(six(at(56)), Ok([[b'a'; 8]; 6]));
    for bad in [at(0), at(7), at(1), at(9), at(31), at(57), 0] {
        assert_eq!(six(bad), Err(Error::Refused), "{bad:#x}");
    }
    assert_eq!(arguments(&caller, (Text(at(0), 3),)), Ok(("aaa".into(),)));
    assert_eq!(arguments(&caller, (Text(0, 0),)), Ok(("".into(),)));
    arguments(&caller, (Write(at(1), 1),)).unwrap().0[0] = 0xff;
    assert_eq!(arguments(&caller, (Text(at(0), 3),)), Err(Error::Refused));
    arguments(&caller, (Write(at(1), 1),)).unwrap().0[0] = b'a';
    assert_eq!(arguments(&caller, (Text(at(0), 3),)), Ok(("aaa".into(),)));
}
