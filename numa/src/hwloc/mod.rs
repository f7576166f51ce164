//! A second opinion from libhwloc, through the `hwloc2` crate.
//!
//! Only a part of that crate is sound, so only that part is used: loading, `objects_with_type` for CPUs, cores and
//! caches, `os_index`, `parent`, and bitmaps while the topology lives. Its other parts free the library's memory
//! (`name`), write past their own (`Display`), panic (nodes by type) or hold values that their enum does not have
//! (`object_type`, `type_at_depth` on hosts with dies). Nodes, distances and masks come from the library's XML.
//!
//! Loading moves the calling thread over every CPU, so it is done on a thread that ends with it. What the library is
//! to read instead of this host is told by its own variables (`HWLOC_XMLFILE`, `HWLOC_SYNTHETIC`, `HWLOC_FSROOT`,
//! `HWLOC_CPUID_PATH`); it silently falls back to this host when it cannot, which is an error here.

mod library;
mod xml;

use crate::bind;
use crate::cpuset::CpuSet;
use crate::facts::{CacheFacts, Facts, NodeFacts, Source, TopologySource};
use crate::ids::{CpuId, NodeId};
use hwloc2::{ObjectType, TopologyFlag, TopologyObject};
use std::collections::BTreeMap;
use std::error::Error;
use std::{fmt, thread};
use xml::Extract;

/// Variables that tell the library to describe something else than this host.
const ELSEWHERE: [&str; 4] = ["HWLOC_XMLFILE", "HWLOC_SYNTHETIC", "HWLOC_FSROOT", "HWLOC_CPUID_PATH"];

/// Why libhwloc tells nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HwlocError {
    /// Not a library with the interface of version 2, whose structures the binding knows.
    Version {
        /// The first number of its interface's version.
        major: u32,
        /// The second.
        minor: u32,
    },
    /// A variable asks for another host, and the library described this one all the same: it could not read what
    /// the variable names, or `HWLOC_THISSYSTEM` hides whether it did.
    NotHonoured {
        /// The variable.
        variable: &'static str,
        /// What it says.
        value: String,
    },
    /// The library refuses to load a topology.
    Load,
    /// The topology has no CPU with an id this crate accepts.
    NoCpu,
}

impl fmt::Display for HwlocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HwlocError::Version { major, minor } => write!(f, "libhwloc has interface {major}.{minor}, expected 2.x"),
            HwlocError::NotHonoured { variable, value } => {
                write!(f, "libhwloc could not read {variable}={value:?} and described this host instead")
            }
            HwlocError::Load => f.write_str("libhwloc could not load a topology"),
            HwlocError::NoCpu => f.write_str("the topology of libhwloc has no CPU"),
        }
    }
}

impl Error for HwlocError {}

/// The source: whatever the library finds, or is told to read by its variables.
pub(crate) struct Hwloc;

impl TopologySource for Hwloc {
    type Error = HwlocError;

    fn facts(&self) -> Result<Facts, HwlocError> {
        let (major, minor) = library::version();
        if major != 2 {
            return Err(HwlocError::Version { major, minor });
        }
        // A panic in there is the binding's, about a topology it cannot cope with.
        let (mut facts, live) = thread::spawn(read).join().unwrap_or(Err(HwlocError::Load))?;
        let elsewhere = ELSEWHERE.iter().find_map(|&variable| Some((variable, std::env::var_os(variable)?)));
        let told = match elsewhere {
            Some((variable, value)) if live => {
                return Err(HwlocError::NotHonoured { variable, value: value.to_string_lossy().into_owned() });
            }
            Some((variable, value)) => format!(", told by {variable}={}", value.to_string_lossy()),
            None => String::new(),
        };
        facts.note(
            "source",
            format!("libhwloc, interface {major}.{minor}{told}; quota and isolated CPUs are unknown to it"),
        );
        facts.live = live;
        if live && let Ok(mask) = bind::current_affinity() {
            // The library knows cpusets and not the mask of a thread.
            let allowed = facts.allowed.as_ref().unwrap_or(&facts.online);
            facts.allowed = Some(allowed.intersection(&mask));
        }
        Ok(facts)
    }
}

