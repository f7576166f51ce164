//! Made-up hosts, for tests and simulation.
//!
//! A spec is a few statements separated by `;` or line ends. CPUs get ids in order of appearance, SMT siblings next
//! to each other, unless a node says otherwise.
//!
//! ```text
//! spec      = statement { ( ";" | newline ) statement }      empty statements are skipped
//! statement = [ count "*" ] "node" { field }                 one node, or `count` equal ones
//!           | "cache" list                                   these CPUs share one cache (it may span nodes)
//!           | "core" list                                    these CPUs are the threads of one core
//!           | "offline" list                                 these CPUs are switched off
//!           | "unassigned" list                              these CPUs are in no node
//!           | "allowed" list                                 the affinity mask; default: every online CPU
//!           | "isolated" list                                CPUs the kernel does not balance
//!           | "mems" list                                    nodes to allocate on; default: not said
//!           | "quota" number                                 CPU time in thousandths of a CPU; default: no limit
//!           | "dist" ( row { "/" row } | "none" )            distances; default: 10 to itself, 20 to others
//! field     = "id=" number                                   OS id of the node; default: one more than the last
//!           | "llcs=" number                                 last-level caches (1); 0: no cache is described
//!           | "cores=" number                                cores per cache (1); 0: a node without CPUs
//!           | "threads=" number                              hardware threads per core (1)
//!           | "first=" number                                id of its first CPU; default: after the highest so far
//!           | "cpus=" list                                   its CPUs; first threads of all cores, then second threads
//!           | "mem=" number [ "k" | "m" | "g" | "t" ]        memory (1g), kilobytes without a unit; 0: none
//! row       = { number | "-" }                               one per node, ascending ids; "-": unknown
//! list      = as the kernel writes it: "0-3,8"
//! ```
//!
//! A field may stand once in its node. `node`, `cache` and `core` may be said any number of times (of `cache` and
//! `core` the later one wins where they overlap), everything else once. A mistake is a [`SpecError`] that points at its
//! place.
//!
//! Two sockets with SMT, numbered as Linux usually numbers them, a memory expander behind the second, CPU 3 off:
//!
//! ```
//! let host = numa::Topology::from_spec(
//!     "node cpus=0-3,8-11 threads=2
//!      node cpus=4-7,12-15 threads=2
//!      node id=8 cores=0 mem=256g
//!      offline 3
//!      dist 10 21 31 / 21 10 17 / 31 17 10",
//! )?;
//! assert_eq!(host.cores()[0].cpus.to_string(), "0,8");
//! assert_eq!(host.online().to_string(), "0-2,4-15");
//! assert_eq!(host.distance(1, 2), Some(17));
//! assert!(host.nodes()[2].cpus.is_empty());
//! # Ok::<(), numa::SpecError>(())
//! ```

mod parse;

use crate::cpuset::CpuSet;
use crate::facts::{CacheFacts, Facts, NodeFacts, Source, TopologySource};
use crate::ids::NodeId;
use parse::{Distances, Draft, Fault};
use std::error::Error;
use std::fmt;

/// A place in a spec that does not follow the grammar, and what was expected there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    at: usize,
    message: String,
}

impl SpecError {
    /// Byte offset of the place.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// What was expected and what was found, without the position.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spec, position {}: {}", self.at, self.message)
    }
}

impl Error for SpecError {}

/// The source: the text of a spec.
pub(crate) struct Spec<'a> {
    text: &'a str,
}

impl<'a> Spec<'a> {
    pub(crate) fn new(text: &'a str) -> Spec<'a> {
        Spec { text }
    }
}

impl TopologySource for Spec<'_> {
    type Error = SpecError;

    fn facts(&self) -> Result<Facts, SpecError> {
        parse::draft(self.text).and_then(build).map_err(|Fault { at, message }| SpecError { at, message })
    }
}

