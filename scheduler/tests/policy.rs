//! The policy as values: who is asked in which order, how much is taken, who is woken. Every property has a control: a
//! made-up policy that it must reject.
#![cfg(not(loom))]

use proptest::prelude::*;
use scheduler::internals::config::{REMOTE_AFTER, REMOTE_BACKLOG, STEAL_MAX, STEP_ASKS};
use scheduler::internals::numa::{CpuId, Pin, Placement, Topology, plan};
use scheduler::internals::policy::*;
use std::collections::HashSet;

#[path = "../../numa/tests/common/fixtures.rs"]
#[allow(dead_code, reason = "their names are of no interest here")]
mod fixtures;
#[path = "../../numa/tests/common/tree.rs"]
#[allow(dead_code, reason = "the fixtures need one function of it")]
mod tree;

fn layout(topology: &Topology, workers: usize) -> Layout {
    placed(topology, &Placement::Spread, workers)
}

fn placed(topology: &Topology, placement: &Placement, workers: usize) -> Layout {
    let seats = plan(topology, placement, Pin::Auto, workers).unwrap();
    Layout::new(topology, &seats)
}

fn host(spec: &str) -> Topology {
    Topology::from_spec(spec).unwrap()
}

/// What is wrong with an order of victims, if anything.
fn fault(layout: &Layout, topology: &Topology, index: usize, order: &[u32]) -> Option<String> {
    let once: HashSet<u32> = order.iter().copied().collect();
    if once.len() != order.len() || order.len() != layout.spots.len() - 1 || once.contains(&(index as u32)) {
        return Some(format!("worker {index} does not ask everybody once: {order:?}"));
    }
    let far = |&other: &u32| {
        let other = other as usize;
        let ring = layout.ring(index, other);
        let nodes = (layout.spots[index].node, layout.spots[other].node);
        let distance = topology.distance(nodes.0, nodes.1).unwrap_or(u32::MAX);
        (ring, if ring == Ring::Remote { distance } else { 0 })
    };
    let sorted = order.iter().map(far).is_sorted();
    (!sorted).then(|| format!("worker {index} does not ask by distance: {order:?}"))
}

/// Everything that must hold of any layout; returns how many orders were looked at.
fn check(topology: &Topology, workers: usize) -> usize {
    check_layout(topology, layout(topology, workers), workers)
}

fn check_layout(topology: &Topology, layout: Layout, workers: usize) -> usize {
    assert_eq!(layout.faults(), Vec::<String>::new());
    for index in 0..workers {
        let victims = Victims::new(&layout, topology, index);
        assert_eq!(fault(&layout, topology, index, victims.all()), None);
        let rings = victims.all().iter().map(|&other| layout.ring(index, other as usize));
        assert!(rings.enumerate().all(|(position, ring)| victims.ring(position) == ring));
        check_rounds(&layout, index, &victims);
    }
    for cpu in topology.cpus() {
        let shard = &layout.shards[layout.shard_at(topology, cpu.id).unwrap()];
        let local = layout.shards.iter().any(|shard| shard.node == cpu.node);
        assert!(!local || shard.node == cpu.node, "a submitter on {} is sent elsewhere", cpu.id);
    }
    workers
}

