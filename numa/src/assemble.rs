//! From what a source says to a topology that holds together.
//!
//! Whatever comes in, what goes out satisfies: at least one CPU is online; every online CPU has exactly one home
//! node, one cache group and one core; the allowed set is a non-empty subset of the online set; the distance table
//! is square. Each repair leaves a note.

use crate::cpuset::CpuSet;
use crate::facts::{Facts, NodeFacts};
use crate::ids::{CpuId, NodeId};
use crate::topology::{Core, Cpu, Llc, Node, Topology};

pub(crate) fn assemble(mut facts: Facts) -> Topology {
    some_cpu_online(&mut facts);
    let mut nodes = believable_nodes(&mut facts);
    let distances = believable_distances(&mut facts);
    let cores = cores(&mut facts);
    let mut llcs = cache_groups(&mut facts);
    let in_nodes = nodes.iter().fold(CpuSet::new(), |all, node| all.union(&node.cpus));
    let unassigned = facts.online.difference(&in_nodes);
    deal(&unassigned, &mut nodes, &llcs, &cores, &mut facts);
    nodes_stand_in_for_caches(&mut llcs, &nodes, &facts.online);
    let allowed = believable_mask(&mut facts);
    let cpus = cpus(&facts.online, &nodes, &llcs, &cores);
    Topology { facts, nodes, llcs, cores, cpus, distances, unassigned, allowed }
}

fn some_cpu_online(facts: &mut Facts) {
    if facts.online.is_empty() {
        facts.note("online", "no CPU is online; CPU 0 is taken to be");
        facts.online.insert(CpuId::new(0));
    }
    facts.offline = facts.offline.difference(&facts.online);
}

/// Nodes ascending by id, with disjoint online CPUs. A host without nodes is one node 0.
fn believable_nodes(facts: &mut Facts) -> Vec<Node> {
    if facts.nodes.is_empty() {
        facts.note("nodes", "none described; one node 0 with every CPU is assumed");
        facts.nodes.push(NodeFacts {
            id: NodeId::new(0),
            cpus: facts.online.clone(),
            memory_kb: None,
            distances: vec![Some(10)],
        });
    }
    facts.nodes.sort_by_key(|node| node.id);
    facts.nodes.dedup_by_key(|node| node.id);
    let mut left = facts.online.clone();
    let mut nodes = Vec::with_capacity(facts.nodes.len());
    let mut notes = Vec::new();
    for node in &facts.nodes {
        let online = node.cpus.intersection(&facts.online);
        let cpus = online.intersection(&left);
        if cpus != online {
            let twice = online.difference(&left);
            notes.push((node.id, format!("CPUs {twice} are in an earlier node already and stay there")));
        }
        left = left.difference(&cpus);
        nodes.push(Node { id: node.id, cpus, dealt: CpuSet::new(), memory_kb: node.memory_kb });
    }
    for (id, text) in notes {
        facts.note(format!("node {id}"), text);
    }
    nodes
}

/// The square table over the nodes, with what firmware cannot have meant taken out.
fn believable_distances(facts: &mut Facts) -> Vec<Option<u32>> {
    let count = facts.nodes.len();
    let mut table = Vec::with_capacity(count * count);
    let mut notes = Vec::new();
    for node in &facts.nodes {
        if node.distances.len() == count {
            table.extend(node.distances.iter().map(|distance| distance.filter(|&far| far != 0)));
        } else {
            if !node.distances.is_empty() {
                notes.push((node.id, format!("{} distances for {count} nodes: ignored", node.distances.len())));
            }
            table.resize(table.len() + count, None);
        }
    }
    for (id, text) in notes {
        facts.note(format!("node {id}"), text);
    }
    if count > 1 && table.iter().all(|&distance| distance == Some(10)) {
        facts.note("distances", "every entry is 10, so the firmware does not know: ignored");
        table.fill(None);
    }
    table
}

fn cores(facts: &mut Facts) -> Vec<Core> {
    let described = std::mem::take(&mut facts.cores);
    let (mut sets, rest) = disjoint(described.iter(), &facts.online);
    sets.extend(rest.iter().map(CpuSet::single));
    sets.sort_by_key(CpuSet::first);
    sets.into_iter().map(|cpus| Core { cpus }).collect()
}

