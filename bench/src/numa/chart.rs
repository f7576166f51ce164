//! The chart: per host what runs off its node under a balanced load, and the span on a hot node.
use super::Run;
use bench::model::{HOSTS, Load, Rules, Tally};
use plotters::coord::Shift;
use plotters::prelude::*;

const WIDTH: i32 = 1100;
const TOP: i32 = 70;
const BAR: i32 = 11;
const GAP: i32 = 14;
const NAMES: i32 = 210;
const PANEL: i32 = 420;
const SHOWN: [Rules; 4] = [Rules::Ours, Rules::Uniform, Rules::Strict, Rules::OneTask];
const COLOURS: [RGBColor; 4] =
    [RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(120, 120, 120), RGBColor(230, 159, 0)];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// One of the two panels.
struct Panel {
    left: i32,
    title: &'static str,
    load: Load,
    figure: fn(&Tally) -> f64,
    most: f64,
    limit: f64,
}

/// The picture as SVG text.
pub(super) fn draw(runs: &[Run]) -> Result<String, String> {
    let row = BAR * SHOWN.len() as i32 + GAP;
    let height = TOP + row * HOSTS.len() as i32 + 20;
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (WIDTH as u32, height as u32)).into_drawing_area();
        area.fill(&WHITE).map_err(|e| e.to_string())?;
        legend(&area)?;
        for (index, host) in HOSTS.iter().enumerate() {
            write(&area, host.name, (8, TOP + row * index as i32 + 14), 14)?;
        }
        let panels = [
            Panel {
                left: NAMES,
                title: "balanced load: tasks off their node, %",
                load: Load::Balanced,
                figure: Tally::off_node_percent,
                most: 100.0,
                limit: 2.0,
            },
            Panel {
                left: NAMES + PANEL + 30,
                title: "hot node: span / optimum (bars end at 4)",
                load: Load::Hot,
                figure: Tally::span,
                most: 4.0,
                limit: 1.15,
            },
        ];
        panels.iter().try_for_each(|panel| panel.draw(&area, runs, row))?;
        area.present().map_err(|e| e.to_string())?;
    }
    Ok(text)
}

impl Panel {
    fn draw(&self, area: &Area<'_>, runs: &[Run], row: i32) -> Result<(), String> {
        write(area, self.title, (self.left, TOP - 24), 15)?;
        let x = |value: f64| self.left + (value.min(self.most) / self.most * f64::from(PANEL - 70)) as i32;
        for (h, host) in HOSTS.iter().enumerate() {
            for (r, rules) in SHOWN.iter().enumerate() {
                let same = |run: &&Run| run.host.name == host.name && run.load == self.load && run.rules == *rules;
                let Some(run) = runs.iter().find(same) else { continue };
                let value = (self.figure)(&run.tally);
                let y = TOP + row * h as i32 + BAR * r as i32;
                let bar =
                    Rectangle::new([(self.left, y), (x(value).max(self.left + 1), y + BAR - 2)], COLOURS[r].filled());
                area.draw(&bar).map_err(|e| e.to_string())?;
                write(area, &format!("{value:.2}"), (x(value) + 5, y - 2), 11)?;
            }
        }
        let end = TOP + row * HOSTS.len() as i32 - GAP;
        let limit = PathElement::new(vec![(x(self.limit), TOP - 6), (x(self.limit), end)], BLACK.stroke_width(1));
        area.draw(&limit).map_err(|e| e.to_string())
    }
}

fn legend(area: &Area<'_>) -> Result<(), String> {
    for (r, rules) in SHOWN.iter().enumerate() {
        let x = NAMES + 150 * r as i32;
        let square = Rectangle::new([(x, 12), (x + 12, 24)], COLOURS[r].filled());
        area.draw(&square).map_err(|e| e.to_string())?;
        write(area, rules.name(), (x + 18, 10), 15)?;
    }
    write(area, "line: the bound", (NAMES + 600, 10), 15)
}

fn write(area: &Area<'_>, text: &str, at: (i32, i32), size: i32) -> Result<(), String> {
    let style = ("sans-serif", size).into_font().color(&BLACK);
    area.draw(&Text::new(text.to_owned(), at, style)).map_err(|e| e.to_string())
}
