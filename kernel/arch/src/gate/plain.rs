//! What plain calls need besides frames: what they promise to keep, and which may go the short way.

use super::{Gate, NoRoom, PAGE, SECRET, STATE, set_word, word};
use crate::fpu::Control;
use abi::gate::GATE_STEP;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What plain calls keep, by depth.
const KEPT: u64 = STATE + 0x4000;
const KEPT_LEN: u64 = size_of::<Kept>() as u64;
/// The last plain calls, in the head's page.
const PLAINS: u64 = 0x400;
const PLAINS_MAX: u64 = 64;

/// What a plain call promises to keep, as the C ABI does: rbx rbp r12 r13 r14 r15, and the control words.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Kept {
    pub registers: [u64; 6],
    pub control: Control,
    reserved: u64,
}

/// A plain call that was made and may be made again by the short way, as long as its record has gates.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Plain {
    pub address: u64,
    pub record: u64,
    /// The domain that called.
    pub from: u32,
    pub index: u32,
    reserved: u64,
}

const _: () = assert!(KEPT_LEN == 64 && size_of::<Plain>() == 32);

impl Kept {
    pub fn new(registers: [u64; 6], control: Control) -> Kept {
        Kept { registers, control, reserved: 0 }
    }
}

impl Plain {
    pub fn new(address: u64, record: u64, from: u32, index: u32) -> Plain {
        Plain { address, record, from, index, reserved: 0 }
    }
}

impl Gate {
    /// Makes room for what plain calls keep.
    ///
    /// # Errors
    /// `NoRoom`.
    pub fn make_plain(&mut self, charge: &mut dyn FnMut() -> bool) -> Result<(), NoRoom> {
        for address in [KEPT, KEPT + PAGE] {
            if !self.pages.contains_key(&address) {
                self.grow(address, SECRET, charge)?;
            }
        }
        Ok(())
    }

    /// What the plain call of frame `depth` keeps.
    pub fn kept(&self, depth: usize) -> Kept {
        let at = self.at(KEPT + (depth as u64 - 1) * KEPT_LEN).expect("made before the call");
        let words: [u64; KEPT_LEN as usize / 8] = core::array::from_fn(|i| word(at + 8 * i as u64));
        zerocopy::transmute!(words)
    }

    pub fn set_kept(&mut self, depth: usize, kept: Kept) {
        let at = self.at(KEPT + (depth as u64 - 1) * KEPT_LEN).expect("made before the call");
        let words: [u64; KEPT_LEN as usize / 8] = zerocopy::transmute!(kept);
        words.iter().enumerate().for_each(|(i, value)| set_word(at + 8 * i as u64, *value));
    }

    fn plain_at(&self, number: u64) -> u64 {
        self.head + PLAINS + number * size_of::<Plain>() as u64
    }

    /// The same call goes the short way from now on.
    pub fn remember_plain(&mut self, plain: Plain) {
        let at = self.plain_at(plain.address / GATE_STEP % PLAINS_MAX);
        let words: [u64; size_of::<Plain>() / 8] = zerocopy::transmute!(plain);
        words.iter().enumerate().for_each(|(i, value)| set_word(at + 8 * i as u64, *value));
    }

    /// Plain calls from this domain, or by this record, go the long way again.
    pub fn forget_plain(&mut self, from: u32, record: u64) {
        self.forget_plains(|caller, by| by == record || caller == from);
    }

    /// Those of which this is so, by the domain that calls and its record.
    pub fn forget_plains(&mut self, is_so: impl Fn(u32, u64) -> bool) {
        for at in (0..PLAINS_MAX).map(|number| self.plain_at(number)) {
            if is_so(word(at + 16) as u32, word(at + 8)) {
                set_word(at, 0);
            }
        }
    }
}
