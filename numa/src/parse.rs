//! Placements and pins from text, as command lines and environment variables give them.

use crate::cpuset::CpuSet;
use crate::ids::NodeId;
use crate::list::{self, ListError};
use crate::placement::{Pin, Placement};
use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// A placement or pin that could not be read. Shows the text, and the place in it when there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsePlacementError {
    kind: &'static str,
    text: String,
    problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Problem {
    Unknown { expected: &'static str },
    List(ListError),
}

impl ParsePlacementError {
    /// What is wrong, without the text: the place in it, or what was expected instead.
    #[must_use]
    pub fn reason(&self) -> String {
        match &self.problem {
            Problem::Unknown { expected } => format!("expected {expected}"),
            Problem::List(error) => error.to_string(),
        }
    }
}

impl fmt::Display for ParsePlacementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}: {}", self.kind, self.text, self.reason())
    }
}

impl Error for ParsePlacementError {}

impl FromStr for Placement {
    type Err = ParsePlacementError;

    fn from_str(text: &str) -> Result<Placement, ParsePlacementError> {
        let fail = |problem| ParsePlacementError { kind: "placement", text: text.to_owned(), problem };
        let list = |error: ListError, prefix: &str| fail(Problem::List(error.shifted(prefix.len())));
        if let Some(cpus) = text.strip_prefix("cpus:") {
            return cpus.parse::<CpuSet>().map(Placement::Cpus).map_err(|error| list(error, "cpus:"));
        }
        if let Some(nodes) = text.strip_prefix("nodes:") {
            return node_list(nodes.as_bytes()).map(Placement::Nodes).map_err(|error| list(error, "nodes:"));
        }
        match text {
            "spread" => Ok(Placement::Spread),
            "pack" => Ok(Placement::Pack),
            "unpinned" => Ok(Placement::Unpinned),
            _ => Err(fail(Problem::Unknown { expected: "spread, pack, unpinned, cpus:LIST or nodes:LIST" })),
        }
    }
}

impl FromStr for Pin {
    type Err = ParsePlacementError;

    fn from_str(text: &str) -> Result<Pin, ParsePlacementError> {
        match text {
            "auto" => Ok(Pin::Auto),
            "cpu" => Ok(Pin::Cpu),
            "cache" => Ok(Pin::Cache),
            "node" => Ok(Pin::Node),
            "none" => Ok(Pin::None),
            _ => Err(ParsePlacementError {
                kind: "pin",
                text: text.to_owned(),
                problem: Problem::Unknown { expected: "auto, cpu, cache, node or none" },
            }),
        }
    }
}

/// Reads a list of node ids; ascending, each once.
pub(crate) fn node_list(text: &[u8]) -> Result<Vec<NodeId>, ListError> {
    let words = list::list_words(text, NodeId::LIMIT)?;
    Ok(list::members(&words).map(NodeId::new).collect())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::noise::survives;

    #[test]
    fn a_million_placements() {
        survives(4, |text| {
            let text = String::from_utf8_lossy(text);
            assert!(text.parse::<Pin>().is_ok() == matches!(&*text, "auto" | "cpu" | "cache" | "node" | "none"));
            [format!("cpus:{text}"), format!("nodes:{text}"), text.into_owned()]
                .iter()
                .map(|text| text.parse::<Placement>().inspect_err(|error| assert!(!error.to_string().is_empty())))
                .filter(Result::is_ok)
                .count()
                > 0
        });
    }
}
