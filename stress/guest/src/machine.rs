//! The machines: what QEMU is told to build, and what a kernel on it must see.

use std::fmt::Write;

/// One node.
#[derive(Debug)]
pub struct Node {
    /// Its CPUs.
    pub cpus: &'static [u32],
    /// Its memory in MiB; 0 for a node without.
    pub memory_mb: u32,
}

/// Nodes, caches and cores of a machine.
#[derive(Debug)]
pub struct Shape {
    /// By number.
    pub nodes: &'static [Node],
    /// A row per node.
    pub distances: &'static [&'static [u32]],
    /// CPUs that share their last cache.
    pub caches: &'static [&'static [u32]],
    /// CPUs that are one core.
    pub cores: &'static [&'static [u32]],
}

/// One boot.
#[derive(Debug)]
pub struct Machine {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub what: &'static str,
    /// `-smp`.
    pub smp: &'static str,
    /// `-cpu`.
    pub cpu: &'static str,
    /// The nodes QEMU builds; `None`: it is not told of any.
    pub built: Option<&'static Shape>,
    /// Memory in MiB when there are no nodes to sum up.
    pub memory_mb: u32,
    /// What the kernel sees.
    pub seen: &'static Shape,
    /// More words for the kernel.
    pub kernel: &'static str,
    /// Line transfers are counted.
    pub counted: bool,
}

/// Five nodes: three plain ones, one without memory, one without CPUs. QEMU's default vendor shows one cache for all.
const FIVE: Shape = Shape {
    nodes: &[
        Node { cpus: &[0, 1], memory_mb: 256 },
        Node { cpus: &[2, 3], memory_mb: 256 },
        Node { cpus: &[4, 5], memory_mb: 256 },
        Node { cpus: &[6, 7], memory_mb: 0 },
        Node { cpus: &[], memory_mb: 256 },
    ],
    distances: &[
        &[10, 16, 22, 22, 40],
        &[16, 10, 22, 22, 40],
        &[22, 22, 10, 16, 40],
        &[22, 22, 16, 10, 40],
        &[40, 40, 40, 40, 10],
    ],
    caches: &[&[0, 1], &[2, 3], &[4, 5], &[6, 7]],
    cores: &[&[0], &[1], &[2], &[3], &[4], &[5], &[6], &[7]],
};

/// Two nodes of two caches of two cores of two threads.
const THREADS: Shape = Shape {
    nodes: &[
        Node { cpus: &[0, 1, 2, 3, 4, 5, 6, 7], memory_mb: 384 },
        Node { cpus: &[8, 9, 10, 11, 12, 13, 14, 15], memory_mb: 384 },
    ],
    distances: &[&[10, 20], &[20, 10]],
    caches: &[&[0, 1, 2, 3], &[4, 5, 6, 7], &[8, 9, 10, 11], &[12, 13, 14, 15]],
    cores: &[&[0, 1], &[2, 3], &[4, 5], &[6, 7], &[8, 9], &[10, 11], &[12, 13], &[14, 15]],
};

/// Four nodes of two CPUs.
const FOUR: Shape = Shape {
    nodes: &[
        Node { cpus: &[0, 1], memory_mb: 256 },
        Node { cpus: &[2, 3], memory_mb: 256 },
        Node { cpus: &[4, 5], memory_mb: 256 },
        Node { cpus: &[6, 7], memory_mb: 256 },
    ],
    distances: &[&[10, 20, 20, 20], &[20, 10, 20, 20], &[20, 20, 10, 20], &[20, 20, 20, 10]],
    caches: &[&[0, 1], &[2, 3], &[4, 5], &[6, 7]],
    cores: &[&[0], &[1], &[2], &[3], &[4], &[5], &[6], &[7]],
};

/// What is left of [`FIVE`] when the kernel does not look at nodes.
const FLAT: Shape = Shape {
    nodes: &[Node { cpus: &[0, 1, 2, 3, 4, 5, 6, 7], memory_mb: 1024 }],
    distances: &[&[10]],
    caches: &[&[0, 1], &[2, 3], &[4, 5], &[6, 7]],
    cores: &[&[0], &[1], &[2], &[3], &[4], &[5], &[6], &[7]],
};

const PAIR: Shape = Shape {
    nodes: &[Node { cpus: &[0, 1], memory_mb: 1536 }],
    distances: &[&[10]],
    caches: &[&[0, 1]],
    cores: &[&[0], &[1]],
};

/// QEMU's own vendor has no threads and one cache for everybody.
const INTEL: &str = "max,vendor=GenuineIntel";