/// From statements to facts. Statements about CPUs apply after all nodes, wherever they stand.
fn build(draft: Draft) -> Result<Facts, Fault> {
    let mut facts = Facts::new(Source::Spec);
    let all = draft.nodes.iter().fold(CpuSet::new(), |all, node| all.union(&node.cpus));
    let known = |list: &Option<(usize, CpuSet)>| match list {
        Some((at, cpus)) if !cpus.is_subset(&all) => {
            Err(Fault::new(*at, format!("CPUs {} are in no node above", cpus.difference(&all))))
        }
        Some((_, cpus)) => Ok(cpus.clone()),
        None => Ok(CpuSet::new()),
    };
    facts.offline = known(&draft.offline)?;
    facts.online = all.difference(&facts.offline);
    if facts.online.is_empty() {
        let at = draft.offline.as_ref().map_or(0, |(at, _)| *at);
        return Err(Fault::new(at, "expected at least one online CPU"));
    }
    facts.isolated = known(&draft.isolated)?;
    if let Some((at, _)) = draft.allowed {
        let allowed = known(&draft.allowed)?;
        if !allowed.intersects(&facts.online) {
            return Err(Fault::new(at, "expected at least one online CPU in the mask"));
        }
        facts.allowed = Some(allowed);
    }
    // What is said of single CPUs wins over what their node implies, later statements over earlier ones.
    for (at, cpus) in draft.caches.into_iter().rev() {
        let cpus = known(&Some((at, cpus)))?;
        facts.caches.push(CacheFacts { cpus, level: 3 });
    }
    for (at, cpus) in draft.cores.into_iter().rev() {
        facts.cores.push(known(&Some((at, cpus)))?);
    }
    let unassigned = known(&draft.unassigned)?;
    let mut nodes = draft.nodes;
    nodes.sort_by_key(|node| node.id);
    let ids: Vec<NodeId> = nodes.iter().map(|node| node.id).collect();
    let mut rows = distances(draft.distances, ids.len())?;
    for (index, node) in nodes.into_iter().enumerate() {
        facts.caches.extend(node.caches.into_iter().map(|cpus| CacheFacts { cpus, level: 3 }));
        facts.cores.extend(node.cores);
        facts.nodes.push(NodeFacts {
            id: node.id,
            cpus: node.cpus.difference(&unassigned),
            memory_kb: Some(node.memory_kb),
            distances: std::mem::take(&mut rows[index]),
        });
    }
    if let Some((at, mems)) = draft.mems {
        if let Some(missing) = mems.iter().find(|id| !ids.contains(id)) {
            return Err(Fault::new(at, format!("node {missing} is not described")));
        }
        facts.mems_allowed = Some(mems);
    }
    facts.quota_millicpus = draft.quota;
    Ok(facts)
}

fn distances(given: Distances, nodes: usize) -> Result<Vec<Vec<Option<u32>>>, Fault> {
    match given {
        Distances::Default => {
            let row = |from| (0..nodes).map(|to| Some(if from == to { 10 } else { 20 })).collect();
            Ok((0..nodes).map(row).collect())
        }
        Distances::Unknown => Ok(vec![Vec::new(); nodes]),
        Distances::Rows(at, rows) => {
            if rows.len() != nodes {
                return Err(Fault::new(at, format!("expected {nodes} rows, one per node, found {}", rows.len())));
            }
            let right = |(at, row): (usize, Vec<Option<u32>>)| {
                let found = row.len();
                let wrong = || Fault::new(at, format!("expected {nodes} distances in this row, found {found}"));
                (found == nodes).then_some(row).ok_or_else(wrong)
            };
            rows.into_iter().map(right).collect()
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::noise::survives;
    use crate::topology::Topology;

    /// With a head that makes sense, so that the tail is looked at.
    #[test]
    fn a_million_specs() {
        survives(5, |tail| {
            let spec = format!("3*node cores=2; {}", String::from_utf8_lossy(tail));
            match Topology::from_spec(&spec) {
                Ok(host) => !host.allowed().is_empty(),
                Err(error) => {
                    assert!(error.position() <= spec.len() && !error.message().is_empty());
                    assert!(spec.is_char_boundary(error.position()));
                    false
                }
            }
        });
    }
}