fn cache_groups(facts: &mut Facts) -> Vec<Llc> {
    let described = std::mem::take(&mut facts.caches);
    let mut left = facts.online.clone();
    let mut llcs = Vec::new();
    for cache in described {
        let cpus = cache.cpus.intersection(&left);
        left = left.difference(&cpus);
        if !cpus.is_empty() {
            llcs.push(Llc { cpus, level: Some(cache.level) });
        }
    }
    llcs.sort_by_key(|llc| llc.cpus.first());
    llcs
}

/// The sets cut down to what no earlier set has, and what is in none of them.
fn disjoint<'a>(sets: impl Iterator<Item = &'a CpuSet>, universe: &CpuSet) -> (Vec<CpuSet>, CpuSet) {
    let mut left = universe.clone();
    let mut cut = Vec::new();
    for set in sets {
        let mine = set.intersection(&left);
        left = left.difference(&mine);
        if !mine.is_empty() {
            cut.push(mine);
        }
    }
    (cut, left)
}

/// Gives CPUs that are in no node to one: to the node that has most of their shared cache, else group by group in
/// turn. Memory-only nodes take part only when no node has a CPU at all.
fn deal(orphans: &CpuSet, nodes: &mut [Node], llcs: &[Llc], cores: &[Core], facts: &mut Facts) {
    if orphans.is_empty() {
        return;
    }
    let mut homes: Vec<usize> = (0..nodes.len()).filter(|&index| !nodes[index].cpus.is_empty()).collect();
    if homes.is_empty() {
        facts.note("nodes", "no node lists an online CPU; the first one is taken as everybody's home");
        homes.push(0);
    } else {
        facts.note(format!("CPUs {orphans}"), "in no node; dealt out by shared cache");
    }
    let groups = llcs.iter().map(|llc| &llc.cpus).chain(cores.iter().map(|core| &core.cpus));
    let mut left = orphans.clone();
    let mut turn = 0;
    for group in groups {
        let mine = group.intersection(&left);
        if mine.is_empty() {
            continue;
        }
        left = left.difference(&mine);
        let shared = |&home: &usize| (nodes[home].cpus.intersection(group).len(), std::cmp::Reverse(home));
        let home = match homes.iter().copied().max_by_key(shared) {
            Some(home) if nodes[home].cpus.intersects(group) => home,
            _ => {
                turn += 1;
                homes[(turn - 1) % homes.len()]
            }
        };
        nodes[home].dealt = nodes[home].dealt.union(&mine);
    }
}

fn nodes_stand_in_for_caches(llcs: &mut Vec<Llc>, nodes: &[Node], online: &CpuSet) {
    let cached = llcs.iter().fold(CpuSet::new(), |all, llc| all.union(&llc.cpus));
    let bare = online.difference(&cached);
    for node in nodes {
        let cpus = node.residents().intersection(&bare);
        if !cpus.is_empty() {
            llcs.push(Llc { cpus, level: None });
        }
    }
    llcs.sort_by_key(|llc| llc.cpus.first());
}

fn believable_mask(facts: &mut Facts) -> CpuSet {
    let Some(mask) = facts.allowed.take() else {
        return facts.online.clone();
    };
    let usable = mask.intersection(&facts.online);
    if usable.is_empty() {
        facts.note("allowed", format!("none of {mask} is online; every online CPU is assumed"));
        return facts.online.clone();
    }
    usable
}

fn cpus(online: &CpuSet, nodes: &[Node], llcs: &[Llc], cores: &[Core]) -> Vec<Cpu> {
    let mut cpus: Vec<Cpu> = online.iter().map(|id| Cpu { id, node: 0, llc: 0, core: 0 }).collect();
    let mut each = |set: &CpuSet, put: &dyn Fn(&mut Cpu)| {
        for id in set.iter() {
            if let Ok(index) = cpus.binary_search_by_key(&id, |cpu| cpu.id) {
                put(&mut cpus[index]);
            }
        }
    };
    for (index, node) in nodes.iter().enumerate() {
        each(&node.residents(), &|cpu| cpu.node = index);
    }
    for (index, llc) in llcs.iter().enumerate() {
        each(&llc.cpus, &|cpu| cpu.llc = index);
    }
    for (index, core) in cores.iter().enumerate() {
        each(&core.cpus, &|cpu| cpu.core = index);
    }
    cpus
}
