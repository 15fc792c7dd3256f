//! Who is called by an interrupt comes before all others, so that what it has left to do waits for no queue (SSS-29); but not again and
//! again, or a device that never stops would leave the others no turn.

/// So many who were called have a turn, one after the other, while another one waits.
pub const IN_A_ROW: u32 = 4;

/// How many have had one since another one had his.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row(u32);

impl Row {
    /// Nobody has had one.
    pub const fn new() -> Row {
        Row(0)
    }

    /// Whether the next turn is that of one who was called. `called`: such a one is ready. `others`: another one is.
    pub fn is_next(&mut self, called: bool, others: bool) -> bool {
        let is_next = called && (!others || self.0 < IN_A_ROW);
        self.0 = if is_next { self.0.saturating_add(1) } else { 0 };
        is_next
    }
}
