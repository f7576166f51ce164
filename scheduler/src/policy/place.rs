//! Where the caller would like a task to run.

use std::fmt;

/// Where a task should run. A wish and not an order: a task whose place does not get to it is run elsewhere, see
/// [`Handle::submit_on`](crate::Handle::submit_on).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Place {
    /// Wherever it is run first.
    #[default]
    Any,
    /// On a node, given as an index into [`Topology::nodes`](crate::Topology::nodes). A node without workers stands
    /// for the nearest one that has some.
    Node(usize),
    /// On a worker, given by its index.
    Worker(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Any => f.write_str("any place"),
            Place::Node(node) => write!(f, "node {node}"),
            Place::Worker(worker) => write!(f, "worker {worker}"),
        }
    }
}
