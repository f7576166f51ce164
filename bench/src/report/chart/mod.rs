//! Charts: plotters draws them, the page colours them.
//!
//! A chart is drawn in made-up colours, each of which stands for a variable of the page's style sheet, so that one
//! drawing serves light and dark. It is drawn at twice its size: the backend has whole pixels only.
use plotters::prelude::{IntoFont, RGBColor, TextStyle};
use plotters::style::Color;
use plotters::style::text_anchor::{HPos, Pos, VPos};

mod bars;
mod lines;

pub(super) use bars::{Bar, Bars, Mark};
pub(super) use lines::{Line, Lines, Point};

/// Width of every chart in units of the view box. Three fit side by side into 1280 pixels, one into a phone, without
/// the letters becoming too small.
const WIDTH: u32 = 840;
/// Height of the letters.
const LETTERS: u32 = 28;

/// What a colour means. The numbers are those of the variables in the style sheet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// Ours.
    Ours,
    /// Ours, used in another way.
    Variant,
    /// Somebody else's.
    Peer,
    /// A bound or a control, no pool.
    Bound,
    /// Letters.
    Ink,
    /// Letters of less weight.
    Pale,
    /// Lines behind.
    Grid,
    /// A limit.
    Limit,
    /// One of several lines.
    Series(u8),
}

/// Colours for lines before they repeat; markers go on differing.
pub(super) const SERIES: u8 = 8;

impl Tone {
    pub(super) fn number(self) -> u8 {
        match self {
            Tone::Ours => 0,
            Tone::Variant => 1,
            Tone::Peer => 2,
            Tone::Bound => 3,
            Tone::Ink => 4,
            Tone::Pale => 5,
            Tone::Grid => 6,
            Tone::Limit => 7,
            Tone::Series(n) => 10 + n % SERIES,
        }
    }

    fn colour(self) -> RGBColor {
        RGBColor(1, 2, self.number())
    }

    /// The role of an arm.
    pub(super) fn of_arm(arm: &str) -> Tone {
        match arm {
            "scheduler" => Tone::Ours,
            "floor" | "inline" => Tone::Bound,
            _ if arm.starts_with("scheduler") || arm.starts_with("pool-") => Tone::Variant,
            _ => Tone::Peer,
        }
    }
}

fn letters(tone: Tone, h: HPos, v: VPos) -> TextStyle<'static> {
    let font = ("sans-serif", LETTERS).into_font();
    TextStyle { font, color: tone.colour().to_backend_color(), pos: Pos::new(h, v) }
}

/// Makes what was drawn fit for the page: made-up colours become variables, sizes are left to the style sheet.
fn dress(drawn: &str, label: &str) -> String {
    let mut out = String::with_capacity(drawn.len());
    for line in drawn.lines() {
        if line.starts_with("<svg") {
            let view = line.split_once("viewBox=\"").and_then(|(_, rest)| rest.split_once('"')).map_or("", |(v, _)| v);
            let label = super::page::escape(label);
            out += &format!("<svg viewBox=\"{view}\" role=\"img\" aria-label=\"{label}\">\n");
            continue;
        }
        let mut line = line.replace(" font-family=\"sans-serif\"", "").replace(" opacity=\"1\"", "");
        for what in ["fill", "stroke"] {
            let mark = format!("{what}=\"#0102");
            if let Some(at) = line.find(&mark) {
                let digits = at + mark.len();
                let number = u8::from_str_radix(&line[digits..digits + 2], 16).unwrap_or(Tone::Ink.number());
                line.replace_range(at..digits + 3, &format!("style=\"{what}:var(--c{number})\""));
            }
        }
        out += &line;
        out.push('\n');
    }
    out
}

/// A number in three digits with a prefix of thousands: `49.9 M`, `312 n` for a unit of seconds.
pub(super) fn short(x: f64) -> String {
    const STEPS: [(f64, &str); 7] =
        [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "u")];
    let size = x.abs();
    if size == 0.0 {
        return "0".into();
    }
    let (scale, prefix) = STEPS.iter().find(|(s, _)| size >= *s * 0.9995).copied().unwrap_or((1e-9, "n"));
    let space = if prefix.is_empty() { "" } else { " " };
    format!("{}{space}{prefix}", three(x / scale))
}

/// Three digits that count, without zeros at the end.
pub(super) fn three(x: f64) -> String {
    let digits = match x.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{x:.digits$}");
    if digits == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_owned() }
}

/// Nanoseconds as people say them.
pub(super) fn time(ns: f64) -> String {
    match ns.abs() {
        n if n >= 1e9 => format!("{} s", three(ns / 1e9)),
        n if n >= 1e6 => format!("{} ms", three(ns / 1e6)),
        n if n >= 1e3 => format!("{} us", three(ns / 1e3)),
        _ => format!("{} ns", three(ns)),
    }
}

/// Round numbers from 0, or around it, to a little more than `most`: at most `count` steps.
fn ticks(least: f64, most: f64, count: usize) -> Vec<f64> {
    let rough = (most - least) / count as f64;
    if !rough.is_finite() || rough <= 0.0 {
        return vec![least];
    }
    let ten = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * ten).into_iter().find(|s| *s >= rough).unwrap_or(10.0 * ten);
    let first = (least / step).ceil() as i64;
    let last = (most / step).floor() as i64;
    (first..=last).map(|i| i as f64 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (x, text) in
            [(49_912_345.0, "49.9 M"), (1_000.0, "1 k"), (999.9, "1 k"), (0.0, "0"), (12.0, "12"), (0.5, "500 m")]
        {
            assert_eq!(short(x), text);
        }
        assert_eq!(time(39.8), "39.8 ns");
        assert_eq!(time(100_600_000.0), "101 ms");
        assert_eq!(three(100.0), "100");
        assert_eq!(three(-3.01), "-3.01");
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(0.0, 49.9, 5), [0.0, 10.0, 20.0, 30.0, 40.0]);
        assert_eq!(ticks(-3.4, 6.0, 5), [-2.0, 0.0, 2.0, 4.0, 6.0]);
        assert_eq!(ticks(0.0, 0.0, 5), [0.0]);
    }

    #[test]
    fn colours_become_variables() {
        let drawn = "<svg width=\"840\" height=\"9\" viewBox=\"0 0 840 9\" xmlns=\"x\">\n\
                     <rect opacity=\"1\" fill=\"#010202\" \
                     stroke=\"none\"/>\n<line opacity=\"0.5\" stroke=\"#01020B\"/>\n</svg>\n";
        let dressed = dress(drawn, "a < b");
        assert!(dressed.starts_with("<svg viewBox=\"0 0 840 9\" role=\"img\" aria-label=\"a &lt; b\">"), "{dressed}");
        assert!(dressed.contains("<rect style=\"fill:var(--c2)\" stroke=\"none\"/>"), "{dressed}");
        assert!(dressed.contains("style=\"stroke:var(--c11)\""), "{dressed}");
        assert!(!dressed.contains("#0102"), "{dressed}");
    }
}
