//! Statements of a spec, word by word. Every word knows where it stands, so every complaint can point.

use crate::cpuset::CpuSet;
use crate::ids::{CpuId, NodeId};
use crate::list::ListError;
use crate::parse::node_list;

/// Most nodes a made-up host may have: the kernel's `MAX_NUMNODES`. Bounds the distance table.
const MOST_NODES: usize = 1024;

const STATEMENTS: &str = "node, cache, core, offline, unassigned, allowed, isolated, mems, quota or dist";
/// Those that make no sense twice: one would silently undo the other.
const SINGLE: [&str; 7] = ["offline", "unassigned", "allowed", "isolated", "mems", "quota", "dist"];
const FIELDS: &str = "id=, llcs=, cores=, threads=, first=, cpus= or mem=";

/// A complaint about a place.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) at: usize,
    pub(super) message: String,
}

impl Fault {
    pub(super) fn new(at: usize, message: impl Into<String>) -> Fault {
        Fault { at, message: message.into() }
    }

    fn list(word: Word<'_>, error: &ListError) -> Fault {
        Fault::new(word.at + error.position(), error.reason())
    }
}

/// What the statements said, in order.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) nodes: Vec<DraftNode>,
    pub(super) caches: Vec<(usize, CpuSet)>,
    pub(super) cores: Vec<(usize, CpuSet)>,
    pub(super) offline: Option<(usize, CpuSet)>,
    pub(super) unassigned: Option<(usize, CpuSet)>,
    pub(super) allowed: Option<(usize, CpuSet)>,
    pub(super) isolated: Option<(usize, CpuSet)>,
    pub(super) mems: Option<(usize, Vec<NodeId>)>,
    pub(super) quota: Option<u64>,
    pub(super) distances: Distances,
    used: CpuSet,
    /// Statements that may stand once only, and have.
    said: Vec<&'static str>,
}

pub(super) struct DraftNode {
    pub(super) id: NodeId,
    pub(super) cpus: CpuSet,
    pub(super) caches: Vec<CpuSet>,
    pub(super) cores: Vec<CpuSet>,
    pub(super) memory_kb: u64,
}

#[derive(Default)]
pub(super) enum Distances {
    #[default]
    Default,
    Unknown,
    /// Where the statement stands, and each row with its place.
    Rows(usize, Vec<(usize, Vec<Option<u32>>)>),
}

/// A piece of the spec and its byte offset.
#[derive(Clone, Copy)]
struct Word<'a> {
    at: usize,
    text: &'a str,
}

impl<'a> Word<'a> {
    fn end(self) -> usize {
        self.at + self.text.len()
    }

    /// The pieces between ASCII separators, empty ones included.
    fn pieces(self, separator: fn(char) -> bool) -> impl Iterator<Item = Word<'a>> {
        self.text.split(separator).scan(self.at, |next, text| {
            let at = *next;
            *next += text.len() + 1;
            Some(Word { at, text })
        })
    }

    fn words(self) -> Vec<Word<'a>> {
        self.pieces(|c| c.is_ascii_whitespace()).filter(|word| !word.text.is_empty()).collect()
    }

    fn number(self, what: &str, most: u64) -> Result<u64, Fault> {
        let wrong = || Fault::new(self.at, format!("expected {what}, a number up to {most}, found {:?}", self.text));
        let digits = !self.text.is_empty() && self.text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| self.text.parse().ok()).flatten().filter(|&number| number <= most).ok_or_else(wrong)
    }

    fn some(self, what: &str, most: u64) -> Result<u64, Fault> {
        match self.number(what, most)? {
            0 => Err(Fault::new(self.at, format!("expected {what}, at least 1, found {:?}", self.text))),
            number => Ok(number),
        }
    }

    fn cpus(self) -> Result<CpuSet, Fault> {
        let cpus: CpuSet = self.text.parse().map_err(|error| Fault::list(self, &error))?;
        if cpus.is_empty() { Err(Fault::new(self.at, "expected a list of CPUs")) } else { Ok(cpus) }
    }

    fn nodes(self) -> Result<Vec<NodeId>, Fault> {
        let nodes = node_list(self.text.as_bytes()).map_err(|error| Fault::list(self, &error))?;
        if nodes.is_empty() { Err(Fault::new(self.at, "expected a list of nodes")) } else { Ok(nodes) }
    }

    /// Kilobytes.
    fn size(self) -> Result<u64, Fault> {
        let (digits, factor) = match self.text.as_bytes().last() {
            Some(b'k') => (&self.text[..self.text.len() - 1], 1),
            Some(b'm') => (&self.text[..self.text.len() - 1], 1 << 10),
            Some(b'g') => (&self.text[..self.text.len() - 1], 1 << 20),
            Some(b't') => (&self.text[..self.text.len() - 1], 1 << 30),
            _ => (self.text, 1),
        };
        let number = Word { at: self.at, text: digits }.number("a size such as 64g", u64::MAX >> 30)?;
        number.checked_mul(factor).ok_or_else(|| Fault::new(self.at, "expected a smaller size"))
    }
}

