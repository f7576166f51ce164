//! Lines over one axis, straight or logarithmic, with a marker of its own for each.
use super::{LETTERS, SERIES, Tone, WIDTH, dress, letters, ticks};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

const HEIGHT: i32 = 560;
const LEFT: i32 = 136;
const RIGHT: i32 = 30;
const TOP: i32 = 60;
const BOTTOM: i32 = 104;

#[derive(Clone, Debug)]
pub(in super::super) struct Point {
    pub(in super::super) x: f64,
    pub(in super::super) y: f64,
    /// Least and greatest.
    pub(in super::super) range: Option<[f64; 2]>,
}

pub(in super::super) struct Line {
    pub(in super::super) name: String,
    pub(in super::super) points: Vec<Point>,
}

pub(in super::super) struct Lines {
    pub(in super::super) label: String,
    pub(in super::super) x_axis: String,
    /// Stands above the axis, so that it need not be turned.
    pub(in super::super) y_axis: String,
    pub(in super::super) x_log: bool,
    pub(in super::super) y_log: bool,
    /// Where the x axis is labelled, and how; empty: at round numbers.
    pub(in super::super) x_ticks: Vec<(f64, String)>,
    pub(in super::super) x_number: fn(f64) -> String,
    pub(in super::super) y_number: fn(f64) -> String,
    pub(in super::super) lines: Vec<Line>,
}

/// One axis: from data to pixels.
struct Axis {
    log: bool,
    least: f64,
    most: f64,
    from: i32,
    to: i32,
}

impl Axis {
    fn of(log: bool, from_zero: bool, values: impl Iterator<Item = f64>, from: i32, to: i32) -> Axis {
        let usable = values.filter(|v| v.is_finite() && (!log || *v > 0.0));
        let flat = usable.map(|v| if log { v.log10() } else { v });
        let (mut least, mut most) = flat.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
        if least > most {
            (least, most) = (0.0, 1.0);
        }
        if from_zero && !log {
            (least, most) = (least.min(0.0), most * 1.08);
        } else if log && !from_zero {
            (least, most) = (least - 0.08, most + 0.08);
        }
        if most - least < 1e-9 {
            (least, most) = (least - 0.5, most + 0.5);
        }
        Axis { log, least, most, from, to }
    }

    fn pixel(&self, value: f64) -> i32 {
        let flat = if self.log { value.max(f64::MIN_POSITIVE).log10() } else { value };
        let share = ((flat - self.least) / (self.most - self.least)).clamp(0.0, 1.0);
        self.from + (share * f64::from(self.to - self.from)).round() as i32
    }

    fn ticks(&self, count: usize) -> Vec<f64> {
        if !self.log {
            return ticks(self.least, self.most, count);
        }
        let decades = self.least.floor() as i32..=self.most.ceil() as i32;
        if self.most - self.least < 0.5 {
            return ticks(10f64.powf(self.least), 10f64.powf(self.most), count);
        }
        let steps: &[f64] = if self.most - self.least < 1.6 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let every = ((self.most - self.least) / 7.0).ceil().max(1.0) as i32;
        let all = decades.filter(|d| d % every == 0).flat_map(|d| steps.iter().map(move |s| s * 10f64.powi(d)));
        all.filter(|v| (self.least..=self.most).contains(&v.log10())).collect()
    }
}

impl Lines {
    pub(in super::super) fn svg(&self) -> String {
        let mut out = String::new();
        let drawn = self.draw(SVGBackend::with_string(&mut out, (WIDTH, HEIGHT as u32)));
        match drawn {
            Ok(()) => dress(&out, &self.label) + &self.legend(),
            Err(why) => format!("<p class=\"why\">cannot be drawn: {}</p>", super::super::page::escape(&why)),
        }
    }

    /// In the page, not in the drawing: it wraps where there is little room.
    fn legend(&self) -> String {
        let one = |(i, line): (usize, &Line)| {
            let mut mark = String::new();
            let root = SVGBackend::with_string(&mut mark, (44, 32)).into_drawing_area();
            let style = ShapeStyle::from(tone(i).colour()).stroke_width(5);
            let drawn = root.draw(&PathElement::new(vec![(0, 16), (44, 16)], style)).is_ok();
            let drawn = drawn && marker(&root, i, (22, 16)).is_ok() && root.present().is_ok();
            drop(root);
            let mark = if drawn { dress(&mark, "") } else { String::new() };
            let mark = mark.replace("role=\"img\" aria-label=\"\"", "aria-hidden=\"true\"");
            format!("<li>{mark}{}</li>", super::super::page::escape(&line.name))
        };
        if self.lines.len() < 2 {
            return String::new();
        }
        format!("<ul class=\"legend\">{}</ul>", self.lines.iter().enumerate().map(one).collect::<String>())
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        self.lines.iter().flat_map(|l| &l.points)
    }

