//! How often a kernel copies by string instructions, from what each turn of them loads and stores.

/// Instructions between two turns of the same copy at most: its end is copied by another instruction, whose count is made ready.
const BETWEEN: u64 = 8;

/// What the last turn has loaded and stored, where, and after how many instructions.
#[derive(Debug, Default)]
pub struct Copies {
    from: u64,
    to: u64,
    length: u64,
    now: u64,
    /// Where the turn has loaded that has not stored yet.
    loads: u64,
}

impl Copies {
    pub fn load(&mut self, from: u64) {
        self.loads = from;
    }

    /// The same turn stores, so many bytes. Value: whether a copy begins with it, because it does not go on, up or down, where the
    /// last one was, or because something else was executed in between.
    pub fn store(&mut self, to: u64, length: u64, now: u64) -> bool {
        let up = |last: u64, at: u64| last.wrapping_add(self.length) == at;
        let down = |last: u64, at: u64| at.wrapping_add(length) == last;
        let follows = up(self.from, self.loads) && up(self.to, to) || down(self.from, self.loads) && down(self.to, to);
        let begins = !follows || now.saturating_sub(self.now) > BETWEEN;
        (self.from, self.to, self.length, self.now) = (self.loads, to, length, now);
        begins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many copies these turns are: from, to, bytes, instructions before.
    fn copies(turns: &[(u64, u64, u64, u64)]) -> usize {
        let (mut copies, mut now) = (Copies::default(), 0);
        let begins = |&&(from, to, length, before): &&(u64, u64, u64, u64)| {
            now += before;
            copies.load(from);
            copies.store(to, length, now)
        };
        turns.iter().filter(begins).count()
    }

    #[test]
    fn turns_that_follow_one_another_are_one_copy() {
        let words = [(0x1000, 0x9000, 8, 500), (0x1008, 0x9008, 8, 1), (0x1010, 0x9010, 8, 1)];
        assert_eq!(copies(&words), 1);
        // The rest of it, byte by byte.
        let rest = [(0x1018, 0x9018, 1, 4), (0x1019, 0x9019, 1, 1)];
        assert_eq!(copies(&[&words[..], &rest].concat()), 1);
        let down = [(0x1010, 0x9010, 8, 500), (0x1008, 0x9008, 8, 1), (0x1000, 0x9000, 8, 1)];
        assert_eq!(copies(&down), 1);
    }

    #[test]
    fn what_lies_elsewhere_or_comes_later_is_another() {
        let first = (0x1000, 0x9000, 8, 500);
        assert_eq!(copies(&[first, (0x2000, 0x9008, 8, 2)]), 2, "from elsewhere");
        assert_eq!(copies(&[first, (0x1008, 0xa000, 8, 2)]), 2, "to elsewhere");
        assert_eq!(copies(&[first, (0x1000, 0x9000, 8, 2)]), 2, "the same once more");
        assert_eq!(copies(&[first, (0x1008, 0x8ff8, 8, 2)]), 2, "up and down");
        assert_eq!(copies(&[first, (0x1008, 0x9008, 8, 60)]), 2, "the next page of both, by another call");
    }
}
