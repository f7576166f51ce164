//! Bars that lie, one below the other: names and values need room, and a phone is narrow.
use super::{LETTERS, Tone, WIDTH, dress, letters, ticks};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

const ROW: i32 = 48;
const VALUES: i32 = 150;
/// Width of an average letter: nothing here knows the font that the page will have, so rather too much.
const LETTER: i32 = LETTERS as i32 * 58 / 100;
const TOP: i32 = 34;
const BOTTOM: i32 = 90;

/// One row.
pub(in super::super) struct Bar {
    pub(in super::super) name: String,
    pub(in super::super) tone: Tone,
    /// Median, least and greatest.
    pub(in super::super) value: Option<[f64; 3]>,
    /// The value in words, or why there is none.
    pub(in super::super) text: String,
}

/// A line across all rows, with a word at its foot.
pub(in super::super) struct Mark {
    pub(in super::super) at: f64,
    pub(in super::super) text: String,
}

pub(in super::super) struct Bars {
    /// What a screen reader says.
    pub(in super::super) label: String,
    /// What the axis says, with unit and direction.
    pub(in super::super) axis: String,
    pub(in super::super) rows: Vec<Bar>,
    pub(in super::super) marks: Vec<Mark>,
    /// How a number on the axis is written.
    pub(in super::super) number: fn(f64) -> String,
}

impl Bars {
    /// From 0, or from the least negative value, to the greatest.
    fn range(&self) -> (f64, f64) {
        let values = self.rows.iter().filter_map(|r| r.value).flatten();
        let all = values.chain(self.marks.iter().map(|m| m.at)).filter(|v| v.is_finite());
        let (least, most) = all.fold((0.0_f64, 0.0_f64), |(a, b), v| (a.min(v), b.max(v)));
        if least == most { (0.0, 1.0) } else { (least * 1.04, most * 1.04) }
    }

    /// Room for the longest name.
    fn names(&self) -> i32 {
        let longest = self.rows.iter().map(|r| r.name.chars().count() as i32).max().unwrap_or(0);
        (longest * LETTER + 24).clamp(90, 380)
    }

    pub(in super::super) fn svg(&self) -> String {
        let height = TOP + BOTTOM + ROW * self.rows.len() as i32;
        let mut out = String::new();
        let drawn = self.draw(SVGBackend::with_string(&mut out, (WIDTH, height as u32)));
        match drawn {
            Ok(()) => dress(&out, &self.label),
            Err(why) => format!("<p class=\"why\">cannot be drawn: {}</p>", super::super::page::escape(&why)),
        }
    }

    fn draw(&self, backend: SVGBackend<'_>) -> Result<(), String> {
        let root = backend.into_drawing_area();
        let (least, most) = self.range();
        let left = self.names();
        let right = WIDTH as i32 - VALUES;
        let x =
            |v: f64| left + ((v.clamp(least, most) - least) / (most - least) * f64::from(right - left)).round() as i32;
        let foot = TOP + ROW * self.rows.len() as i32;
        let said = |e: &dyn std::fmt::Display| e.to_string();
        let line = |from: (i32, i32), to: (i32, i32), tone: Tone, width: u32| {
            let style = ShapeStyle::from(tone.colour()).stroke_width(width);
            root.draw(&PathElement::new(vec![from, to], style)).map_err(|e| said(&e))
        };
        let text = |words: &str, at: (i32, i32), tone: Tone, h: HPos, v: VPos| {
            root.draw(&Text::new(words.to_owned(), at, letters(tone, h, v))).map_err(|e| said(&e))
        };
        for tick in ticks(least, most, 3) {
            line((x(tick), TOP), (x(tick), foot + 6), Tone::Grid, 2)?;
            text(&(self.number)(tick), (x(tick), foot + 12), Tone::Pale, HPos::Center, VPos::Top)?;
        }
        for (i, row) in self.rows.iter().enumerate() {
            let middle = TOP + ROW * i as i32 + ROW / 2;
            text(&row.name, (left - 14, middle), Tone::Ink, HPos::Right, VPos::Center)?;
            let Some([median, low, high]) = row.value.filter(|v| v.iter().all(|x| x.is_finite())) else {
                let room = (WIDTH as i32 - left - 10) / LETTER;
                text(&cut(&row.text, room as usize), (left + 10, middle), Tone::Pale, HPos::Left, VPos::Center)?;
                continue;
            };
            let (from, to) = (x(0.0_f64.min(median)), x(0.0_f64.max(median)));
            let corners = [(from, middle - 14), (to.max(from + 2), middle + 14)];
            root.draw(&Rectangle::new(corners, row.tone.colour().filled())).map_err(|e| said(&e))?;
            if x(high) - x(low) > 2 {
                line((x(low), middle), (x(high), middle), Tone::Ink, 3)?;
                line((x(low), middle - 9), (x(low), middle + 9), Tone::Ink, 3)?;
                line((x(high), middle - 9), (x(high), middle + 9), Tone::Ink, 3)?;
            }
            text(&row.text, (WIDTH as i32 - 4, middle), Tone::Ink, HPos::Right, VPos::Center)?;
        }
        line((x(0.0), TOP), (x(0.0), foot), Tone::Pale, 2)?;
        for mark in &self.marks {
            line((x(mark.at), TOP - 8), (x(mark.at), foot), Tone::Limit, 3)?;
            text(&mark.text, (x(mark.at), TOP - 10), Tone::Limit, HPos::Center, VPos::Bottom)?;
        }
        let wide = self.axis.chars().count() as i32 * LETTER > WIDTH as i32 - left;
        let axis = (if wide { 4 } else { left }, foot + 18 + LETTERS as i32);
        text(&self.axis, axis, Tone::Pale, HPos::Left, VPos::Top)?;
        root.present().map_err(|e| said(&e))
    }
}

/// The first letters, if there are more than fit.
fn cut(text: &str, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    text.chars().take(letters - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, value: Option<[f64; 3]>, text: &str) -> Bar {
        Bar { name: name.into(), tone: Tone::of_arm(name), value, text: text.into() }
    }

    #[test]
    fn every_arm_has_its_row() {
        let rows = vec![
            bar("scheduler", Some([50.0, 40.0, 60.0]), "50 M/s"),
            bar("go", None, "absent: no `go` in PATH"),
            bar("tokio", Some([f64::NAN; 3]), "nonsense"),
        ];
        let bars = Bars {
            label: "l".into(),
            axis: "M/s, more is better".into(),
            rows,
            marks: vec![],
            number: super::super::short,
        };
        let svg = bars.svg();
        for words in ["scheduler", "50 M/s", "absent: no `go` in PATH", "nonsense", "M/s, more is better"] {
            assert!(svg.contains(words), "{words}: {svg}");
        }
        assert_eq!(svg.matches("<rect").count(), 1, "only what was measured is a bar");
        assert!(svg.contains("var(--c0)"));
    }

    #[test]
    fn long_reasons_are_cut() {
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("abcd", 4), "abcd");
    }
}