/// One worker's search that finds nothing. Remote only after so many empty rounds, then everybody, by ring and in small
/// steps; near ones in turn; and nobody gives up before everybody was asked.
fn check_rounds(layout: &Layout, index: usize, victims: &Victims) {
    let ring = |position: usize| layout.ring(index, victims.all()[position] as usize);
    let count = |within: Ring| (0..victims.all().len()).filter(|&position| ring(position) <= within).count();
    let (cache, near, all) = (count(Ring::Cache), count(Ring::Node), victims.all().len());
    let (mut rounds, mut far) = (Rounds::FRESH, 0);
    // In how many rounds in a row nobody asked him.
    let mut forgotten = vec![0; all];
    for empty in 0..=64 {
        assert!(rounds.begins());
        assert!(!victims.exhausted(rounds, true) || far != 0, "gives up before it has asked everybody");
        assert!(!victims.exhausted(rounds, false) || far != 0 || empty > 0 && near - cache <= STEP_ASKS);
        let everybody = rounds.reach_far();
        assert!(!everybody || empty >= REMOTE_AFTER, "remote too early");
        far += u32::from(everybody);
        forgotten.iter_mut().for_each(|rounds| *rounds += 1);
        loop {
            let step: Vec<usize> = victims.asked(rounds).map(|(position, _)| position).collect();
            assert!(victims.asked(rounds).all(|(position, other)| victims.all()[position] == other));
            assert!(step.iter().map(|&position| ring(position)).is_sorted(), "nearer ones first");
            assert!(step.len() <= cache + STEP_ASKS && (0..cache).all(|position| step[position] == position));
            step.iter().for_each(|&position| forgotten[position] = 0);
            rounds = victims.empty(rounds);
            assert!(everybody || rounds.begins(), "a round without the others is one step");
            if rounds.begins() {
                break;
            }
        }
        let reach = if everybody { all } else { near };
        assert!(forgotten[reach..].iter().all(|&rounds| rounds > 0), "out of reach");
        assert!(!everybody || forgotten.iter().all(|&rounds| rounds == 0), "a round of everybody asks everybody");
        let turns = (near - cache).div_ceil(STEP_ASKS).max(1);
        assert!(forgotten[..near].iter().all(|&rounds| rounds < turns + 2), "near ones come round: {forgotten:?}");
    }
    // Bounded: in any stretch of rounds that doubles their number there is one that asks everybody.
    assert_eq!(far, 1 + 64_u32.ilog2() - REMOTE_AFTER.ilog2());
    assert_eq!(victims.asked(Rounds::ALL).count(), all, "before a sleep everybody at once");
    assert!(!spoken_for(1, false, rounds) && spoken_for(1, true, rounds) && spoken_for(1, false, Rounds::FRESH));
    assert!(!spoken_for(REMOTE_BACKLOG, true, Rounds::FRESH));
}

