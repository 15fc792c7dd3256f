//! As much of SVG as a timeline needs.

use std::fmt::Write;

pub struct Svg {
    out: String,
}

/// Where a text is held.
#[derive(Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    pub fn new(width: f64, height: f64, background: &str) -> Svg {
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"'DejaVu Sans',Verdana,Helvetica,sans-serif\">\n"
        );
        let _ = writeln!(out, "<rect width=\"100%\" height=\"100%\" fill=\"{background}\"/>");
        Svg { out }
    }

    pub fn rect(&mut self, [x, y, w, h]: [f64; 4], fill: &str, about: &str) {
        let _ = write!(self.out, "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{w:.2}\" height=\"{h:.2}\" fill=\"{fill}\"");
        let _ = match about {
            "" => writeln!(self.out, "/>"),
            about => writeln!(self.out, "><title>{}</title></rect>", escaped(about)),
        };
    }

    pub fn line(&mut self, [x1, y1, x2, y2]: [f64; 4], stroke: &str) {
        let _ = writeln!(
            self.out,
            "<line x1=\"{x1:.2}\" y1=\"{y1:.2}\" x2=\"{x2:.2}\" y2=\"{y2:.2}\" stroke=\"{stroke}\" stroke-width=\"1\"/>"
        );
    }

    pub fn text(&mut self, (x, y): (f64, f64), size: u32, fill: &str, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        let _ = writeln!(
            self.out,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" fill=\"{fill}\" text-anchor=\"{anchor}\">{text}</text>"
        );
    }

    /// A polygon.
    pub fn shape(&mut self, points: &[(f64, f64)], fill: &str) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(self.out, "<polygon points=\"{}\" fill=\"{fill}\"/>", points.join(" "));
    }

    pub fn finish(mut self) -> String {
        self.out.push_str("</svg>\n");
        self.out
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
