//! Trees of real hosts, from the folder in `NUMA_FIXTURES`, and what is known of them.
#![cfg(not(loom))]

mod common;

use common::fixtures::{archives, name, unpacked};
use common::hosts::holds_together;
use numa::{Pin, Placement, Topology, plan};
use std::path::Path;

/// What is known of one tree: name, nodes, nodes with CPUs, cache groups, cores, online CPUs, allowed CPUs.
type Known = (&'static str, usize, usize, usize, usize, usize, usize);

/// Counted a second time by a script of a few lines that shares nothing with this reader, and by the names of the
/// trees (packages, nodes, cores, threads).
const KNOWN: &[Known] = &[
    // Seventeen nodes, the last without CPUs; no caches described, so nodes stand in.
    ("128ia64-17n4s2c", 17, 16, 16, 128, 128, 128),
    ("16amd64-8n2c", 8, 8, 16, 16, 16, 16),
    // CPU 4 is offline, the cpuset has six fewer.
    ("16amd64-8n2c-cpusets", 8, 8, 15, 15, 15, 10),
    ("16em64t-4s2c2t", 1, 1, 4, 8, 16, 16),
    ("16em64t-4s2c2t-offlines", 1, 1, 4, 7, 12, 12),
    // Six cores of two threads and eight of one share an L3.
    ("20em64t-hybrid-1p6c2t+2ca4co1t", 1, 1, 1, 14, 20, 20),
    // No node directory, no caches.
    ("20s390-2g6s4c", 1, 1, 1, 20, 20, 20),
    ("256ppc-8n8s4t", 8, 8, 64, 64, 256, 256),
    ("2arm-2c", 1, 1, 1, 2, 2, 2),
    ("32amd64-4s2n4c-cgroup2", 8, 8, 8, 32, 32, 6),
    ("40intel64-2g2n4c+pci", 4, 4, 4, 40, 40, 40),
    // Ids 0,1,2,33,34,45,72,73.
    ("48amd64-4d2n6c-sparse", 8, 8, 8, 48, 48, 48),
    ("64amd64-4s2n4ca2co", 8, 8, 8, 32, 64, 64),
    ("8amd64-4n2c", 4, 4, 8, 8, 8, 8),
    // Firmware that puts every CPU into every node: the first keeps them.
    ("8em64t-2s2ca2c-buggynuma", 8, 1, 4, 8, 8, 8),
    ("96em64t-4n4d3ca2co", 4, 4, 16, 96, 96, 96),
    ("fakecpuid1f-64intel64-2p4d2n2c2t", 16, 16, 8, 32, 64, 64),
    ("fakeheteromemtiers", 7, 3, 1, 6, 6, 6),
    // One L3 over two nodes.
    ("memorysidecaches", 4, 4, 2, 40, 80, 80),
    // Six nodes are the memory of GPUs.
    ("nvidiagpunumanodes", 8, 2, 4, 8, 32, 16),
    // Node 0 and CPUs 0-3 are offline, nine CPUs in no node.
    ("offline-cpu0-node0", 1, 1, 2, 17, 17, 17),
    ("16ia64-8n2s", 8, 8, 16, 16, 16, 16),
    ("2amd64-2n", 2, 2, 2, 2, 2, 2),
    ("2i386-2c-nohugepage", 1, 1, 1, 2, 2, 2),
    ("2pa-pcidomain32bits", 1, 1, 2, 2, 2, 2),
    ("2s390-2c", 1, 1, 1, 2, 2, 2),
    ("32em64t-2n8c+1mic", 2, 2, 2, 16, 16, 16),
    ("32intel64-2p8co2t+8ve", 2, 2, 2, 16, 32, 32),
    ("4ia64-4s", 1, 1, 4, 4, 4, 4),
    ("64intel64-fakeKNL-A2A-cache", 1, 1, 8, 16, 64, 64),
    ("8em64t-2s2ca2c", 1, 1, 4, 8, 8, 8),
    ("8em64t-2s4c-heterogeneous", 1, 1, 4, 8, 8, 8),
    ("8em64t-4c2t", 1, 1, 1, 4, 8, 8),
    // Third-level maps of zeros: the second level counts.
    ("8ia64-2s2c2t", 1, 1, 4, 4, 8, 8),
    ("8ia64-4s2c", 1, 1, 8, 8, 8, 8),
    ("fakeheterocpunuma", 6, 5, 5, 12, 24, 24),
];

/// Unpacks and reads the tree inside.
fn read<T>(archive: &Path, body: impl FnOnce(&Topology) -> T) -> T {
    unpacked(archive, |root| {
        body(&Topology::from_root(root).unwrap_or_else(|error| panic!("{}: {error}", archive.display())))
    })
}

fn nobody_is_misplaced(host: &Topology) {
    let placements = [Placement::Spread, Placement::Pack, Placement::Cpus(host.allowed().clone())];
    for placement in placements {
        for pin in [Pin::Auto, Pin::Cpu, Pin::Node] {
            for seat in plan(host, &placement, pin, host.allowed().len() + 3).unwrap() {
                let (cpu, bind) = (seat.cpu.unwrap(), seat.bind.unwrap());
                assert!(host.allowed().contains(cpu) && bind.is_subset(host.allowed()));
                assert!(bind.contains(cpu) && bind.is_subset(&host.nodes()[seat.node].residents()));
                assert!(!host.offline().contains(cpu));
            }
        }
    }
}

#[test]
fn every_tree_is_read_and_nobody_is_misplaced() {
    let Some(archives) = archives() else { return };
    for archive in &archives {
        println!("{}", name(archive));
        read(archive, |host| {
            holds_together(host);
            nobody_is_misplaced(host);
            let Some(known) = KNOWN.iter().find(|known| known.0 == name(archive)) else { return };
            let with_cpus = host.nodes().iter().filter(|node| !node.residents().is_empty()).count();
            let counts = (host.nodes().len(), with_cpus, host.llcs().len());
            let sizes = (host.cores().len(), host.cpus().len(), host.allowed().len());
            assert_eq!((counts, sizes), ((known.1, known.2, known.3), (known.4, known.5, known.6)), "{}", known.0);
        });
    }
}

#[test]
fn details_of_trees_that_are_special() {
    let Some(archives) = archives() else { return };
    let with = |wanted: &str, body: fn(&Topology)| {
        if let Some(archive) = archives.iter().find(|archive| name(archive) == wanted) {
            read(archive, body);
        }
    };
    with("48amd64-4d2n6c-sparse", |host| {
        let ids: Vec<u32> = host.nodes().iter().map(|node| node.id.get()).collect();
        assert_eq!(ids, [0, 1, 2, 33, 34, 45, 72, 73]);
        let row: Vec<_> = (0..8).map(|to| host.distance(0, to).unwrap()).collect();
        assert_eq!(row, [10, 16, 16, 22, 16, 22, 16, 22]);
    });
    with("offline-cpu0-node0", |host| {
        assert_eq!((host.online().to_string().as_str(), host.nodes()[0].id.get()), ("4-20", 1));
        assert_eq!(host.unassigned().to_string(), "4,6,8,10,12,14,16,18,20");
        // The row is "21 10": the first column is the offline node.
        assert_eq!(host.distance(0, 0), Some(10));
    });
    with("nvidiagpunumanodes", |host| {
        assert_eq!(host.allowed().to_string(), "0-15");
        assert_eq!((host.nodes()[2].id.get(), host.distance(0, 2)), (250, Some(80)));
        assert_eq!(host.cores()[0].cpus.len(), 4);
    });
    with("8em64t-2s2ca2c-buggynuma", |host| assert_eq!(host.distance(0, 1), None));
    with("4ia64-4s", |host| assert_eq!(host.distance(0, 0), None));
    with("fakeheterocpunuma", |host| {
        // The only tree with an asymmetric table.
        assert_eq!((host.distance(0, 5), host.distance(5, 0)), (Some(50), Some(40)));
        assert_eq!((host.distance(2, 4), host.distance(4, 2)), (Some(40), Some(50)));
    });
    with("memorysidecaches", |host| {
        // Sub-NUMA halves of a socket: one cache, two nodes, and binding stays within the node.
        let seat = plan(host, &Placement::Spread, Pin::Auto, 1).unwrap().remove(0);
        let bind = seat.bind.unwrap();
        assert_eq!((bind.len(), host.llcs()[seat.llc].cpus.len()), (20, 40));
    });
}