fn a_host() -> impl Strategy<Value = String> {
    let node =
        (0..3usize, 1..12usize, 1..3usize, 0..4u32).prop_map(|(llcs, cores, threads, gap)| (llcs, cores, threads, gap));
    (prop::collection::vec(node, 1..6), prop::collection::vec(10..40u32, 36)).prop_map(|(nodes, far)| {
        let mut spec = String::new();
        let mut id = 0;
        for (llcs, cores, threads, gap) in &nodes {
            id += gap + 1;
            spec += &format!("node id={id} llcs={} cores={cores} threads={threads}\n", llcs + 1);
        }
        let row = |from: usize| {
            let one = |to: usize| if from == to { 10 } else { far[from * 6 + to] + 1 };
            (0..nodes.len()).map(|to| one(to).to_string()).collect::<Vec<_>>().join(" ")
        };
        spec + "dist " + &(0..nodes.len()).map(row).collect::<Vec<_>>().join("/")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_host_any_number_of_workers(spec in a_host(), workers in 1..80usize) {
        check(&host(&spec), workers);
    }

    #[test]
    fn an_order_of_sleepers_is_always_a_permutation(bits in prop::collection::vec(0..16usize, 0..100)) {
        let mut recent = Recent::START;
        let mut expected: Vec<usize> = (0..16).collect();
        for bit in bits {
            recent = Recent::from_bits(recent.now(bit).bits());
            expected.retain(|&other| other != bit);
            expected.insert(0, bit);
        }
        prop_assert_eq!(recent.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn whoever_is_woken_sleeps(idle in 0..1u32 << 16, bits in prop::collection::vec(0..16usize, 0..40)) {
        let recent = bits.iter().fold(Recent::START, |recent, &bit| recent.now(bit));
        let pairs: Vec<u32> = (0..16).map(|bit| 0b11 << (bit & !1)).collect();
        let chosen = choose_idle(idle, recent, &pairs);
        prop_assert_eq!(chosen.is_none(), idle == 0);
        let Some(bit) = chosen else { return Ok(()) };
        prop_assert!(idle >> bit & 1 != 0);
        // A whole core before the sibling of a busy one.
        let whole = |bit: usize| pairs[bit] & !idle == 0;
        let any_whole = (0..16).any(whole);
        prop_assert_eq!(whole(bit), any_whole);
        // Among equals the last to go to sleep.
        let first = recent.iter().find(|&b| idle >> b & 1 != 0 && whole(b) == any_whole);
        prop_assert_eq!(Some(bit), first);
    }
}

/// M4: every tree of a real host, with any number of workers.
#[test]
fn every_fixture_any_number_of_workers() {
    let Some(archives) = fixtures::archives() else { return };
    let (mut orders, mut remote) = (0, 0);
    for archive in &archives {
        let topology = fixtures::unpacked(archive, |root| Topology::from_root(root).unwrap());
        let most = 2 * topology.allowed().len() + 3;
        let mut random = proptest::test_runner::TestRunner::deterministic();
        for case in 0..4 {
            let mut some = || proptest::strategy::ValueTree::current(&(1..=most).new_tree(&mut random).unwrap());
            // As many as there are CPUs, the default, is always among them.
            let workers = if case == 0 { topology.allowed().len() } else { some() };
            for placement in [Placement::Spread, Placement::Pack] {
                let layout = placed(&topology, &placement, workers);
                remote += usize::from(layout.is_apart());
                orders += check_layout(&topology, layout, workers);
            }
        }
        // The control: a choice that knows no distance is refused wherever there are distances.
        let workers = topology.allowed().len();
        let layout = placed(&topology, &Placement::Spread, workers);
        let uniform: Vec<u32> = (1..workers as u32).collect();
        let differ = uniform.windows(2).any(|pair| {
            let [near, far] = [pair[0], pair[1]].map(|other| layout.ring(0, other as usize));
            near > far
        });
        assert!(!differ || fault(&layout, &topology, 0, &uniform).is_some(), "uniform victims pass");
    }
    println!("{orders} orders on {} trees, {remote} layouts over several nodes", archives.len());
    assert!(remote >= archives.len(), "hardly a tree has two nodes");
}

#[test]
fn the_check_of_orders_bites() {
    let topology = host("2*node llcs=2 cores=2; dist 10 21/21 10");
    let layout = layout(&topology, 8);
    let uniform: Vec<u32> = (1..8).collect();
    assert!(fault(&layout, &topology, 0, &uniform).unwrap().contains("by distance"), "uniform victims pass");
    assert!(fault(&layout, &topology, 0, &uniform[1..]).unwrap().contains("everybody once"), "a forgotten one passes");
}

/// Nodes and caches are two partitions: a cache over two nodes makes nobody near.
#[test]
fn a_cache_over_two_nodes() {
    let topology = host("node cpus=0-3; node cpus=4-7; cache 0-7");
    let layout = layout(&topology, 8);
    assert_eq!(layout.shards.len(), 2);
    assert_eq!(layout.shard_ring(0, 1), Ring::Remote);
    check(&topology, 8);
}

#[test]
fn siblings_share_a_shard_and_eight_cores_fill_it() {
    let topology = host("node cores=12 threads=2");
    let layout = layout(&topology, 24);
    let sizes: Vec<usize> = layout.shards.iter().map(|shard| shard.members.len()).collect();
    assert_eq!(sizes, [16, 8], "eight cores and four, with their siblings");
    assert!(layout.shards[0].cores.iter().all(|mates| mates.count_ones() == 2));
    // More workers than CPUs are not siblings of anybody.
    let crowded = self::layout(&host("node cores=2"), 16);
    assert_eq!(crowded.shards.iter().map(|shard| shard.members.len()).collect::<Vec<_>>(), [8, 8]);
}

#[test]
fn submitters_belong_where_they_run() {
    let topology =
        host("node id=3 cores=4; node id=7 cores=4; node id=9 cores=0 mem=1g; dist 10 20 30/20 10 17/30 17 10");
    let layout = layout(&topology, 8);
    let node = |cpu| layout.shards[layout.shard_at(&topology, CpuId::new(cpu)).unwrap()].node;
    assert_eq!((node(0), node(7)), (0, 1));
    assert_eq!(layout.shard_at(&topology, CpuId::new(99)), None);
    // The node without workers stands for its nearest neighbour with some.
    assert_eq!(layout.shard_on(2), layout.shard_on(1));
    assert_eq!(layout.shard_on(3), None);
}

#[test]
fn searchers_do_not_all_begin_with_the_same_victim() {
    let topology = host("node cores=8");
    let layout = layout(&topology, 8);
    let firsts: HashSet<u32> = (0..8).map(|index| Victims::new(&layout, &topology, index).all()[0]).collect();
    assert!(firsts.len() >= 4, "{firsts:?}");
}

#[test]
fn shares() {
    assert_eq!([1, 2, 3, 20, 63, 64, 10_000].map(share), [1, 1, 2, 10, 32, 32, STEAL_MAX]);
}

#[test]
fn whom_a_wake_relies_on() {
    let [asleep, searching, fast] =
        [(false, false), (true, false), (false, true)].map(|(searching, fast)| Look { searching, fast, idle: true });
    for ring in [Ring::Cache, Ring::Node, Ring::Remote] {
        assert_eq!(consult(ring, asleep, false), Verdict::Wake);
        assert_eq!(consult(ring, searching, true), Verdict::Rely);
        assert_eq!(consult(ring, Look { idle: false, ..asleep }, false), Verdict::Pass);
        assert_eq!(consult(ring, fast, true), Verdict::Wake);
    }
    assert_eq!(consult(Ring::Node, fast, false), Verdict::Rely);
    // Somebody fast on another node has work of its own.
    assert_eq!(consult(Ring::Remote, fast, false), Verdict::Wake);
    assert!(reaches_out(1, false), "nobody stands by");
    assert!(!reaches_out(REMOTE_BACKLOG - 1, true) && reaches_out(REMOTE_BACKLOG, true));
}

/// A mean that is fine stays so until coarse forks were stolen, and what is hidden is asked for all the same by whoever
/// insists. The control: a rule that forgets to insist, or to look at tasks, is told apart.
#[test]
fn fine_forks_are_left_alone_until_somebody_insists() {
    let mut grain = Grain::UNTRIED;
    assert!(!grain.is_fine(), "nobody has tried yet");
    let mut thefts = 0;
    while !grain.is_fine() {
        grain = grain.learn(1_000);
        thefts += 1;
    }
    assert!((2..64).contains(&thefts), "{thefts} thefts until small forks are known as such");
    assert!(!grain.learn(1_000_000).is_fine(), "one coarse fork is heard of at once");
    assert!(!grain.learn(u64::MAX).is_fine(), "however long it took");
    let hidden = |tasks, forks| Hidden { tasks, forks, grain };
    assert!(hidden(0, 3).any() && !hidden(0, 0).any());
    assert!(!hidden(0, 3).worth_asking(false), "fine");
    assert!(hidden(0, 3).worth_asking(true), "insisted");
    assert!(!hidden(0, 0).worth_asking(true), "nothing");
    assert!(hidden(1, 0).worth_asking(false), "a task");
    assert!(hidden(0, 3).worth_a_wake(false), "nobody stands by");
    assert!(!hidden(0, 3).worth_a_wake(true), "somebody does");
    assert!(hidden(1, 3).worth_a_wake(true), "a task beside them");
    assert!(Hidden { grain: Grain::UNTRIED, ..hidden(0, 1) }.worth_a_wake(true), "coarse");
    for coarse in [false, true] {
        let naps: Vec<u64> =
            std::iter::successors(Some(first_nap(coarse)), |&nap| Some(next_nap(nap))).take(9).collect();
        assert!(naps.is_sorted() && naps.iter().all(|&nap| (1..=150).contains(&nap)), "{naps:?}");
    }
}
