//! The hosts that are played, and what a cache line costs between their cores.

/// Nanoseconds for a line to get from core to core.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// Where it was measured.
    pub name: &'static str,
    /// Same cache, same node, other node.
    pub rings: [u64; 3],
    /// By cache of the one and the other, where more is known than rings.
    pub caches: Option<&'static [[u64; 4]; 4]>,
}

// Medians over the groups of cores of whole matrices, from `results/*.csv` of github.com/nviennot/core-to-core-latency
// (MIT): files "AMD EPYC 7R13 48-Core Processor", "Dual Intel(R) Xeon(R) CPU X5650 @ 2.67GHz" and "AMD Ryzen
// Threadripper 1950X".
const EPYC: Latency = Latency { name: "two EPYC 7R13", rings: [23, 107, 195], caches: None };
const XEON: Latency = Latency { name: "two Xeon X5650", rings: [37, 37, 74], caches: None };
const THREADRIPPER: Latency = Latency {
    name: "Threadripper 1950X",
    rings: [25, 124, 154],
    caches: Some(&[[26, 158, 155, 155], [158, 25, 155, 155], [155, 155, 25, 90], [155, 155, 90, 24]]),
};

/// A host to play. It has as many workers as CPUs.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// Its name in tables and reports.
    pub name: &'static str,
    /// In the grammar of `numa`.
    pub spec: &'static str,
    /// Nodes with workers.
    pub nodes: usize,
    /// What distances cost there.
    pub latency: Latency,
}

/// All of them. On the last one nothing is remote.
pub const HOSTS: [Host; 9] = [
    Host { name: "4 nodes, 2 caches each", spec: "4*node llcs=2 cores=4", nodes: 4, latency: EPYC },
    Host { name: "2 sockets, 6 caches each", spec: "2*node llcs=6 cores=8; dist 10 32/32 10", nodes: 2, latency: EPYC },
    Host { name: "2 sockets with SMT", spec: "2*node cores=6 threads=2; dist 10 20/20 10", nodes: 2, latency: XEON },
    Host {
        name: "2 dies, 2 caches each",
        spec: "2*node llcs=2 cores=4; dist 10 16/16 10",
        nodes: 2,
        latency: THREADRIPPER,
    },
    Host {
        name: "8 nodes, sparse ids",
        spec: "node id=0 cores=6; node id=1 cores=6; node id=2 cores=6; node id=33 cores=6; node id=34 cores=6; \
               node id=45 cores=6; node id=72 cores=6; node id=73 cores=6; \
               dist 10 16 16 22 16 22 16 22/16 10 22 16 22 16 22 16/16 22 10 16 16 22 16 22/22 16 16 10 22 16 22 16/\
               16 22 16 22 10 16 16 22/22 16 22 16 16 10 22 16/16 22 16 22 16 22 10 16/22 16 22 16 22 16 16 10",
        nodes: 8,
        latency: EPYC,
    },
    Host {
        name: "unequal nodes",
        spec: "node cores=12; node cores=4; node cores=2; dist 10 17 28/20 10 17/31 17 10",
        nodes: 3,
        latency: EPYC,
    },
    Host {
        name: "memory-only nodes",
        spec: "node llcs=2 cores=4; node llcs=2 cores=4; 2*node cores=0 mem=64g; \
               dist 10 21 17 28/21 10 28 17/17 28 10 28/28 17 28 10",
        nodes: 2,
        latency: EPYC,
    },
    Host { name: "one cache over 2 nodes", spec: "node cpus=0-7; node cpus=8-15; cache 0-15", nodes: 2, latency: XEON },
    Host { name: "one node", spec: "node llcs=2 cores=8", nodes: 1, latency: EPYC },
];
