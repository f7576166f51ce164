//! The model executor: what must hold of the library's policy on every host, and that bad policies are caught.
#![cfg(not(loom))]

use bench::model::{HOSTS, Host, Load, Rules, Tally, run};

/// As `bench numa` plays them.
const TASKS: u64 = 100_000;

/// Looks in a row that one search may make while some queue holds two tasks. The patience is eight rounds; after that
/// everybody is asked in rounds 16, 32 and 64, and a search ends after some 70 of the fastest rounds.
const ROUNDS_BESIDE: u64 = 64;
/// Seeds whose arrivals and lengths must all hold.
const SEEDS: [u64; 3] = [1, 2, 3];

fn play(host: &Host, rules: Rules, load: Load) -> Tally {
    run(host, rules, load, TASKS, 1)
}

/// All hosts but the one without neighbours.
fn apart() -> &'static [Host] {
    &HOSTS[..HOSTS.len() - 1]
}

#[test]
fn the_same_seed_gives_the_same_counts() {
    let host = &HOSTS[0];
    assert_eq!(run(host, Rules::Ours, Load::Hot, 5_000, 3), run(host, Rules::Ours, Load::Hot, 5_000, 3));
    assert_ne!(run(host, Rules::Ours, Load::Hot, 5_000, 3), run(host, Rules::Ours, Load::Hot, 5_000, 4));
}

/// M1, M4, M5, M6, M14, and what fails them.
#[test]
fn a_balanced_load_stays_at_home() {
    for host in apart() {
        let (ours, uniform) = (play(host, Rules::Ours, Load::Balanced), play(host, Rules::Uniform, Load::Balanced));
        assert_eq!(ours.tasks, TASKS, "{}", host.name);
        assert!(uniform.off_node_percent() >= 29.0, "{}: the control passes: {uniform:?}", host.name);
        assert!(uniform.out_of_order > 0, "{}: the control passes", host.name);
        assert!(uniform.wakes_at_home_percent() < 95.0, "{}: the control passes: {uniform:?}", host.name);
        let herd = play(host, Rules::Herd, Load::Balanced);
        assert!(herd.most_wakes > 1 && herd.wakes_in_vain > 0, "{}: the control passes: {herd:?}", host.name);
        for seed in SEEDS {
            let ours = run(host, Rules::Ours, Load::Balanced, TASKS, seed);
            assert!(ours.off_node_percent() <= 2.0, "{}: {ours:?}", host.name);
            assert_eq!(ours.out_of_order, 0, "{}", host.name);
            assert_eq!(ours.wakes_at_home, ours.wakes_with_choice, "{}: a neighbour before a local", host.name);
            assert!(ours.most_wakes <= 1 && ours.wakes_in_vain == 0, "{}: {ours:?}", host.name);
        }
    }
}

/// M14 under either load. Where it is more than a third of uniform, and why: `docs/decisions/0010-steps-of-a-search.md`
#[test]
fn lines_travel_short_ways() {
    const MISSED: [&str; 4] =
        ["2 sockets, 6 caches each", "2 sockets with SMT", "2 dies, 2 caches each", "one cache over 2 nodes"];
    for host in apart() {
        let cheaper = |load| {
            let (ours, uniform) = (play(host, Rules::Ours, load), play(host, Rules::Uniform, load));
            uniform.moved_per_task() / ours.moved_per_task()
        };
        let (balanced, hot) = (cheaper(Load::Balanced), cheaper(Load::Hot));
        println!("M14 {}: uniform costs {balanced:.2} times as much, {hot:.2} on a hot node", host.name);
        // Half of the tasks come through a lane, and each of those moves a line, at the least within a cache.
        let least = host.latency.rings[0] as f64 / 2.0;
        let possible = play(host, Rules::Uniform, Load::Balanced).moved_per_task() / least;
        println!("    with every task run beside its lane {possible:.2} times");
        let flat = possible < 3.0;
        assert_eq!(balanced < 3.0, MISSED.contains(&host.name), "{}: {balanced}", host.name);
        assert_eq!(hot < 3.0, flat, "{}: {hot}", host.name);
    }
}

/// M2 and M3, and what fails them.
#[test]
fn a_hot_node_is_relieved_in_large_pieces() {
    for host in apart() {
        let (strict, one) = (play(host, Rules::Strict, Load::Hot), play(host, Rules::OneTask, Load::Hot));
        assert!(strict.span() > 1.15, "{}: the control passes: {strict:?}", host.name);
        let caught = one.remote_per_100() > 5.0 && one.tasks_per_remote() < 8.0;
        assert!(caught, "{}: the control passes: {one:?}", host.name);
        for seed in SEEDS {
            let ours = run(host, Rules::Ours, Load::Hot, TASKS, seed);
            assert!(ours.remote_per_100() <= 5.0, "{}: {ours:?}", host.name);
            assert!(ours.tasks_per_remote() >= 8.0, "{}: {ours:?}", host.name);
            assert!(ours.span() <= 1.15, "{}: {ours:?}", host.name);
            assert!(ours.rounds_beside <= ROUNDS_BESIDE, "{}: {ours:?}", host.name);
        }
    }
    let strict = play(&HOSTS[5], Rules::Strict, Load::Hot);
    assert!(strict.rounds_beside > ROUNDS_BESIDE, "the control passes: {strict:?}");
}

/// One node: the policy knows no distance there, and no control but the herd differs.
#[test]
fn one_node_is_all_at_home() {
    let host = &HOSTS[HOSTS.len() - 1];
    for load in [Load::Balanced, Load::Hot] {
        let ours = play(host, Rules::Ours, load);
        assert_eq!((ours.off_node, ours.remote_steals, ours.wakes[2], ours.probes[2]), (0, 0, 0, 0));
        assert!(ours.span() <= 1.05, "{ours:?}");
    }
}

/// The program: a report, a chart, and a folder that cannot be written to.
#[test]
fn the_command() {
    let folder = std::env::temp_dir().join(format!("bench-numa-{}", std::process::id()));
    let out = folder.join("numa.json");
    let bench = || std::process::Command::new(env!("CARGO_BIN_EXE_bench"));
    let run = bench().args(["numa", "--tiny", "--out"]).arg(&out).output().unwrap();
    assert!(run.status.success(), "{run:?}");
    let text = String::from_utf8(run.stdout).unwrap();
    assert!(text.contains("the control strict node"), "{text}");
    let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&out).unwrap()).unwrap();
    assert_eq!(report["homes"], "virtual");
    assert_eq!(report["runs"].as_array().unwrap().len(), HOSTS.len() * 2 * Rules::ALL.len());
    assert_eq!(report["verdicts"].as_array().unwrap().len(), 9);
    let chart = std::fs::read_to_string(folder.join("numa.svg")).unwrap();
    assert!(chart.starts_with("<svg") && chart.contains("unequal nodes"));
    std::fs::remove_dir_all(&folder).unwrap();
    let refused = bench().args(["numa", "--tiny", "--out", "/proc/nowhere/x.json"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("/proc/nowhere"), "{refused:?}");
}
