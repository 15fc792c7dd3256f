//! Text on a framebuffer: a terminal that knows what our programs and Linux's common ones send.

use alloc::vec;
use alloc::vec::Vec;
use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};
use vte::{Params, Parser, Perform};

const ROW_HEIGHT: usize = 16;
const WEIGHT: FontWeight = FontWeight::Regular;
const HEIGHT: RasterHeight = RasterHeight::Size16;
/// Red, green, blue of the sixteen colours.
const COLOURS: [u32; 16] = [
    0x101418, 0xcc5555, 0x55aa55, 0xc8a040, 0x5580cc, 0xaa66aa, 0x50aaaa, 0xc8ccd0, 0x667078, 0xff7777, 0x77dd77,
    0xf0d070, 0x77aaff, 0xdd88dd, 0x77dddd, 0xffffff,
];
const USUAL: Cell = Cell { character: ' ', ink: 7, paper: 0 };

/// How pixels lie in memory.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    pub width: usize,
    pub height: usize,
    /// Bytes from one row of pixels to the next.
    pub pitch: usize,
    /// Bytes of a pixel: blue, green, red, and perhaps one more.
    pub bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    character: char,
    ink: u8,
    paper: u8,
}

pub struct Screen {
    parser: Parser,
    format: Format,
    cell_width: usize,
    text: Text,
    /// What the pixels show; `None`: anything.
    shown: Vec<Option<Cell>>,
}

/// The characters, and where the next goes.
struct Text {
    columns: usize,
    rows: usize,
    cells: Vec<Cell>,
    column: usize,
    row: usize,
    pen: Cell,
    bright: bool,
    reversed: bool,
}

impl Screen {
    pub fn new(format: Format) -> Screen {
        let cell_width = get_raster_width(WEIGHT, HEIGHT);
        let (columns, rows) = ((format.width / cell_width).max(1), (format.height / ROW_HEIGHT).max(1));
        let text = Text {
            columns,
            rows,
            cells: vec![USUAL; columns * rows],
            column: 0,
            row: 0,
            pen: USUAL,
            bright: false,
            reversed: false,
        };
        Screen { parser: Parser::new(), format, cell_width, shown: vec![None; columns * rows], text }
    }

    /// Columns and rows.
    pub fn size(&self) -> (u64, u64) {
        (self.text.columns as u64, self.text.rows as u64)
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.parser.advance(&mut self.text, bytes);
    }

    /// Draws what has changed, the cursor reversed: `put` gets an offset into the framebuffer and the bytes for it.
    pub fn show(&mut self, mut put: impl FnMut(usize, &[u8])) {
        let cursor = self.text.row * self.text.columns + self.text.column.min(self.text.columns - 1);
        for at in 0..self.text.cells.len() {
            let mut cell = self.text.cells[at];
            if at == cursor {
                (cell.ink, cell.paper) = (cell.paper, cell.ink);
            }
            if self.shown[at] != Some(cell) {
                self.shown[at] = Some(cell);
                self.draw(at, cell, &mut put);
            }
        }
    }

    fn draw(&self, at: usize, cell: Cell, put: &mut impl FnMut(usize, &[u8])) {
        let (column, row) = (at % self.text.columns, at / self.text.columns);
        let (x, y) = (column * self.cell_width, row * ROW_HEIGHT);
        let raster = get_raster(cell.character, WEIGHT, HEIGHT).or_else(|| get_raster('?', WEIGHT, HEIGHT));
        if y + ROW_HEIGHT > self.format.height {
            return;
        }
        let mut line = Vec::with_capacity(self.cell_width * 4);
        for dy in 0..ROW_HEIGHT {
            line.clear();
            for dx in 0..self.cell_width {
                let ink = raster.as_ref().and_then(|r| r.rows().nth(dy)?.get(dx).copied()).unwrap_or(0);
                let pixel = mix(COLOURS[usize::from(cell.ink & 15)], COLOURS[usize::from(cell.paper & 15)], ink);
                line.extend_from_slice(&pixel.to_le_bytes()[..self.format.bytes]);
            }
            put((y + dy) * self.format.pitch + x * self.format.bytes, &line);
        }
    }
}

/// `ink` 255: all of `front`.
fn mix(front: u32, back: u32, ink: u8) -> u32 {
    let part = |shift: u32| {
        let (f, b, ink) = (front >> shift & 0xff, back >> shift & 0xff, u32::from(ink));
        ((f * ink + b * (255 - ink)) / 255) << shift
    };
    part(16) | part(8) | part(0)
}

impl Text {
    fn blank(&self) -> Cell {
        Cell { character: ' ', ..self.pen }
    }

    fn line_feed(&mut self) {
        if self.row + 1 < self.rows {
            self.row += 1;
            return;
        }
        let blank = self.blank();
        self.cells.copy_within(self.columns.., 0);
        let last = self.cells.len() - self.columns;
        self.cells[last..].fill(blank);
    }

