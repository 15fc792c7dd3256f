#![no_std]
pub struct Section { base: u64, reserve: u64 }
impl Section { pub fn base(&self) -> u64 { self.base } }
impl core::fmt::Debug for Section { fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result { write!(f, "{:#x}", self.base) } }
pub fn yield_now() {}