/// All boots.
pub const MACHINES: &[Machine] = &[
    Machine {
        name: "five",
        what: "five nodes, one without memory, one without CPUs",
        smp: "8,sockets=4,cores=2,threads=1",
        cpu: INTEL,
        built: Some(&FIVE),
        memory_mb: 0,
        seen: &FIVE,
        kernel: "",
        counted: false,
    },
    Machine {
        name: "threads",
        what: "two nodes, two caches each, two threads per core",
        smp: "16,sockets=4,cores=2,threads=2",
        cpu: INTEL,
        built: Some(&THREADS),
        memory_mb: 0,
        seen: &THREADS,
        kernel: "",
        counted: false,
    },
    Machine {
        name: "flat",
        what: "the five nodes under numa=off",
        smp: "8,sockets=4,cores=2,threads=1",
        cpu: INTEL,
        built: Some(&FIVE),
        memory_mb: 0,
        seen: &FLAT,
        kernel: "numa=off",
        counted: false,
    },
    Machine {
        name: "wide",
        what: "1,100 possible CPUs, two of them there",
        smp: "2",
        cpu: INTEL,
        built: None,
        memory_mb: 1536,
        seen: &PAIR,
        kernel: "possible_cpus=1100",
        counted: false,
    },
    Machine {
        name: "counted",
        what: "four nodes, line transfers between them counted by a plugin",
        smp: "8,sockets=4,cores=2,threads=1",
        cpu: INTEL,
        built: Some(&FOUR),
        memory_mb: 0,
        seen: &FOUR,
        kernel: "",
        counted: true,
    },
];

/// The machine of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Machine> {
    MACHINES.iter().find(|machine| machine.name == name)
}

impl Machine {
    /// All memory in MiB.
    #[must_use]
    pub fn total_mb(&self) -> u32 {
        self.built.map_or(self.memory_mb, |shape| shape.nodes.iter().map(|node| node.memory_mb).sum())
    }

    /// Arguments for QEMU that describe the machine.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let mut list: Vec<String> =
            ["-machine", "q35,hmat=off", "-cpu", self.cpu, "-smp", self.smp].map(str::to_owned).to_vec();
        list.extend(["-m".to_owned(), format!("{}M", self.total_mb())]);
        let Some(shape) = self.built else { return list };
        for (id, node) in shape.nodes.iter().enumerate() {
            let mut text = format!("node,nodeid={id}");
            if let (Some(first), Some(last)) = (node.cpus.first(), node.cpus.last()) {
                let _ = write!(text, ",cpus={first}-{last}");
            }
            if node.memory_mb > 0 {
                let backend = format!("memory-backend-ram,id=m{id},size={}M", node.memory_mb);
                list.extend(["-object".to_owned(), backend]);
                let _ = write!(text, ",memdev=m{id}");
            }
            list.extend(["-numa".to_owned(), text]);
        }
        for (from, row) in shape.distances.iter().enumerate() {
            for (to, value) in row.iter().enumerate().skip(from + 1) {
                list.extend(["-numa".to_owned(), format!("dist,src={from},dst={to},val={value}")]);
            }
        }
        list
    }

    /// Words for the kernel.
    #[must_use]
    pub fn command_line(&self) -> String {
        // No balancing: it would carry pages to their users and hide where they were put. No check of the timer: the
        // kernel gives up on it when the emulator does not get a CPU for a while.
        let quiet = "console=ttyS0 quiet loglevel=1 panic=-1";
        let common = "numa_balancing=disable no_timer_check cryptomgr.notests";
        format!("{quiet} {common} {} guest={}", self.kernel, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cpu_is_in_one_cache_and_one_core() {
        for machine in MACHINES {
            let sorted = |sets: &[&[u32]]| {
                let mut all = sets.concat();
                all.sort_unstable();
                all
            };
            let nodes: Vec<&[u32]> = machine.seen.nodes.iter().map(|node| node.cpus).collect();
            let cpus = sorted(&nodes);
            assert_eq!(cpus, (0..cpus.len() as u32).collect::<Vec<_>>(), "{}", machine.name);
            assert_eq!(sorted(machine.seen.caches), cpus, "{}", machine.name);
            assert_eq!(sorted(machine.seen.cores), cpus, "{}", machine.name);
            assert!(machine.seen.distances.iter().all(|row| row.len() == machine.seen.nodes.len()));
        }
    }

    #[test]
    fn nodes_without_memory_and_without_cpus() {
        let arguments = named("five").unwrap().arguments().join(" ");
        assert!(arguments.contains("-m 1024M"), "{arguments}");
        assert!(arguments.contains("-numa node,nodeid=3,cpus=6-7 "), "{arguments}");
        assert!(arguments.contains("-numa node,nodeid=4,memdev=m4 "), "{arguments}");
        assert!(arguments.contains("-numa dist,src=3,dst=4,val=40"), "{arguments}");
        assert!(named("six").is_none());
    }
}