    fn draw(&self, backend: SVGBackend<'_>) -> Result<(), String> {
        let root = backend.into_drawing_area();
        let (left, right, top, foot) = (LEFT, WIDTH as i32 - RIGHT, TOP, HEIGHT - BOTTOM);
        let named = self.x_ticks.iter().map(|t| t.0);
        let x = Axis::of(self.x_log, false, self.points().map(|p| p.x).chain(named), left + 24, right - 24);
        let ranges = self.points().flat_map(|p| [Some(p.y), p.range.map(|r| r[0]), p.range.map(|r| r[1])]).flatten();
        let y = Axis::of(self.y_log, !self.y_log, ranges, foot, top);
        let said = |e: &dyn std::fmt::Display| e.to_string();
        let line = |path: Vec<(i32, i32)>, tone: Tone, width: u32| {
            let style = ShapeStyle::from(tone.colour()).stroke_width(width);
            root.draw(&PathElement::new(path, style)).map_err(|e| said(&e))
        };
        let text = |words: &str, at: (i32, i32), h: HPos, v: VPos| {
            root.draw(&Text::new(words.to_owned(), at, letters(Tone::Pale, h, v))).map_err(|e| said(&e))
        };
        for tick in y.ticks(5) {
            let at = y.pixel(tick);
            line(vec![(left, at), (right, at)], Tone::Grid, 2)?;
            text(&(self.y_number)(tick), (left - 12, at), HPos::Right, VPos::Center)?;
        }
        let round = |v: f64| (v, (self.x_number)(v));
        let marks =
            if self.x_ticks.is_empty() { x.ticks(5).into_iter().map(round).collect() } else { self.x_ticks.clone() };
        for (tick, words) in &marks {
            let at = x.pixel(*tick);
            line(vec![(at, top), (at, foot + 6)], Tone::Grid, 2)?;
            text(words, (at, foot + 12), HPos::Center, VPos::Top)?;
        }
        line(vec![(left, foot), (right, foot)], Tone::Pale, 2)?;
        text(&self.y_axis, (8, 6), HPos::Left, VPos::Top)?;
        text(&self.x_axis, (right, foot + 22 + LETTERS as i32), HPos::Right, VPos::Top)?;
        for (i, one) in self.lines.iter().enumerate() {
            let usable = one.points.iter().filter(|p| p.x.is_finite() && p.y.is_finite());
            let spots: Vec<(i32, i32)> = usable.clone().map(|p| (x.pixel(p.x), y.pixel(p.y))).collect();
            for (point, spot) in usable.zip(&spots) {
                if let Some([low, high]) = point.range {
                    line(vec![(spot.0, y.pixel(low)), (spot.0, y.pixel(high))], tone(i), 2)?;
                }
            }
            line(spots.clone(), tone(i), 5)?;
            for spot in spots {
                marker(&root, i, spot)?;
            }
        }
        root.present().map_err(|e| said(&e))
    }
}

fn tone(i: usize) -> Tone {
    Tone::Series((i % usize::from(SERIES)) as u8)
}

/// Colour is not the only difference.
fn marker(root: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>, i: usize, at: (i32, i32)) -> Result<(), String> {
    let style = tone(i).colour().filled();
    let (x, y) = at;
    let polygon = |corners: &[(i32, i32)]| {
        let corners: Vec<_> = corners.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
        root.draw(&Polygon::new(corners, style))
    };
    let drawn = match i % 5 {
        0 => root.draw(&Circle::new(at, 9, style)),
        1 => polygon(&[(-9, -9), (9, -9), (9, 9), (-9, 9)]),
        2 => polygon(&[(0, -12), (11, 9), (-11, 9)]),
        3 => polygon(&[(0, -12), (12, 0), (0, 12), (-12, 0)]),
        _ => polygon(&[(0, 12), (11, -9), (-11, -9)]),
    };
    drawn.map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_reach_from_end_to_end() {
        let axis = Axis::of(false, true, [2.0, 10.0].into_iter(), 500, 100);
        assert_eq!((axis.pixel(0.0), axis.pixel(10.8)), (500, 100));
        let log = Axis::of(true, false, [10.0, 1e6].into_iter(), 0, 1000);
        assert_eq!(log.ticks(5), [10.0, 100.0, 1e3, 1e4, 1e5, 1e6]);
        assert!(log.pixel(10.0) > 0 && log.pixel(1e6) < 1000);
        let narrow = Axis::of(true, false, [50e6, 100e6].into_iter(), 0, 1000);
        assert!(narrow.ticks(5).len() >= 3, "less than a decade has more than its powers of ten");
        // Nothing, one value, and what is no number.
        for values in [vec![], vec![7.0], vec![f64::NAN, 0.0, -1.0]] {
            let axis = Axis::of(true, false, values.into_iter(), 0, 100);
            assert!((0..=100).contains(&axis.pixel(3.0)));
        }
    }

    #[test]
    fn every_line_has_a_legend_and_a_marker() {
        let line = |name: &str, y: f64| Line {
            name: name.into(),
            points: vec![Point { x: 1.0, y, range: None }, Point { x: 10.0, y, range: Some([y / 2.0, y * 2.0]) }],
        };
        let lines = Lines {
            label: "l".into(),
            x_axis: "submitters".into(),
            y_axis: "ns, less is better".into(),
            x_log: true,
            y_log: true,
            x_ticks: vec![],
            x_number: super::super::short,
            y_number: super::super::time,
            lines: vec![line("a<b", 30.0), line("c", 3_000.0)],
        };
        let svg = lines.svg();
        assert!(svg.contains("<li>") && svg.contains("a&lt;b") && svg.contains("ns, less is better"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 3, "two points and the legend");
        assert!(svg.contains("var(--c10)") && svg.contains("var(--c11)"));
    }
}
