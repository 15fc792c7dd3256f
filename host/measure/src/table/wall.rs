//! Wall time, beside what was counted.

use super::{NOTHING, Table, by_size, columns};
use crate::figure::count;
use crate::peer::Peer;
use std::fmt;

const ABOUT: &str = "\
Wall time, nanoseconds of this host: the median of the rounds in two machines that were booted by turns with the peer's, the
least, and what 99 of a hundred rounds did not exceed where there were so many (a peer's samples are few, and of many rounds
each). It compares with nothing but this run: under QEMU's translator a change of the address space or of the key register
empties the emulated TLB, which takes microseconds, and on a processor does not; and what else the host does disturbs it.";

const AT_ONCE: &str = "\
By the same clock, how many times as fast as one thread, in thousandths (1000: no faster), on processors that run at once if nothing
else does on this host:";

/// A row for each case and way; the peer by the fastest of its ways.
fn rows(table: &Table) -> Vec<Vec<String>> {
    let mut head = table.head();
    head.extend(["musubi", "least", "p99"].map(String::from));
    head.extend(Peer::SYSTEMS.iter().flat_map(|system| [system.to_string(), "ratio".into()]));
    let mut rows = vec![head];
    for own in table.totals() {
        let mut row = table.words(own);
        row.extend([own.value, own.min].map(|n| n.to_string()));
        row.push(table.late(own).map_or(NOTHING.into(), |late| late.value.to_string()));
        for system in Peer::SYSTEMS {
            let peer = table.peer(own, system);
            row.push(peer.map_or(NOTHING.into(), |peer| format!("{} ({})", peer.value, peer.way)));
            row.push(peer.map_or(NOTHING.into(), |peer| format!("{:.1}", peer.value as f64 / own.value.max(1) as f64)));
        }
        rows.push(row);
    }
    rows
}

/// Shows it, if it was measured.
pub fn show(table: &Table, f: &mut fmt::Formatter) -> fmt::Result {
    if table.wall.is_empty() {
        return Ok(());
    }
    let wall = Table { figures: table.wall, wall: &[], ..*table };
    writeln!(f, "\n{ABOUT}")?;
    if by_size::applies(&wall) {
        writeln!(f, "Numbers at the head are bytes; ratios, the least and p99 are of {}.\n", by_size::ONE)?;
        for (at, table) in by_size::wall_tables(&wall).iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            columns(f, table)?;
        }
    } else {
        columns(f, &rows(&wall))?;
    }
    let ratios = wall.plain(&[count::BY_WALL]);
    if ratios.len() > 1 {
        writeln!(f, "\n{AT_ONCE}")?;
        columns(f, &ratios)?;
    }
    Ok(())
}