    fn clear(&mut self, from: usize, to: usize) {
        let blank = self.blank();
        let end = to.min(self.cells.len());
        self.cells[from.min(end)..end].fill(blank);
    }

    fn colour(&mut self, code: u16) {
        match code {
            0 => (self.pen, self.bright, self.reversed) = (USUAL, false, false),
            1 => self.bright = true,
            22 => self.bright = false,
            7 => self.reversed = true,
            27 => self.reversed = false,
            30..=37 => self.pen.ink = (code - 30) as u8,
            39 => self.pen.ink = USUAL.ink,
            40..=47 => self.pen.paper = (code - 40) as u8,
            49 => self.pen.paper = USUAL.paper,
            90..=97 => self.pen.ink = (code - 82) as u8,
            100..=107 => self.pen.paper = (code - 92) as u8,
            _ => {}
        }
    }
}

impl Perform for Text {
    fn print(&mut self, character: char) {
        if self.column >= self.columns {
            self.column = 0;
            self.line_feed();
        }
        let mut cell = Cell { character, ..self.pen };
        if self.bright && cell.ink < 8 {
            cell.ink += 8;
        }
        if self.reversed {
            (cell.ink, cell.paper) = (cell.paper, cell.ink);
        }
        self.cells[self.row * self.columns + self.column] = cell;
        self.column += 1;
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\n' => self.line_feed(),
            b'\r' => self.column = 0,
            8 => self.column = self.column.min(self.columns).saturating_sub(1),
            b'\t' => self.column = ((self.column / 8 + 1) * 8).min(self.columns - 1),
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, _: &[u8], _ignore: bool, action: char) {
        let all: Vec<u16> = params.iter().filter_map(|p| p.first().copied()).collect();
        let nth = |i: usize, usual: u16| usize::from(all.get(i).copied().filter(|&n| n != 0).unwrap_or(usual));
        let first = nth(0, 1);
        let row_start = self.row * self.columns;
        let here = row_start + self.column.min(self.columns - 1);
        match action {
            'A' => self.row = self.row.saturating_sub(first),
            'B' => self.row = (self.row + first).min(self.rows - 1),
            'C' => self.column = (self.column + first).min(self.columns - 1),
            'D' => self.column = self.column.min(self.columns - 1).saturating_sub(first),
            'G' => self.column = (first - 1).min(self.columns - 1),
            'd' => self.row = (first - 1).min(self.rows - 1),
            'H' | 'f' => {
                self.row = (first - 1).min(self.rows - 1);
                self.column = (nth(1, 1) - 1).min(self.columns - 1);
            }
            'J' => match nth(0, 0) {
                0 => self.clear(here, usize::MAX),
                1 => self.clear(0, here + 1),
                _ => self.clear(0, usize::MAX),
            },
            'K' => match nth(0, 0) {
                0 => self.clear(here, row_start + self.columns),
                1 => self.clear(row_start, here + 1),
                _ => self.clear(row_start, row_start + self.columns),
            },
            'm' if all.is_empty() => self.colour(0),
            'm' => all.iter().for_each(|&code| self.colour(code)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen() -> Screen {
        let width = get_raster_width(WEIGHT, HEIGHT) * 10;
        Screen::new(Format { width, height: 3 * ROW_HEIGHT, pitch: width * 4, bytes: 4 })
    }

    fn row(screen: &Screen, row: usize) -> std::string::String {
        screen.text.cells[row * 10..][..10].iter().map(|c| c.character).collect()
    }

    #[test]
    fn text_wraps_and_scrolls() {
        let mut s = screen();
        s.write(b"0123456789ab\r\nc\r\nd");
        assert_eq!([row(&s, 0), row(&s, 1), row(&s, 2)], ["ab        ", "c         ", "d         "]);
    }

    #[test]
    fn sequences_move_and_erase() {
        let mut s = screen();
        s.write(b"hello\x1b[3D\x1b[KX\x1b[2;4Hy\x1b[31mz\x1b[m\x08\x1b[1;1H\x1b[999B\x1b[999C!");
        assert_eq!([row(&s, 0), row(&s, 1), row(&s, 2)], ["heX       ", "   yz     ", "         !"]);
        assert_eq!(s.text.cells[14].ink, 1);
    }

    #[test]
    fn only_what_changed_is_drawn_and_nothing_outside() {
        let mut s = screen();
        let mut drawn = 0;
        s.show(|offset, line| {
            assert!(offset + line.len() <= s_len());
            drawn += 1;
        });
        assert_eq!(drawn, 30 * ROW_HEIGHT);
        s.write(b"a");
        drawn = 0;
        s.show(|_, _| drawn += 1);
        assert_eq!(drawn, 2 * ROW_HEIGHT, "the letter and the cursor");
        // Whatever is sent, nothing breaks.
        s.write(&(0..5000u32).map(|n| ((n * 7919) >> 3) as u8).collect::<Vec<u8>>());
    }

    fn s_len() -> usize {
        get_raster_width(WEIGHT, HEIGHT) * 10 * 4 * 3 * ROW_HEIGHT
    }
}
