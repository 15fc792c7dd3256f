//! Devices on the first PCI bus, as far as the kernel hands them out: memory that an emulator shares with its host.

use crate::ports;

const ADDRESS: u16 = 0xcf8;
const DATA: u16 = 0xcfc;
/// QEMU's `ivshmem`: vendor and device in one word.
const SHARED: u32 = 0x1110_1af4;
const COMMAND: u32 = 0x04;
const DECODES_MEMORY: u32 = 2;
/// The third base address, where the shared memory is.
const BASE: u32 = 0x18;
/// Kinds of base addresses: memory of 64 bits.
const KIND: u32 = 0x0f;
const WIDE: u32 = 0x04;

fn select(slot: u32, register: u32) {
    ports::write(ADDRESS, 4, 1 << 31 | slot << 11 | register);
}

fn read(slot: u32, register: u32) -> u32 {
    select(slot, register);
    ports::read(DATA, 4)
}

fn write(slot: u32, register: u32, value: u32) {
    select(slot, register);
    ports::write(DATA, 4, value);
}

/// Address and length of the shared memory, if there is some and the firmware has given it a place.
pub fn shared_memory() -> Option<(u64, u64)> {
    let slot = (0..32).find(|&slot| read(slot, 0) == SHARED)?;
    let low = read(slot, BASE);
    if low & KIND & !8 != WIDE {
        return None;
    }
    let high = read(slot, BASE + 4);
    let address = u64::from(high) << 32 | u64::from(low & !KIND);
    // Its length shows in the bits that stay zero; meanwhile it answers to no address.
    let command = read(slot, COMMAND);
    write(slot, COMMAND, command & !DECODES_MEMORY);
    write(slot, BASE, u32::MAX);
    let len = u64::from(!(read(slot, BASE) & !KIND)) + 1;
    write(slot, BASE, low);
    write(slot, COMMAND, command | DECODES_MEMORY);
    (address != 0 && len <= 1 << 31).then_some((address, len))
}
