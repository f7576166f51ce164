//! Cards of nodes, with caches, cores and CPUs in them.

use super::paint::{self, EDGE, FADED, FORBIDDEN, INK, ISOLATED, OFFLINE, WHITE, bold, faded, frame, plain};
use super::piece::{Look, Piece, Type, flow, stack, text_width};
use crate::draw::{self, Caches};
use numa::{CpuId, CpuSet, Llc, Node, Seat, Topology};
use std::collections::{BTreeMap, HashMap};

/// Height of a CPU.
const CELL: f64 = 30.0;
/// Space within and between boxes.
const GAP: f64 = 6.0;
/// Cards are at least this wide, for their headings.
const LEAST_CARD: f64 = 190.0;
/// What the whole of the cards should be: width by height.
const ASPECT: f64 = 2.0;

/// What a CPU is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Worker,
    Free,
    Forbidden,
    Offline,
    Isolated,
}

impl State {
    fn of(topology: &Topology, cpu: CpuId, has_worker: bool) -> State {
        match () {
            () if topology.offline().contains(cpu) => State::Offline,
            () if has_worker => State::Worker,
            () if topology.isolated().contains(cpu) => State::Isolated,
            () if !topology.allowed().contains(cpu) => State::Forbidden,
            () => State::Free,
        }
    }

    /// Fills a rectangle; returns the colour text on it has.
    pub(super) fn paint(self, piece: &mut Piece, node: usize, place: [f64; 4]) -> &'static str {
        let (fill, line, dashed, ink) = match self {
            State::Worker => (paint::node(node), paint::node(node), false, WHITE),
            State::Free => (paint::tint(node), paint::node(node), false, INK),
            State::Forbidden => (FORBIDDEN, "#aab3bd", false, FADED),
            State::Offline => (OFFLINE, "#aab3bd", true, FADED),
            State::Isolated => (WHITE, ISOLATED, true, INK),
        };
        piece.rect(place, Look { fill, line, dashed, round: 3.0 });
        ink
    }
}

/// What all cards are drawn from.
struct Host<'a> {
    topology: &'a Topology,
    /// Workers by the CPU they are planned on.
    on_cpu: HashMap<CpuId, Vec<&'a Seat>>,
    /// Width of a CPU, by the longest number.
    cell: f64,
    /// The largest memory of a node.
    most_memory: u64,
}

/// All nodes, and what is in none of them.
pub(super) fn nodes(topology: &Topology, seats: &[Seat]) -> Piece {
    let mut on_cpu: HashMap<CpuId, Vec<&Seat>> = HashMap::new();
    for seat in seats {
        if let Some(cpu) = seat.cpu {
            on_cpu.entry(cpu).or_default().push(seat);
        }
    }
    let digits = |set: &CpuSet| set.last().map_or(1, |cpu| cpu.to_string().len());
    let digits = digits(topology.online()).max(digits(topology.offline()));
    let most_memory = topology.nodes().iter().filter_map(|node| node.memory_kb).max().unwrap_or(0);
    let host = Host { topology, on_cpu, cell: 22.0 + 5.0 * digits.saturating_sub(1) as f64, most_memory };
    let unpinned: Vec<&Seat> = seats.iter().filter(|seat| seat.cpu.is_none()).collect();
    let most_cpus = topology.nodes().iter().map(|node| node.residents().len()).max().unwrap_or(1);
    // As many CPUs in a row as make a card somewhat wider than high.
    let in_a_row = (most_cpus as f64 * 2.0).sqrt().ceil().max(4.0);
    let inner = (in_a_row * (host.cell + 6.0 + GAP) + 2.0 * GAP).max(LEAST_CARD);
    let places = draw::places(topology);
    let bodies = places.iter().enumerate().map(|(node, caches)| host.body(node, caches, inner, &unpinned));
    let bodies: Vec<Piece> = bodies.collect();
    let inner = bodies.iter().fold(inner, |width, body| width.max(body.width));
    let mut cards: Vec<Piece> = bodies.iter().enumerate().map(|(node, body)| host.card(node, body, inner)).collect();
    if !topology.offline().is_empty() {
        cards.push(host.offline(inner));
    }
    arrange(&cards)
}

