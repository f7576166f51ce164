//! The host as a picture.
//!
//! Nodes are cards of one colour each; in them the shared caches, in these the cores, in these the CPUs, SMT siblings
//! side by side. A filled CPU has a worker, a tinted one is free, a hatched one is forbidden, a crossed one is off.
//! Below: how far the nodes are from each other, and why each worker is where it is. Resting the pointer on a CPU or
//! a distance tells about it.

mod host;
mod paint;
mod piece;
mod tables;

use crate::draw;
use numa::{CpuSet, Seat, Topology};
use paint::{DARK, EDGE, PAPER, PATTERNS, WHITE, bold, faded, frame, plain};
use piece::{Piece, fitted, stack, text_width, wrapped};

/// Space around everything and between sections.
const MARGIN: f64 = 24.0;
/// Narrower pictures look lost on a page, and the header needs some room.
const LEAST_WIDTH: f64 = 760.0;

pub(crate) fn svg(topology: &Topology, seats: &[Seat], by_default: bool) -> String {
    let nodes = host::nodes(topology, seats);
    let width = nodes.width.max(LEAST_WIDTH);
    let mut sections = vec![header(topology, seats, by_default, width), nodes];
    sections.push(tables::below(topology, seats, width));
    if !topology.notes().is_empty() {
        sections.push(notes(topology, width));
    }
    sections.push(legend(topology, seats));
    let page = stack(&sections, MARGIN);
    let (width, height) = (page.width + 2.0 * MARGIN, page.height + 2.0 * MARGIN);
    let mut sheet = Piece::new(width, height);
    sheet.rect([0.0, 0.0, width, height], frame(PAPER, PAPER)).put(MARGIN, MARGIN, &page);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', Arial, sans-serif\">\n\
         <title>{}</title>\n{PATTERNS}{DARK}{}</svg>\n",
        draw::size(topology),
        sheet.body()
    )
}

/// What the host is, and what of it may be used.
fn header(topology: &Topology, seats: &[Seat], by_default: bool, width: f64) -> Piece {
    let mut facts = vec![format!("online {}", topology.online()), format!("allowed {}", topology.allowed())];
    if !topology.offline().is_empty() {
        facts.push(format!("offline {}", topology.offline()));
    }
    if !topology.isolated().is_empty() {
        facts.push(format!("isolated {}", topology.isolated()));
    }
    facts.push(format!("quota {}", draw::quota(topology)));
    let reason = draw::workers_reason(topology, by_default);
    let workers = format!("{} = {reason}", draw::count(seats.len(), "worker"));
    let mut lines = vec![fitted(&draw::source(topology), 13.0, width)];
    lines.extend(wrapped(&facts.join(" · "), 13.0, width));
    let mut piece = Piece::new(width, 46.0 + 19.0 * lines.len() as f64);
    piece.text(0.0, 22.0, draw::size(topology), bold(24.0));
    for (index, line) in lines.iter().enumerate() {
        piece.text(0.0, 45.0 + 19.0 * index as f64, line, faded(13.0));
    }
    piece.text(0.0, 45.0 + 19.0 * lines.len() as f64, workers, bold(13.0));
    piece
}

fn notes(topology: &Topology, width: f64) -> Piece {
    let mut lines = Vec::new();
    for note in topology.notes() {
        lines.extend(wrapped(&note.to_string(), 12.0, width - 24.0));
    }
    let mut piece = Piece::new(width, 34.0 + 17.0 * lines.len() as f64);
    piece.rect([0.0, 0.0, width, piece.height], frame(WHITE, EDGE));
    piece.text(12.0, 20.0, "ignored, repaired or assumed", bold(12.0));
    for (index, line) in lines.iter().enumerate() {
        piece.text(12.0, 39.0 + 17.0 * index as f64, line, plain(12.0));
    }
    piece
}

/// What the looks of a CPU mean; only of those there are.
fn legend(topology: &Topology, seats: &[Seat]) -> Piece {
    let mut meanings = Vec::new();
    let with_worker: CpuSet = seats.iter().filter_map(|seat| seat.cpu).collect();
    if !with_worker.is_empty() {
        meanings.push((host::State::Worker, "has a worker"));
    }
    if !topology.allowed().is_subset(&with_worker) {
        meanings.push((host::State::Free, "free"));
    }
    if topology.allowed() != topology.online() {
        meanings.push((host::State::Forbidden, "outside the mask of this process"));
    }
    if !topology.offline().is_empty() {
        meanings.push((host::State::Offline, "switched off"));
    }
    if !topology.isolated().is_empty() {
        meanings.push((host::State::Isolated, "isolated: used only when listed"));
    }
    let entry = |(state, meaning): (host::State, &str)| {
        let mut entry = Piece::new(24.0 + text_width(meaning, 12.0), 18.0);
        state.paint(&mut entry, 0, [0.0, 1.0, 16.0, 16.0]);
        entry.text(22.0, 14.0, meaning, faded(12.0));
        entry
    };
    let entries: Vec<Piece> = meanings.into_iter().map(entry).collect();
    piece::flow(&entries, LEAST_WIDTH, 18.0)
}
