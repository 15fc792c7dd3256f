//! Instructions of x86-64, as far as they are counted one by one.

use crate::locks::{Kind, Locks};

/// Instructions that count for more than one in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Costly {
    /// `wrpkru`.
    KeyWrite,
    /// A read-modify-write that no other processor may interrupt: the prefix `lock`, or `xchg` with memory.
    Locked,
    /// `mov` to CR3: another page-table root, or a flush of the same.
    RootWrite,
    /// `invlpg`, `invpcid`.
    PageFlush,
    /// `swapgs`: once on each way into the kernel, and once on each way out.
    Swap,
    /// Of the locked ones those by which the kernel tries to take a lock.
    TakesLock,
    /// Of those, the locks of posts.
    TakesPost,
    /// `pause`: once in each turn of a loop that waits for another processor.
    Pause,
    /// Bytes that a kernel moves by string instructions (`rep movs`), by which Linux copies from and to programs.
    Copied,
    /// How often it does so.
    Copy,
    /// No instruction of its own: control comes to the kernel from a program.
    Entry,
    /// Nor these: lines of a cache and pages that are touched in a round for the first time, where that is looked at.
    Line,
    Page,
    /// Locks that are taken while another one is held, where that is looked at.
    Within,
}

impl Costly {
    pub const ALL: [Self; 14] = [
        Self::KeyWrite,
        Self::Locked,
        Self::RootWrite,
        Self::PageFlush,
        Self::Swap,
        Self::TakesLock,
        Self::TakesPost,
        Self::Pause,
        Self::Copied,
        Self::Copy,
        Self::Entry,
        Self::Line,
        Self::Page,
        Self::Within,
    ];

    /// Whether it is one by which a kernel copies: what its turns move is known by what they load and store.
    pub fn copies(bytes: &[u8], address: u64) -> bool {
        let prefixes = bytes.iter().take_while(|byte| is_prefix(**byte)).count();
        address >> 63 == 1 && matches!(bytes[prefixes..], [0xa4 | 0xa5])
    }

    /// As what an instruction counts, by its bytes and where it lies.
    pub fn all_of(bytes: &[u8], address: u64, locks: &Locks) -> impl Iterator<Item = Self> {
        let one = Self::of(bytes);
        let kind = one.filter(|one| *one == Self::Locked).and_then(|_| locks.kind(address));
        let takes_post = (kind == Some(Kind::Post)).then_some(Self::TakesPost);
        one.into_iter().chain(kind.map(|_| Self::TakesLock)).chain(takes_post)
    }

    /// What an instruction is, by its bytes alone.
    fn of(bytes: &[u8]) -> Option<Self> {
        let prefixes = bytes.iter().take_while(|byte| is_prefix(**byte)).count();
        if bytes[..prefixes].contains(&0xf0) {
            return Some(Self::Locked);
        }
        match bytes[prefixes..] {
            [0x90, ..] if bytes[..prefixes].contains(&0xf3) => Some(Self::Pause),
            [0x86 | 0x87, modrm, ..] if modrm >> 6 != 3 => Some(Self::Locked),
            [0x0f, 0x01, 0xef, ..] => Some(Self::KeyWrite),
            [0x0f, 0x01, 0xf8, ..] => Some(Self::Swap),
            [0x0f, 0x01, modrm, ..] if modrm >> 6 != 3 && modrm >> 3 & 7 == 7 => Some(Self::PageFlush),
            [0x0f, 0x22, modrm, ..] if modrm >> 3 & 7 == 3 && !extends(&bytes[..prefixes]) => Some(Self::RootWrite),
            [0x0f, 0x38, 0x82, ..] => Some(Self::PageFlush),
            _ => None,
        }
    }
}

/// Legacy prefixes, and REX.
fn is_prefix(byte: u8) -> bool {
    matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3 | 0x40..=0x4f)
}

/// Whether REX makes the register number one of 8 to 15.
fn extends(prefixes: &[u8]) -> bool {
    prefixes.last().is_some_and(|byte| byte & 0xf4 == 0x44)
}

/// `nopl disp32(%rax,%rax)`, whose displacement is the number of the mark and then 0xa55a.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    CaseBegins,
    RoundBegins,
    RoundEnds,
    CaseEnds,
}

impl Mark {
    pub const ALL: [Self; 4] = [Self::CaseBegins, Self::RoundBegins, Self::RoundEnds, Self::CaseEnds];