/// Rows of cards whose whole is about as wide as a page.
fn arrange(cards: &[Piece]) -> Piece {
    let widest = cards.iter().map(|card| card.width).fold(0.0, f64::max);
    let across = |columns: usize| columns as f64 * (widest + 2.0 * GAP);
    // Tried with empty cards: a thousand nodes drawn a thousand times would take minutes.
    let blank: Vec<Piece> = cards.iter().map(|card| Piece::new(card.width, card.height)).collect();
    let shapes = (1..=cards.len()).map(|columns| (flow(&blank, across(columns), 2.0 * GAP), columns));
    // A row left half empty is worse than a page that is a bit too wide.
    let empty = |columns: usize| (columns - cards.len() % columns) % columns;
    let badness = |(whole, columns): &(Piece, usize)| {
        (whole.width / whole.height.max(1.0) / ASPECT).ln().abs() + 0.5 * empty(*columns) as f64 / *columns as f64
    };
    let best = shapes.min_by(|a, b| badness(a).total_cmp(&badness(b)));
    best.map(|(_, columns)| flow(cards, across(columns), 2.0 * GAP)).unwrap_or_default()
}

impl Host<'_> {
    /// The card around the body of a node.
    fn card(&self, index: usize, body: &Piece, inner: f64) -> Piece {
        let node = &self.topology.nodes()[index];
        let (width, head) = (inner + 2.0 * GAP + 4.0, 44.0);
        let mut card = Piece::new(width, head + body.height + GAP + 4.0);
        card.rect([0.0, 0.0, width, card.height], Look { round: 7.0, ..frame(WHITE, EDGE) });
        let stripe = if node.residents().is_empty() { "#8794a3" } else { paint::node(index) };
        card.rect([0.0, 0.0, width, 26.0], Look { round: 7.0, ..frame(stripe, stripe) });
        card.rect([0.0, 14.0, width, 12.0], Look { round: 0.0, ..frame(stripe, stripe) });
        card.text(10.0, 18.0, format_args!("node {}", node.id), Type { colour: WHITE, ..bold(13.0) });
        let right = Type { colour: WHITE, anchor: "end", ..plain(12.0) };
        card.text(width - 10.0, 18.0, draw::memory(node.memory_kb), right);
        self.memory_bar(&mut card, node, stripe);
        card.put(GAP + 2.0, head, body);
        card
    }

    /// How much memory it has, compared with the node that has most.
    fn memory_bar(&self, card: &mut Piece, node: &Node, colour: &str) {
        let width = card.width - 20.0;
        let place = |share: f64| [10.0, 32.0, width * share, 5.0];
        card.rect(place(1.0), Look { round: 2.5, ..frame("#e9edf1", "none") });
        let share = node.memory_kb.unwrap_or(0) as f64 / self.most_memory.max(1) as f64;
        let usable = self.topology.mems_allowed().is_none_or(|mems| mems.contains(&node.id));
        let fill = if usable { colour } else { FORBIDDEN };
        if share > 0.0 {
            card.rect(place(share.max(0.02)), Look { round: 2.5, ..frame(fill, "none") });
        }
    }

    /// Remarks, then caches.
    fn body(&self, index: usize, caches: &Caches, inner: f64, unpinned: &[&Seat]) -> Piece {
        let mut parts: Vec<Piece> = self.remarks(index, unpinned).iter().map(|text| remark(text)).collect();
        let cache = |(llc, cores): (&usize, _)| self.cache(index, &self.topology.llcs()[*llc], cores, inner);
        let caches: Vec<Piece> = caches.iter().map(cache).collect();
        parts.push(flow(&caches, inner, GAP));
        stack(&parts, 4.0)
    }

    fn remarks(&self, index: usize, unpinned: &[&Seat]) -> Vec<String> {
        let node = &self.topology.nodes()[index];
        let mut remarks = Vec::new();
        if node.residents().is_empty() {
            remarks.push("memory only: nobody's home".to_owned());
        }
        if !node.dealt.is_empty() {
            remarks.push(format!("in no node, dealt here: {}", node.dealt));
        }
        let nearest = self.topology.nearest_memory(index);
        if nearest != index && !node.residents().is_empty() {
            remarks.push(format!("memory from node {}", self.topology.nodes()[nearest].id));
        }
        if self.topology.mems_allowed().is_some_and(|mems| !mems.contains(&node.id)) {
            remarks.push("its memory is not allowed".to_owned());
        }
        let at_home = unpinned.iter().filter(|seat| seat.node == index).count();
        if at_home > 0 {
            remarks.push(format!("{} at home here, not bound", draw::count(at_home, "worker")));
        }
        remarks
    }

    fn cache(&self, node: usize, llc: &Llc, cores: &BTreeMap<usize, CpuSet>, inner: f64) -> Piece {
        let (most, here) = (inner - 2.0 * GAP, draw::cpus_of(cores));
        let cores: Vec<Piece> = cores.values().map(|cpus| self.core(node, cpus)).collect();
        let cores = flow(&cores, most, GAP);
        let elsewhere = llc.cpus.difference(&here);
        let level = llc.level.map_or("no cache described".to_owned(), |level| format!("L{level}"));
        let mut label = format!("{level}  {here}");
        if text_width(&label, 10.5) > most {
            label = format!("{level}, {}", draw::count(here.len(), "CPU"));
        }
        let shared = self.shared_with(&elsewhere);
        let label_width = text_width(&label, 10.5).max(text_width(&shared, 10.5));
        let top = if shared.is_empty() { 18.0 } else { 31.0 };
        let width = cores.width.max(label_width.min(most)) + 2.0 * GAP;
        // No second one fits beside it.
        let width = if width > inner / 2.0 { width.max(inner) } else { width };
        let mut cache = Piece::new(width, top + cores.height + GAP);
        let look = Look { dashed: llc.level.is_none() || !shared.is_empty(), ..frame("#f8fafb", "#b3bdc8") };
        cache.rect([0.0, 0.0, width, cache.height], look);
        cache.text(GAP, 13.0, label, faded(10.5)).text(GAP, 26.0, shared, faded(10.5));
        cache.put(GAP, top, &cores);
        cache
    }

    /// Which nodes have the rest of a cache.
    fn shared_with(&self, elsewhere: &CpuSet) -> String {
        let nodes = self.topology.nodes().iter().filter(|node| node.residents().intersects(elsewhere));
        let ids: Vec<String> = nodes.map(|node| node.id.to_string()).collect();
        if ids.is_empty() { String::new() } else { format!("shared with node {}", ids.join(", ")) }
    }

    /// SMT siblings side by side in one frame.
    fn core(&self, node: usize, cpus: &CpuSet) -> Piece {
        let threads: Vec<Piece> = cpus.iter().map(|cpu| self.cpu(node, cpu)).collect();
        let threads = flow(&threads, f64::INFINITY, 2.0);
        let mut core = Piece::new(threads.width + 6.0, threads.height + 6.0);
        core.rect([0.0, 0.0, core.width, core.height], frame(WHITE, "#d9dfe5")).put(3.0, 3.0, &threads);
        core
    }

    fn cpu(&self, node: usize, cpu: CpuId) -> Piece {
        let seats = self.on_cpu.get(&cpu).map_or(&[][..], Vec::as_slice);
        let state = State::of(self.topology, cpu, !seats.is_empty());
        let mut cell = Piece::new(self.cell, CELL);
        let ink = state.paint(&mut cell, node, [0.0, 0.0, self.cell, CELL]);
        let middle = |size, bold| Type { size, colour: ink, bold, anchor: "middle" };
        let Some(first) = seats.first() else {
            cell.text(self.cell / 2.0, 19.0, cpu, middle(11.0, false));
            let what = match state {
                State::Offline => "switched off",
                State::Forbidden => "outside the mask of this process",
                State::Isolated => "isolated: used only when listed",
                State::Worker | State::Free => "free",
            };
            return cell.tip(format_args!("CPU {cpu}: {what}"));
        };
        let more = if seats.len() > 1 { format!("+{}", seats.len() - 1) } else { String::new() };
        cell.text(self.cell / 2.0, 13.0, cpu, middle(11.0, false));
        cell.text(self.cell / 2.0, 25.0, format_args!("w{}{more}", first.index), middle(9.0, true));
        let reasons: Vec<String> = seats.iter().map(|seat| format!("worker {}: {}", seat.index, seat.why)).collect();
        cell.tip(format_args!("CPU {cpu}, {}", reasons.join("; ")))
    }

    /// CPUs that are switched off; nobody says where they belong.
    fn offline(&self, inner: f64) -> Piece {
        let cells: Vec<Piece> = self.topology.offline().iter().map(|cpu| self.cpu(0, cpu)).collect();
        let cells = flow(&cells, inner, GAP);
        let width = cells.width.max(LEAST_CARD) + 2.0 * GAP + 4.0;
        let mut card = Piece::new(width, 34.0 + cells.height + GAP);
        card.rect([0.0, 0.0, width, card.height], Look { dashed: true, round: 7.0, ..frame(WHITE, EDGE) });
        card.text(10.0, 20.0, "switched off", bold(13.0)).put(GAP + 2.0, 30.0, &cells);
        card
    }
}

fn remark(text: &str) -> Piece {
    let mut line = Piece::new(text_width(text, 11.0), 15.0);
    line.text(2.0, 11.0, text, Type { colour: FADED, ..plain(11.0) });
    line
}