/// Reads all statements.
pub(super) fn draft(text: &str) -> Result<Draft, Fault> {
    let mut draft = Draft::default();
    for statement in (Word { at: 0, text }).pieces(|c| c == ';' || c == '\n') {
        if let Some((&keyword, rest)) = statement.words().split_first() {
            draft.statement(statement, keyword, rest)?;
        }
    }
    if draft.nodes.is_empty() {
        return Err(Fault::new(text.len(), "expected a node statement, found the end"));
    }
    Ok(draft)
}

impl Draft {
    fn statement(&mut self, statement: Word<'_>, keyword: Word<'_>, rest: &[Word<'_>]) -> Result<(), Fault> {
        let only = || match rest {
            [] => Err(Fault::new(keyword.end(), format!("expected one word after {:?}, found the end", keyword.text))),
            [word] => Ok(*word),
            [_, more, ..] => Err(Fault::new(more.at, format!("expected ';' or the end, found {:?}", more.text))),
        };
        if let Some(single) = SINGLE.iter().find(|&&single| single == keyword.text) {
            if self.said.contains(single) {
                return Err(Fault::new(keyword.at, format!("{single} is said twice")));
            }
            self.said.push(single);
        }
        match keyword.text {
            "dist" => {
                let at = keyword.end();
                self.distances = distances(Word { at, text: &statement.text[at - statement.at..] })?;
            }
            "cache" => self.caches.push((only()?.at, only()?.cpus()?)),
            "core" => self.cores.push((only()?.at, only()?.cpus()?)),
            "offline" => self.offline = Some((only()?.at, only()?.cpus()?)),
            "unassigned" => self.unassigned = Some((only()?.at, only()?.cpus()?)),
            "allowed" => self.allowed = Some((only()?.at, only()?.cpus()?)),
            "isolated" => self.isolated = Some((only()?.at, only()?.cpus()?)),
            "mems" => self.mems = Some((only()?.at, only()?.nodes()?)),
            "quota" => self.quota = Some(only()?.some("thousandths of a CPU", u64::from(u32::MAX))?),
            _ => self.node(keyword, rest)?,
        }
        Ok(())
    }

    /// `node ...` or `N*node ...`.
    fn node(&mut self, keyword: Word<'_>, fields: &[Word<'_>]) -> Result<(), Fault> {
        let count = match keyword.text.strip_suffix("node") {
            Some("") => None,
            Some(count) if count.ends_with('*') => {
                let count = Word { at: keyword.at, text: &count[..count.len() - 1] };
                Some(count.number("a count of nodes", MOST_NODES as u64)?)
            }
            _ => {
                let message = format!("expected {STATEMENTS}, found {:?}", keyword.text);
                return Err(Fault::new(keyword.at, message));
            }
        };
        let shape = Shape::read(fields)?;
        if let (Some(_), Some(at)) = (count, shape.names_ids) {
            return Err(Fault::new(at, "a repeated node cannot name ids"));
        }
        for _ in 0..count.unwrap_or(1) {
            self.add(keyword, &shape)?;
        }
        Ok(())
    }

    fn add(&mut self, keyword: Word<'_>, shape: &Shape) -> Result<(), Fault> {
        let wrong = |message: String| Fault::new(keyword.at, message);
        let next = self.nodes.last().map_or(0, |node| node.id.get() + 1);
        let id = NodeId::try_new(shape.id.unwrap_or(next)).ok_or_else(|| wrong("no node id is left".to_owned()))?;
        if self.nodes.iter().any(|node| node.id == id) {
            return Err(wrong(format!("node {id} is described twice")));
        }
        if self.nodes.len() == MOST_NODES {
            return Err(wrong(format!("expected at most {MOST_NODES} nodes")));
        }
        let (cores, cpus) = shape.cpus(self.used.last(), keyword.at)?;
        let set: CpuSet = cpus.iter().copied().collect();
        if set.intersects(&self.used) {
            return Err(wrong(format!("CPUs {} are in an earlier node", set.intersection(&self.used))));
        }
        self.used = self.used.union(&set);
        let core_sets: Vec<CpuSet> = (0..cores).map(|core| shape.threads_of(core, cores, &cpus)).collect();
        let per_cache = cores.checked_div(shape.llcs).unwrap_or(0).max(1);
        let caches = core_sets.chunks(per_cache).map(|cores| cores.iter().fold(CpuSet::new(), |a, b| a.union(b)));
        let caches = if shape.llcs == 0 { Vec::new() } else { caches.collect() };
        self.nodes.push(DraftNode { id, cpus: set, caches, cores: core_sets, memory_kb: shape.memory_kb });
        Ok(())
    }
}

