//! The last resort: a number of CPUs and nothing else.

use crate::bind;
use crate::cpuset::CpuSet;
use crate::facts::{CacheFacts, Facts, NodeFacts, Source, TopologySource};
use crate::ids::NodeId;
use std::convert::Infallible;
use std::fmt::Display;

/// One node, one cache, single-threaded cores.
pub(crate) struct Uniform {
    cpus: CpuSet,
    live: bool,
    because: Option<String>,
}

impl Uniform {
    pub(crate) fn new(cpus: usize) -> Uniform {
        Uniform { cpus: CpuSet::first_n(cpus.max(1)), live: false, because: None }
    }

    /// Over the CPUs the calling thread may use, because reading the host failed.
    pub(crate) fn of_this_process(because: &dyn Display) -> Uniform {
        let cpus = bind::current_affinity()
            .unwrap_or_else(|_| CpuSet::first_n(std::thread::available_parallelism().map_or(1, usize::from)));
        Uniform { cpus, live: true, because: Some(format!("{because}; one uniform node is assumed")) }
    }

    /// [`TopologySource::facts`], which cannot fail here.
    pub(crate) fn into_facts(self) -> Facts {
        match self.facts() {
            Ok(facts) => facts,
            Err(never) => match never {},
        }
    }
}

impl TopologySource for Uniform {
    type Error = Infallible;

    fn facts(&self) -> Result<Facts, Infallible> {
        let mut facts = Facts::new(Source::Uniform);
        facts.online = self.cpus.clone();
        facts.live = self.live;
        facts.nodes.push(NodeFacts {
            id: NodeId::new(0),
            cpus: self.cpus.clone(),
            memory_kb: None,
            distances: vec![Some(10)],
        });
        // Level 3 by assumption: with nothing known, all CPUs are equally near.
        facts.caches.push(CacheFacts { cpus: self.cpus.clone(), level: 3 });
        if let Some(because) = &self.because {
            facts.note("source", because.as_str());
        }
        Ok(facts)
    }
}