/// Loads twice: once for what the crate can tell, once for the XML.
fn read() -> Result<(Facts, bool), HwlocError> {
    let topology = hwloc2::Topology::with_flags(vec![TopologyFlag::IncludeDisallowed]).ok_or(HwlocError::Load)?;
    let (text, live) = library::xml().ok_or(HwlocError::Load)?;
    let extract = xml::extract(&text);
    let mut facts = Facts::new(Source::Hwloc);
    let units = objects(&topology, &ObjectType::PU);
    facts.online = units.iter().filter_map(|unit| CpuId::try_new(unit.os_index())).collect();
    if facts.online.is_empty() {
        return Err(HwlocError::NoCpu);
    }
    facts.offline = extract.complete.difference(&facts.online);
    facts.allowed = Some(extract.allowed.clone()).filter(|allowed| !allowed.is_empty());
    facts.cores = groups(&units, &objects(&topology, &ObjectType::Core));
    for (kind, level) in [(ObjectType::L3Cache, 3), (ObjectType::L2Cache, 2)] {
        let sets = groups(&units, &objects(&topology, &kind));
        facts.caches.extend(sets.into_iter().map(|cpus| CacheFacts { cpus, level }));
    }
    nodes(&units, &extract, &mut facts);
    facts.mems_allowed = Some(extract.allowed_nodes).filter(|nodes| !nodes.is_empty());
    Ok((facts, live))
}

/// None where the topology has no such level.
fn objects<'a>(topology: &'a hwloc2::Topology, kind: &ObjectType) -> Vec<&'a TopologyObject> {
    topology.objects_with_type(kind).unwrap_or_default()
}

/// The CPUs below each of `parents`. Told apart by address: types cannot be asked for.
fn groups(units: &[&TopologyObject], parents: &[&TopologyObject]) -> Vec<CpuSet> {
    let mut places: Vec<(*const TopologyObject, usize)> =
        parents.iter().enumerate().map(|(index, &parent)| (std::ptr::from_ref(parent), index)).collect();
    places.sort_unstable();
    let mut sets = vec![CpuSet::new(); parents.len()];
    for unit in units {
        let mut above = unit.parent();
        while let Some(object) = above {
            if let Ok(found) = places.binary_search_by_key(&std::ptr::from_ref(object), |place| place.0) {
                sets[places[found].1].extend(CpuId::try_new(unit.os_index()));
                break;
            }
            above = object.parent();
        }
    }
    sets
}

/// A node's CPUs are those that name it in their node sets. A CPU may name several (memory of another kind close to
/// it); the one with the lowest id is then its home, and the others are memory only.
fn nodes(units: &[&TopologyObject], extract: &Extract, facts: &mut Facts) {
    let mut cpus: BTreeMap<NodeId, CpuSet> = extract.nodes.keys().map(|&id| (id, CpuSet::new())).collect();
    let mut several = CpuSet::new();
    let highest = extract.nodes.keys().last().copied().unwrap_or(NodeId::new(0));
    for unit in units {
        // A set may be infinite, so it ends at the highest node.
        let named = unit.nodeset().into_iter().flatten().map_while(NodeId::try_new).take_while(|id| *id <= highest);
        let mut known = named.filter(|id| extract.nodes.contains_key(id));
        let (Some(home), Some(cpu)) = (known.next(), CpuId::try_new(unit.os_index())) else { continue };
        cpus.entry(home).or_default().insert(cpu);
        if known.next().is_some() {
            several.insert(cpu);
        }
    }
    if !several.is_empty() {
        facts.note(format!("CPUs {several}"), "near several nodes; the lowest is taken as home");
    }
    let columns = &extract.columns;
    for (id, cpus) in cpus {
        let row = columns.iter().position(|column| *column == id);
        let distance = |to: &NodeId| {
            let column = columns.iter().position(|column| column == to)?;
            extract.distances.get(row? * columns.len() + column).copied()
        };
        let distances = extract.nodes.keys().map(distance).collect();
        let memory_kb = extract.nodes.get(&id).map(|node| node.1);
        facts.nodes.push(NodeFacts { id, cpus, memory_kb, distances });
    }
}
