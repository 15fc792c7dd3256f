//! The machine as a program sees it.

use linux_raw_sys::{general as linux, system};

use crate::answer::{Answer, errno};
use crate::calls::io::fill_random;
use crate::machine::{Clock, Machine};
use crate::process::Call;
use crate::record;

const NAME_LEN: usize = 65;
/// `uname`: name, node, release, version, machine, domain. The release says which Linux the calls are measured by.
const NAMES: [&[u8]; 6] = [b"Linux", b"musubi", b"6.1.0-musubi", b"#1 SMP Musubi", b"x86_64", b"(none)"];
const GRND_KNOWN: u32 = linux::GRND_NONBLOCK | linux::GRND_RANDOM | linux::GRND_INSECURE;

pub fn uname<M: Machine>(call: &mut Call<'_, M>, buffer: u64) -> Answer {
    let mut bytes = [0; size_of::<system::new_utsname>()];
    for (field, name) in bytes.chunks_exact_mut(NAME_LEN).zip(NAMES) {
        field[..name.len()].copy_from_slice(name);
    }
    call.write(buffer, &bytes)?;
    Ok(0)
}

pub fn sysinfo<M: Machine>(call: &mut Call<'_, M>, buffer: u64) -> Answer {
    let memory = call.machine().memory();
    let bytes = record!(system::sysinfo {
        uptime: (call.machine().clock(Clock::SinceBoot) / 1_000_000_000) as i64,
        totalram: memory.total,
        freeram: memory.free,
        procs: memory.tasks as u16,
        mem_unit: 1,
    });
    call.write(buffer, &bytes)?;
    Ok(0)
}

/// Random bytes are always ready, so the flags make no difference.
pub fn getrandom<M: Machine>(call: &mut Call<'_, M>, buffer: u64, len: u64, flags: u32) -> Answer {
    if flags & !GRND_KNOWN != 0 {
        return call.refuse("getrandom flags", flags.into(), errno::EINVAL);
    }
    fill_random(call, buffer, len.min(i32::MAX as u64))
}

/// Restartable sequences need the kernel's help at every preemption; the C library does without.
pub fn rseq<M: Machine>(call: &mut Call<'_, M>) -> Answer {
    call.refuse("rseq", 0, errno::ENOSYS)
}
