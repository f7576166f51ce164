//! Below the nodes: how far they are from each other, and why workers are where they are.

use super::paint::{self, EDGE, FADED, UNKNOWN, WHITE, bold, faded, frame, plain};
use super::piece::{Look, Piece, Type, flow, wrapped};
use crate::draw;
use numa::{CpuId, CpuSet, Seat, Topology};

/// Distances have their number in them up to this many nodes; beyond, only the pointer tells.
const MOST_NUMBERS: usize = 24;
/// Beyond this many nodes the table would be larger than the rest of the picture, and is left to `--json`.
const MOST_NODES: usize = 128;
/// Rows of the table of workers. Hosts with more reasons than these have the rest in `--json`.
const MOST_ROWS: usize = 64;
/// The width reasons need to be read.
const LEAST_REASONS: f64 = 420.0;

/// Both tables, beside each other where there is room.
pub(super) fn below(topology: &Topology, seats: &[Seat], width: f64) -> Piece {
    let Some(distances) = distances(topology) else {
        return reasons(topology, seats, width);
    };
    let beside = width - distances.width - 24.0;
    let reasons = reasons(topology, seats, if beside < LEAST_REASONS { width } else { beside });
    flow(&[distances, reasons], width, 24.0)
}

fn distances(topology: &Topology) -> Option<Piece> {
    let nodes = topology.nodes();
    if nodes.len() < 2 || nodes.len() > MOST_NODES {
        return None;
    }
    let numbered = nodes.len() <= MOST_NUMBERS;
    let (cell, left, top) = (if numbered { 32.0 } else { 14.0 }, 46.0, 52.0);
    let size = cell * nodes.len() as f64;
    let mut piece = Piece::new((left + size + 12.0).max(230.0), top + size + 26.0);
    piece.rect([0.0, 0.0, piece.width, piece.height], Look { round: 7.0, ..frame(WHITE, EDGE) });
    piece.text(12.0, 20.0, "distances", bold(13.0));
    let all = (0..nodes.len()).flat_map(|from| (0..nodes.len()).map(move |to| (from, to)));
    let known = all.clone().filter_map(|(from, to)| topology.distance(from, to));
    let (least, most) = known.fold((u32::MAX, 0), |(least, most), far| (least.min(far), most.max(far)));
    for (index, node) in nodes.iter().enumerate() {
        let middle = (index as f64 + 0.5) * cell;
        if numbered || index % 8 == 0 {
            piece.text(left + middle, top - 8.0, node.id, Type { anchor: "middle", ..faded(11.0) });
            piece.text(left - 8.0, top + middle + 4.0, node.id, Type { anchor: "end", ..faded(11.0) });
        }
    }
    for (from, to) in all {
        let place = [left + to as f64 * cell, top + from as f64 * cell, cell, cell];
        let far = topology.distance(from, to);
        let (fill, ink) = match far {
            None => (UNKNOWN.to_owned(), FADED),
            Some(far) => paint::heat(f64::from(far - least) / f64::from((most - least).max(1))),
        };
        let mut entry = Piece::new(cell, cell);
        entry.rect(place, Look { round: 0.0, ..frame(&fill, WHITE) });
        let said = far.map_or("?".to_owned(), |far| far.to_string());
        if numbered {
            let style = Type { colour: ink, anchor: "middle", ..plain(11.0) };
            entry.text(place[0] + cell / 2.0, place[1] + cell / 2.0 + 4.0, &said, style);
        }
        let far = if far.is_some() { said } else { "unknown".to_owned() };
        let (from, to) = (nodes[from].id, nodes[to].id);
        piece.put(0.0, 0.0, &entry.tip(format_args!("from node {from} to node {to}: {far}")));
    }
    piece.text(12.0, piece.height - 9.0, "rows: from, columns: to", faded(11.0));
    Some(piece)
}

/// Workers with the same reason share a row; the reason names the node.
fn reasons(topology: &Topology, seats: &[Seat], width: f64) -> Piece {
    let mut rows: Vec<(&Seat, Vec<&Seat>)> = Vec::new();
    for seat in seats {
        let same = |row: &&mut (&Seat, Vec<&Seat>)| (row.0.node, &row.0.why) == (seat.node, &seat.why);
        match rows.iter_mut().find(same) {
            Some(row) => row.1.push(seat),
            None => rows.push((seat, vec![seat])),
        }
    }
    rows.sort_by_key(|(seat, _)| seat.node);
    let mut lines = Vec::new();
    for (seat, sharers) in rows.iter().take(MOST_ROWS) {
        let bind = seat.bind.as_ref().filter(|_| sharers.iter().all(|other| other.bind == seat.bind));
        let on = bind.map_or(String::new(), |cpus| format!(" on {cpus}"));
        let who = format!("{} {}{on}", plural(sharers.len()), numbers(sharers));
        lines.push((Some(seat.node), who, true));
        lines.push((None, seat.why.clone(), false));
    }
    if rows.len() > MOST_ROWS {
        lines.push((None, format!("and {} more reasons, listed by --json", rows.len() - MOST_ROWS), false));
    }
    let mut wrapped_lines = Vec::new();
    for (node, text, heading) in lines {
        for (index, line) in wrapped(&text, 12.0, width - 44.0).into_iter().enumerate() {
            wrapped_lines.push((node.filter(|_| index == 0), line, heading));
        }
    }
    let mut piece = Piece::new(width, 38.0 + 17.0 * wrapped_lines.len() as f64);
    piece.rect([0.0, 0.0, width, piece.height], Look { round: 7.0, ..frame(WHITE, EDGE) });
    piece.text(12.0, 20.0, format_args!("{} and why", draw::count(seats.len(), "worker")), bold(13.0));
    for (index, (node, line, heading)) in wrapped_lines.iter().enumerate() {
        let y = 42.0 + 17.0 * index as f64;
        if let Some(node) = node {
            piece.rect([12.0, y - 10.0, 12.0, 12.0], Look { round: 2.0, ..frame(paint::node(*node), "none") });
            let id = topology.nodes()[*node].id;
            piece = piece.tip(format_args!("node {id}"));
        }
        piece.text(30.0, y, line, if *heading { plain(12.0) } else { faded(12.0) });
    }
    piece
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "worker" } else { "workers" }
}

/// Numbers of workers as a list of ranges.
fn numbers(seats: &[&Seat]) -> String {
    let numbers: Option<CpuSet> =
        seats.iter().map(|seat| u32::try_from(seat.index).ok().and_then(CpuId::try_new)).collect();
    match numbers {
        Some(numbers) => numbers.to_string(),
        None => format!("{} and {} more", seats[0].index, seats.len() - 1),
    }
}