    /// The mark that an instruction is.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        match *bytes {
            [0x0f, 0x1f, 0x84, 0x00, number, 0, 0x5a, 0xa5] => {
                number.checked_sub(0x10).and_then(|at| Self::ALL.get(usize::from(at))).copied()
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costly_instructions_are_known_by_their_bytes() {
        for (bytes, expected) in [
            // lock cmpxchg %cl,(%rdi); lock incq (%rax); lock xadd %rax,8(%rdi); the same with a segment
            (&[0xf0, 0x0f, 0xb0, 0x0f][..], Some(Costly::Locked)),
            (&[0xf0, 0x48, 0xff, 0x00], Some(Costly::Locked)),
            (&[0xf0, 0x48, 0x0f, 0xc1, 0x47, 0x08], Some(Costly::Locked)),
            (&[0x65, 0xf0, 0x48, 0xff, 0x00], Some(Costly::Locked)),
            // xchg %al,(%rdi); xchg %rax,(%rdi); xchg %rax,%rdi
            (&[0x86, 0x07], Some(Costly::Locked)),
            (&[0x48, 0x87, 0x07], Some(Costly::Locked)),
            (&[0x48, 0x87, 0xf8], None),
            // wrpkru; rdpkru; swapgs; rdtscp; xgetbv
            (&[0x0f, 0x01, 0xef], Some(Costly::KeyWrite)),
            (&[0x0f, 0x01, 0xee], None),
            (&[0x0f, 0x01, 0xf8], Some(Costly::Swap)),
            (&[0x0f, 0x01, 0xf9], None),
            (&[0x0f, 0x01, 0xd0], None),
            // mov %rax,%cr3; mov %r15,%cr3; mov %rax,%cr4; mov %cr3,%rax; mov %rax,%cr8 (REX.R)
            (&[0x0f, 0x22, 0xd8], Some(Costly::RootWrite)),
            (&[0x41, 0x0f, 0x22, 0xdf], Some(Costly::RootWrite)),
            (&[0x0f, 0x22, 0xe0], None),
            (&[0x0f, 0x20, 0xd8], None),
            (&[0x44, 0x0f, 0x22, 0xd8], None),
            // invlpg (%rax); lgdt (%rax); invpcid (%rdi),%rax
            (&[0x0f, 0x01, 0x38], Some(Costly::PageFlush)),
            (&[0x0f, 0x01, 0x10], None),
            (&[0x66, 0x0f, 0x38, 0x82, 0x07], Some(Costly::PageFlush)),
            // pause; nop with another prefix
            (&[0xf3, 0x90], Some(Costly::Pause)),
            (&[0x66, 0x90], None),
            // inc (%rax); nop; nothing
            (&[0x48, 0xff, 0x00], None),
            (&[0x90], None),
            (&[], None),
        ] {
            assert_eq!(Costly::of(bytes), expected, "{bytes:02x?}");
        }
    }

    #[test]
    fn a_locked_instruction_takes_a_lock_where_locks_are_taken() {
        let locks = Locks::new(vec![(0x1000..0x1010, Kind::Other), (0x1010..0x1020, Kind::Post)]);
        let of = |bytes: &[u8], address| Costly::all_of(bytes, address, &locks).collect::<Vec<_>>();
        let cmpxchg = [0xf0, 0x0f, 0xb0, 0x0f];
        assert_eq!(of(&cmpxchg, 0x1004), [Costly::Locked, Costly::TakesLock]);
        assert_eq!(of(&cmpxchg, 0x1010), [Costly::Locked, Costly::TakesLock, Costly::TakesPost]);
        assert_eq!(of(&cmpxchg, 0x1020), [Costly::Locked]);
        assert_eq!(of(&[0xf3, 0x90], 0x1004), [Costly::Pause]);
        assert_eq!(of(&[0x90], 0x1004), []);
    }

    #[test]
    fn string_instructions_of_a_kernel_copy() {
        for (bytes, copies) in [
            // rep movsb, movsw, movsl, movsq; movsq alone; rep movsb with a needless REX; rep stosq; rep cmpsb; mov
            (&[0xf3, 0xa4][..], true),
            (&[0x66, 0xf3, 0xa5], true),
            (&[0xf3, 0xa5], true),
            (&[0xf3, 0x48, 0xa5], true),
            (&[0x48, 0xa5], true),
            (&[0xf3, 0x40, 0xa4], true),
            (&[0xf3, 0x48, 0xab], false),
            (&[0xf3, 0xa6], false),
            (&[0x48, 0x89, 0xa5], false),
        ] {
            assert_eq!(Costly::copies(bytes, 0xffff_ffff_8100_0000), copies, "{bytes:02x?}");
            assert!(!Costly::copies(bytes, 0x40_1000), "{bytes:02x?} of a program");
        }
    }

    #[test]
    fn marks_are_nops_with_a_number() {
        let nop = |number| [0x0f, 0x1f, 0x84, 0x00, number, 0, 0x5a, 0xa5];
        for (number, expected) in [
            (0x10, Some(Mark::CaseBegins)),
            (0x11, Some(Mark::RoundBegins)),
            (0x12, Some(Mark::RoundEnds)),
            (0x13, Some(Mark::CaseEnds)),
            (0x0f, None),
            (0x14, None),
            (0x01, None),
        ] {
            assert_eq!(Mark::of(&nop(number)), expected, "{number:#x}");
        }
        assert_eq!(Mark::of(&[0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0]), None);
    }
}