/// The fields of one node statement.
struct Shape {
    id: Option<u32>,
    llcs: usize,
    cores: Option<usize>,
    threads: usize,
    first: Option<u32>,
    listed: Option<(usize, CpuSet)>,
    memory_kb: u64,
    /// Place of a field that cannot be repeated.
    names_ids: Option<usize>,
}

impl Shape {
    fn read(fields: &[Word<'_>]) -> Result<Shape, Fault> {
        let mut shape = Shape {
            id: None,
            llcs: 1,
            cores: None,
            threads: 1,
            first: None,
            listed: None,
            memory_kb: 1 << 20,
            names_ids: None,
        };
        let most = u64::from(CpuId::LIMIT);
        for (index, field) in fields.iter().enumerate() {
            let Some((name, text)) = field.text.split_once('=') else {
                return Err(Fault::new(field.at, format!("expected {FIELDS}, found {:?}", field.text)));
            };
            let same = |before: &&Word<'_>| before.text.split_once('=').is_some_and(|(other, _)| other == name);
            if fields[..index].iter().any(|before| same(&before)) {
                return Err(Fault::new(field.at, format!("{name}= is said twice")));
            }
            let value = Word { at: field.at + name.len() + 1, text };
            match name {
                "llcs" => shape.llcs = value.number("a count of caches", most)? as usize,
                "cores" => shape.cores = Some(value.number("a count of cores", most)? as usize),
                "threads" => shape.threads = value.some("a count of threads", most)? as usize,
                "mem" => shape.memory_kb = value.size()?,
                "id" => shape.id = Some(value.number("a node id", u64::from(NodeId::LIMIT - 1))? as u32),
                "first" => shape.first = Some(value.number("a CPU id", most - 1)? as u32),
                "cpus" => shape.listed = Some((value.at, value.cpus()?)),
                _ => {
                    return Err(Fault::new(field.at, format!("expected {FIELDS}, found {name:?}")));
                }
            }
            if matches!(name, "id" | "first" | "cpus") {
                shape.names_ids = Some(field.at);
            }
        }
        Ok(shape)
    }

    /// Cores of the node and its CPUs: ascending if listed, else core by core.
    fn cpus(&self, highest: Option<CpuId>, at: usize) -> Result<(usize, Vec<CpuId>), Fault> {
        let caches = self.llcs.max(1);
        if let Some((at, listed)) = &self.listed {
            let groups = caches.saturating_mul(self.threads);
            let cores = self.cores.unwrap_or(listed.len() / groups);
            let wanted = cores.saturating_mul(groups);
            if wanted != listed.len() {
                let found = listed.len();
                return Err(Fault::new(
                    *at,
                    format!("expected {wanted} CPUs (caches x cores x threads), found {found}"),
                ));
            }
            return Ok((cores * caches, listed.iter().collect()));
        }
        let cores = self.cores.unwrap_or(1).saturating_mul(caches);
        let count = cores.saturating_mul(self.threads);
        let first = self.first.unwrap_or(highest.map_or(0, |cpu| cpu.get() + 1));
        let room = (CpuId::LIMIT - first) as usize;
        if count > room {
            return Err(Fault::new(at, format!("{count} CPUs from {first} on, but ids end at {}", CpuId::LIMIT - 1)));
        }
        Ok((cores, (first..first + count as u32).map(CpuId::new).collect()))
    }

    fn threads_of(&self, core: usize, cores: usize, cpus: &[CpuId]) -> CpuSet {
        match self.listed {
            Some(_) => (0..self.threads).map(|thread| cpus[thread * cores + core]).collect(),
            None => cpus[core * self.threads..(core + 1) * self.threads].iter().copied().collect(),
        }
    }
}

fn distances(text: Word<'_>) -> Result<Distances, Fault> {
    if text.text.trim() == "none" {
        return Ok(Distances::Unknown);
    }
    let entry = |word: Word<'_>| match word.text {
        "-" => Ok(None),
        _ => word.number("a distance or '-'", u64::from(u32::MAX)).map(|number| Some(number as u32)),
    };
    let row = |row: Word<'_>| {
        let distances: Result<Vec<Option<u32>>, Fault> = row.words().into_iter().map(entry).collect();
        Ok((row.at, distances?))
    };
    let rows: Result<Vec<_>, Fault> = text.pieces(|c| c == '/').map(row).collect();
    let start = text.words().first().map_or(text.at, |word| word.at);
    Ok(Distances::Rows(start, rows?))
}
