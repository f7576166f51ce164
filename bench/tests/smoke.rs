//! The program as a user runs it, in sizes that take no time. Counts and exit codes are checked, rates never: the
//! machine may be busy.
#![cfg(not(loom))]
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bench")).args(args).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn report(name: &str, args: &[&str]) -> (Output, Value) {
    let file: PathBuf = std::env::temp_dir().join(format!("bench-smoke-{}-{name}.json", std::process::id()));
    let out = bench(&[args, &["--out", &file.to_string_lossy()]].concat());
    assert!(out.status.success(), "{}{}", text(&out.stdout), text(&out.stderr));
    let json = serde_json::from_str(&std::fs::read_to_string(&file).expect("a report")).expect("JSON");
    std::fs::remove_file(&file).expect("it was there");
    // Only `compare` makes a page.
    let _ = std::fs::remove_file(file.with_extension("html"));
    (out, json)
}

/// Every arm that needs no other language, in every scenario.
#[test]
fn compare_counts_every_task() {
    let ours = "scheduler,scheduler-submitter,scheduler-batch,scheduler-worker";
    let peers = "tokio,rayon,channel,async-executor,chili,cond-broadcast,cond-signal,floor";
    let arms = &format!("{ours},{peers}");
    let args = ["compare", "--tiny", "--no-wait", "--force-rates", "--samples", "2", "--workers", "2", "--arms", arms];
    let (out, json) = report("compare", &args);
    let results = json["results"].as_array().expect("results");
    assert_eq!(results.len(), 12 * 15);
    for row in results {
        let (scenario, arm) = (row["scenario"].as_str().unwrap(), row["arm"].as_str().unwrap());
        let join = scenario.starts_with("join");
        let takes_part = match arm {
            "chili" => join,
            "scheduler" | "rayon" | "floor" => true,
            "scheduler-submitter" | "scheduler-batch" | "scheduler-worker" => {
                ["flood_1m", "contended_spawn_8x"].contains(&scenario.trim_end_matches("_own_counter"))
            }
            _ => !join,
        };
        if !takes_part {
            assert!(row["status"].as_str().unwrap().starts_with("absent: has "), "{row}");
            continue;
        }
        assert_eq!(row["status"], "ok", "{row}");
        assert!(row["tasks"].as_u64().unwrap() > 0);
        assert_eq!(row["tasks_per_sec"]["samples"].as_array().map(Vec::len), Some(2), "{row}");
        assert!(row["ctx_switches_per_task"].is_number(), "{row}");
        let allocs = row["allocs_per_task"].as_f64().unwrap();
        match arm {
            "floor" => assert_eq!(allocs, 0.0, "{row}"),
            "tokio" | "channel" | "cond-signal" => assert!(allocs >= 1.0, "{row}"),
            _ => {}
        }
        assert_eq!(row["futex_per_task"].is_number(), arm.starts_with("scheduler"), "{row}");
        assert_eq!(row["why"]["futex_per_task"].is_string(), !arm.starts_with("scheduler"), "{row}");
    }
    for part in ["host", "gate", "quiet"] {
        assert!(json[part].is_object(), "{part}");
    }
    assert_eq!(json["harness"]["allocations"], 0, "the harness itself allocates nothing per task");
    assert!(
        json["harness"]["ns_per_task"].is_number() && text(&out.stdout).contains("harness: "),
        "{}",
        json["harness"]
    );
    assert!(json["host"]["peers"]["tokio"].is_string());
    assert!(["measured", "forced"].contains(&json["quiet"]["rates"].as_str().unwrap()));
    let said = text(&out.stdout);
    assert!(said.contains("stress gate: ") && said.contains("TINY"), "{said}");
    assert!(said.contains(" than tokio"), "every comparison names its direction: {said}");
}

#[test]
fn peers_in_other_languages_run_or_say_why_not() {
    let args = ["--tiny", "--no-wait", "--samples", "1", "--scenarios", "flood_1m,join_tree", "--arms", "go,tbb"];
    let (_, json) = report("peers", &args);
    let results = json["results"].as_array().expect("results");
    assert_eq!(results.len(), 2 * 4);
    for row in results {
        let status = row["status"].as_str().unwrap();
        assert!(status == "ok" || status.starts_with("absent: "), "{row}");
    }
}

#[test]
fn a_program_that_cannot_be_built_is_an_absent_row() {
    let args = ["--tiny", "--no-wait", "--samples", "1", "--scenarios", "flood_1m", "--arms", "go"];
    let out = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(args)
        .args(["--out", "/dev/null"])
        .env("BENCH_GO", "/nonexistent/go")
        .output()
        .expect("the program starts");
    assert!(out.status.success());
    assert!(text(&out.stdout).contains("go: absent: /nonexistent/go: "), "{}", text(&out.stdout));
}

#[test]
fn counts_of_one_pool() {
    let (_, json) =
        report("counts", &["counts", "--tiny", "--paths", "external,join,wakeup", "--arms", "scheduler,channel"]);
    let rows = json["paths"].as_array().expect("paths");
    let of = |path: &str, arm: &str| {
        rows.iter().find(|r| r["path"] == path && r["arm"] == arm).unwrap_or_else(|| panic!("no {path} {arm}"))
    };
    let boxed = of("external", "channel");
    assert!((1.0..1.1).contains(&boxed["allocations"].as_f64().unwrap()), "{boxed}");
    assert!(of("external", "scheduler")["syscalls"].is_number());
    assert_eq!(of("wakeup", "scheduler")["workers"], 4);
    for row in [boxed, of("external", "scheduler"), of("join", "scheduler")] {
        // Where the tools are there is a number, else a reason.
        assert_ne!(row["instructions"].is_number(), row["why"]["instructions"].is_string(), "{row}");
        if let Some(instructions) = row["instructions"].as_f64() {
            assert!(instructions > 10.0, "{row}");
        }
    }
    if let Some(locked) = boxed["locked"].as_f64() {
        assert!(locked > 3.0, "sending and receiving through a channel lock more than that: {boxed}");
    }
}

#[test]
fn wrong_names_are_told_the_right_ones() {
    for (args, known) in [
        (["--scenarios", "flod"], "flood_1m"),
        (["--arms", "rust"], "tokio, rayon"),
        (["--workers", "0"], "1..=512"),
        (["--samples", "x"], "--samples"),
    ] {
        let out = bench(&args);
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(text(&out.stderr).contains(known), "{args:?}: {}", text(&out.stderr));
    }
    let out = bench(&["counts", "--paths", "nowhere"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("known: external, external-flat, nested, join, wakeup"));
}

#[test]
fn the_gate_hash_is_stable() {
    let (a, b) = (bench(&["gate-hash"]), bench(&["gate-hash"]));
    assert!(a.status.success());
    assert_eq!(text(&a.stdout).trim().len(), 64);
    assert_eq!(a.stdout, b.stdout);
}
