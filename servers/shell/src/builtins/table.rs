//! Columns as wide as they must be.

use crate::io::Io;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

pub struct Table {
    rows: Vec<Vec<String>>,
    /// Columns whose numbers stand to the right.
    right: &'static [usize],
}

impl Table {
    pub fn new(titles: &[&str], right: &'static [usize]) -> Table {
        Table { rows: Vec::from([titles.iter().map(ToString::to_string).collect()]), right }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |c: usize| self.rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (c, cell) in row.iter().enumerate() {
                let gap = " ".repeat(widths[c] - cell.chars().count());
                let (before, after) = if self.right.contains(&c) { (gap, String::new()) } else { (String::new(), gap) };
                line.push_str(&before);
                line.push_str(cell);
                line.push_str(&after);
                line.push_str("  ");
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    pub fn print(&self, io: &mut Io) {
        let _ = io.write(self.text().as_bytes());
    }
}

/// Bytes with a unit.
pub fn bytes(n: u64) -> String {
    for (unit, shift) in [("G", 30u32), ("M", 20), ("K", 10)] {
        if n >= 1 << shift {
            let tenths = ((n as u128 * 10) >> shift) as u64;
            return match tenths % 10 {
                0 => alloc::format!("{}{unit}", tenths / 10),
                part if tenths < 100 => alloc::format!("{}.{part}{unit}", tenths / 10),
                _ => alloc::format!("{}{unit}", tenths / 10),
            };
        }
    }
    n.to_string()
}

/// Nanoseconds with a unit.
pub fn time(ns: u64) -> String {
    match ns {
        0..1_000 => alloc::format!("{ns}ns"),
        1_000..1_000_000 => alloc::format!("{}.{}us", ns / 1_000, ns % 1_000 / 100),
        1_000_000..1_000_000_000 => alloc::format!("{}.{}ms", ns / 1_000_000, ns % 1_000_000 / 100_000),
        _ => alloc::format!("{}.{:02}s", ns / 1_000_000_000, ns % 1_000_000_000 / 10_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["a", "number"], &[1]);
        table.row(["long one".to_string(), "5".to_string()]);
        assert_eq!(table.text(), "a         number\nlong one       5\n");
    }

    #[test]
    fn units() {
        assert_eq!(
            [bytes(5), bytes(4096), bytes(1536), bytes(2 << 20), bytes(40 << 30)],
            ["5", "4K", "1.5K", "2M", "40G"]
        );
        assert_eq!([time(5), time(1500), time(2_500_000_000)], ["5ns", "1.5us", "2.50s"]);
    }
}
