//! What a source says about a host, before any of it is believed.
//!
//! Every source (a sysfs tree, a spec string, plain counting) fills in one [`Facts`]; `assemble` turns it into a
//! [`Topology`](crate::Topology) and repairs what contradicts itself. A source that tells nonsense therefore gives
//! a dull topology with notes, never a broken one.

use crate::cpuset::CpuSet;
use crate::ids::NodeId;
use std::fmt;
use std::path::PathBuf;

/// One place topologies come from.
pub(crate) trait TopologySource {
    type Error;

    /// Everything the source knows. Does not touch the calling thread's affinity.
    fn facts(&self) -> Result<Facts, Self::Error>;
}

/// Which kind of source a topology came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// `/sys` and `/proc` below some root directory.
    Sysfs,
    /// A spec string.
    Spec,
    /// The library hwloc, with the feature `hwloc`.
    Hwloc,
    /// Nothing but a number of CPUs.
    Uniform,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Source::Sysfs => "sysfs",
            Source::Spec => "spec",
            Source::Hwloc => "hwloc",
            Source::Uniform => "uniform",
        })
    }
}

/// Something that was ignored, repaired or assumed, and about what.
///
/// ```
/// let host = numa::Topology::from_spec("2*node cores=2; unassigned 3").unwrap();
/// assert_eq!(host.notes()[0].to_string(), "CPUs 3: in no node; dealt out by shared cache");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The file, CPU, node or mask it is about.
    pub about: String,
    /// What was done and why.
    pub text: String,
}

impl Note {
    pub(crate) fn new(about: impl Into<String>, text: impl Into<String>) -> Note {
        Note { about: about.into(), text: text.into() }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.about, self.text)
    }
}

/// One file a source looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileRead {
    /// Path below the root.
    pub path: PathBuf,
    /// What came of it.
    pub outcome: ReadOutcome,
}

/// What came of looking at one file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadOutcome {
    /// Read and used.
    Used,
    /// Not there.
    Missing,
    /// There, but could not be read; the text is the system's reason.
    Unreadable(String),
    /// Read, but not understood; the text says where and why.
    Ignored(String),
}

impl fmt::Display for ReadOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadOutcome::Used => f.write_str("used"),
            ReadOutcome::Missing => f.write_str("missing"),
            ReadOutcome::Unreadable(why) => write!(f, "unreadable: {why}"),
            ReadOutcome::Ignored(why) => write!(f, "ignored: {why}"),
        }
    }
}

/// One node as its source describes it.
#[derive(Debug, Clone)]
pub(crate) struct NodeFacts {
    pub(crate) id: NodeId,
    pub(crate) cpus: CpuSet,
    /// `None`: not said. `Some(0)`: a node without memory.
    pub(crate) memory_kb: Option<u64>,
    /// To every node in ascending id order; anything of another length is unknown throughout.
    pub(crate) distances: Vec<Option<u32>>,
}

/// CPUs that share a cache.
#[derive(Debug, Clone)]
pub(crate) struct CacheFacts {
    pub(crate) cpus: CpuSet,
    pub(crate) level: u8,
}

/// Everything a source says.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) source: Source,
    pub(crate) root: Option<PathBuf>,
    pub(crate) live: bool,
    pub(crate) online: CpuSet,
    pub(crate) offline: CpuSet,
    pub(crate) nodes: Vec<NodeFacts>,
    pub(crate) caches: Vec<CacheFacts>,
    pub(crate) cores: Vec<CpuSet>,
    pub(crate) isolated: CpuSet,
    pub(crate) allowed: Option<CpuSet>,
    /// What a cpuset leaves, when known: isolated CPUs within it may be asked for although no mask has them.
    pub(crate) cpuset: Option<CpuSet>,
    pub(crate) mems_allowed: Option<Vec<NodeId>>,
    pub(crate) quota_millicpus: Option<u64>,
    pub(crate) notes: Vec<Note>,
    pub(crate) reads: Vec<FileRead>,
}

impl Facts {
    pub(crate) fn new(source: Source) -> Facts {
        Facts {
            source,
            root: None,
            live: false,
            online: CpuSet::new(),
            offline: CpuSet::new(),
            nodes: Vec::new(),
            caches: Vec::new(),
            cores: Vec::new(),
            isolated: CpuSet::new(),
            allowed: None,
            cpuset: None,
            mems_allowed: None,
            quota_millicpus: None,
            notes: Vec::new(),
            reads: Vec::new(),
        }
    }

    pub(crate) fn note(&mut self, about: impl Into<String>, text: impl Into<String>) {
        self.notes.push(Note::new(about, text));
    }
}
