//! Pieces of a picture: a size and some SVG in coordinates of their own, put beside and into each other.

use std::fmt::{Display, Write};

/// A rectangle of picture, its upper left corner at 0, 0.
#[derive(Debug, Clone, Default)]
pub(super) struct Piece {
    pub(super) width: f64,
    pub(super) height: f64,
    body: String,
}

/// In the source of the picture, so that it has lines.
const NEWLINE: char = '\n';

/// How a rectangle looks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look<'a> {
    pub(super) fill: &'a str,
    pub(super) line: &'a str,
    pub(super) dashed: bool,
    pub(super) round: f64,
}

/// How a text looks, and which point of it is placed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Type<'a> {
    pub(super) size: f64,
    pub(super) colour: &'a str,
    pub(super) bold: bool,
    pub(super) anchor: &'a str,
}

impl Piece {
    /// An empty piece of this size.
    pub(super) fn new(width: f64, height: f64) -> Piece {
        Piece { width, height, body: String::new() }
    }

    pub(super) fn body(&self) -> &str {
        &self.body
    }

    /// A rectangle within the piece: left, top, width, height.
    pub(super) fn rect(&mut self, [x, y, width, height]: [f64; 4], look: Look<'_>) -> &mut Piece {
        let dash = if look.dashed { r#" stroke-dasharray="4 3""# } else { "" };
        let Look { fill, line, round, .. } = look;
        self.add(format_args!(r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" rx="{round}""#));
        self.add(format_args!(r#" fill="{fill}" stroke="{line}"{dash}/>{NEWLINE}"#))
    }

    /// A line of text whose base line is at `y`.
    pub(super) fn text(&mut self, x: f64, y: f64, text: impl Display, style: Type<'_>) -> &mut Piece {
        let Type { size, colour, bold, anchor } = style;
        let weight = if bold { r#" font-weight="600""# } else { "" };
        let text = escape(&text.to_string());
        self.add(format_args!(r#"<text x="{x:.1}" y="{y:.1}" font-size="{size}" fill="{colour}""#));
        self.add(format_args!(r#" text-anchor="{anchor}"{weight}>{text}</text>{NEWLINE}"#))
    }

    /// Another piece at this place.
    pub(super) fn put(&mut self, x: f64, y: f64, piece: &Piece) -> &mut Piece {
        self.add(format_args!(r#"<g transform="translate({x:.1} {y:.1})">{}</g>{NEWLINE}"#, piece.body))
    }

    /// What a viewer shows when the pointer rests on the piece.
    pub(super) fn tip(self, text: impl Display) -> Piece {
        let text = escape(&text.to_string());
        Piece { body: format!("<g><title>{text}</title>{}</g>", self.body), ..self }
    }

    fn add(&mut self, svg: std::fmt::Arguments<'_>) -> &mut Piece {
        // Writing to a String cannot fail.
        let _ = self.body.write_fmt(svg);
        self
    }
}

/// Pieces from left to right in rows no wider than `most`, if they can be.
pub(super) fn flow(pieces: &[Piece], most: f64, gap: f64) -> Piece {
    let mut all = Piece::default();
    let (mut x, mut y, mut row) = (0.0, 0.0, 0.0_f64);
    for piece in pieces {
        if x > 0.0 && x + piece.width > most {
            (x, y, row) = (0.0, y + row + gap, 0.0);
        }
        all.put(x, y, piece);
        all.width = all.width.max(x + piece.width);
        row = row.max(piece.height);
        all.height = all.height.max(y + row);
        x += piece.width + gap;
    }
    all
}

/// Pieces one below the other.
pub(super) fn stack(pieces: &[Piece], gap: f64) -> Piece {
    flow(pieces, 0.0, gap)
}

/// About how wide a text will be. Fonts differ, so this is what a wide one needs.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    let ems = |c: char| match c {
        'i' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | ' ' | '-' | '(' | ')' => 0.38,
        'm' | 'w' | 'M' | 'W' | '%' => 0.95,
        'A'..='Z' => 0.72,
        '0'..='9' => 0.64,
        _ => 0.6,
    };
    text.chars().map(ems).sum::<f64>() * size
}

/// The text, or its beginning and end with dots between them, no wider than `most`.
pub(super) fn fitted(text: &str, size: f64, most: f64) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut kept = characters.len();
    loop {
        let (head, tail) = (kept - kept / 2, kept / 2);
        let middle = if kept < characters.len() { "…" } else { "" };
        let start: String = characters[..head].iter().collect();
        let end: String = characters[characters.len() - tail..].iter().collect();
        let short = format!("{start}{middle}{end}");
        if kept == 0 || text_width(&short, size) <= most {
            return short;
        }
        kept -= 1 + kept / 16;
    }
}

/// The text in lines no wider than `most`, broken at spaces and after commas.
pub(super) fn wrapped(text: &str, size: f64, most: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_inclusive([' ', ',']) {
        let line = lines.last().map_or("", String::as_str);
        if !line.is_empty() && text_width(line, size) + text_width(word.trim_end(), size) > most {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(word);
        }
    }
    lines.iter().map(|line| fitted(line.trim_end(), size, most)).collect()
}

/// Text as XML takes it: markup escaped, characters left out that XML cannot hold.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\n' | '\t' => safe.push(' '),
            '\u{fffe}' | '\u{ffff}' => {}
            c if c.is_control() => {}
            c => safe.push(c),
        }
    }
    safe
}
