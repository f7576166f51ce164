//! Reports, their form and their page, as a user makes them. Rates are never looked at: the machine may be busy.
#![cfg(not(loom))]
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bench")).args(args).output().expect("the program starts")
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&[&out.stdout[..], &out.stderr[..]].concat()).into_owned()
}

/// A folder of its own, gone at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("bench-report-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Folder(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays in the temporary folder harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn compare(out: &str, more: &[&str]) -> Output {
    let args = ["--tiny", "--no-wait", "--samples", "1", "--scenarios", "flood_1m,cpu_work_10us"];
    bench(&[&args[..], &["--arms", "scheduler,tokio,floor", "--out", out], more].concat())
}

#[test]
fn a_report_has_its_form_and_its_page() {
    let folder = Folder::new("form");
    let (one, two) = (folder.path("one.json"), folder.path("two.json"));
    for out in [&one, &two] {
        let run = compare(out, &["--force-rates"]);
        assert!(run.status.success() && said(&run).contains("charts: "), "{}", said(&run));
    }
    let beside = std::fs::read_to_string(folder.path("one.html")).expect("the page beside it");
    assert!(beside.contains("flood_1m") && beside.contains("TINY") && beside.contains("stress gate"));
    let counts = folder.path("counts.json");
    let run = bench(&["counts", "--tiny", "--paths", "wakeup", "--arms", "scheduler", "--out", &counts]);
    assert!(run.status.success(), "{}", said(&run));
    let checked = bench(&["check", &one, &two, &counts]);
    assert!(checked.status.success(), "{}", said(&checked));
    let page = folder.path("all.html");
    let run = bench(&["report", &one, &two, &counts, "--out", &page]);
    assert!(run.status.success(), "{}", said(&run));
    let page = std::fs::read_to_string(page).expect("a page");
    for part in ["<h2>Scenarios", "<h2>Counts", "<h2>History", "<h2>Latency", "<svg", "prefers-color-scheme:dark"] {
        assert!(page.contains(part), "{part}");
    }
    let left: Vec<_> = std::fs::read_dir(&folder.0).expect("there").map(|e| e.expect("readable").file_name()).collect();
    assert!(left.iter().all(|n| !n.to_string_lossy().ends_with(".part")), "no half file is left: {left:?}");
}

/// Whoever calls the report a page keeps the report.
#[test]
fn a_page_does_not_overwrite_its_report() {
    let folder = Folder::new("name");
    let out = folder.path("seen.html");
    assert!(compare(&out, &[]).status.success());
    let text = std::fs::read_to_string(&out).expect("a report");
    assert!(text.starts_with("{"), "{text}");
    assert!(bench(&["check", &out]).status.success());
}

#[test]
fn another_form_is_told_where() {
    let folder = Folder::new("broken");
    let good = folder.path("good.json");
    // Not forced: without rates the form is the same.
    assert!(compare(&good, &[]).status.success());
    assert!(bench(&["check", &good]).status.success());
    let text = std::fs::read_to_string(&good).expect("a report");
    let broken = folder.path("broken.json");
    std::fs::write(&broken, text.replacen("\"status\": \"ok\"", "\"status\": \"fine\"", 1)).expect("written");
    let out = bench(&["check", &good, &broken]);
    assert_eq!(out.status.code(), Some(2));
    assert!(said(&out).contains("broken.json: not the form of `compare`: /results/0/status"), "{}", said(&out));
}

#[test]
fn what_cannot_be_read_or_written_is_named() {
    let folder = Folder::new("bad");
    let bad = folder.path("bad.json");
    std::fs::write(&bad, "{\"kind\": \"compare\", ").expect("written");
    let list = folder.path("list.json");
    std::fs::write(&list, "[1]").expect("written");
    let page = folder.path("page.html");
    for (args, words) in [
        (vec!["report", &bad, "--out", &page], "bad.json: not JSON"),
        (vec!["report", &list, "--out", &page], "list.json: not a report"),
        (vec!["report", "/no/such/file.json", "--out", &page], "/no/such/file.json"),
        (vec!["report"], "<FILES>"),
        (vec!["check", &bad], "bad.json: not JSON"),
        (vec!["check", &list], "no `kind`"),
        (vec!["--tiny", "--no-wait", "--out", "/proc/nowhere/x.json"], "/proc/nowhere/x.json"),
        (vec!["counts", "--tiny", "--out", "/proc/nowhere/x.json"], "/proc/nowhere/x.json"),
    ] {
        let out = bench(&args);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {}", said(&out));
        assert!(said(&out).contains(words), "{args:?}: {}", said(&out));
    }
    assert!(!Path::new(&page).exists(), "no page of nothing");
}

/// A stamp for other sources than these is none, and one for these is printed.
#[test]
fn every_report_prints_the_gate() {
    let folder = Folder::new("gate");
    let hash = said(&bench(&["gate-hash"])).trim().to_owned();
    let line = |tree: &str| {
        let stamp = format!("{{\"tree\": \"{tree}\", \"passed\": true, \"runs\": 20}}");
        std::fs::write(folder.path("stress-gate.json"), stamp).expect("written");
        let run = Command::new(env!("CARGO_BIN_EXE_bench"))
            .args(["--tiny", "--no-wait", "--samples", "1", "--scenarios", "flood_1m", "--arms", "floor"])
            .args(["--out", "/dev/null"])
            .env("STRESS_GATE_DIR", &folder.0)
            .output();
        said(&run.expect("the program starts"))
    };
    assert!(line(&hash).contains("stress gate: 20/20"));
    assert!(line(&hash.replace(|_| true, "0")).contains("NOT GATED (the stamp is for another source tree)"));
}

/// Whoever is interrupted says so and leaves no half report.
#[test]
fn an_interrupted_run_leaves_nothing() {
    let folder = Folder::new("interrupt");
    let out = folder.path("never.json");
    let args = ["--no-wait", "--force-rates", "--samples", "1000", "--scenarios", "cpu_work_10us", "--arms", "floor"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
    command.args(args).args(["--out", &out]).stdout(std::process::Stdio::piped());
    let mut run = command.stderr(std::process::Stdio::piped()).spawn().expect("the program starts");
    // Its first line comes when everything is prepared; a thousand samples take a minute from there.
    let mut first = [0];
    std::io::Read::read_exact(run.stdout.as_mut().expect("piped"), &mut first).expect("a first letter");
    // SAFETY: the process is ours and has not been waited for, so its number is still its own.
    assert_eq!(unsafe { libc::kill(run.id() as libc::pid_t, libc::SIGINT) }, 0);
    let out = run.wait_with_output().expect("it ends");
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    assert!(said(&out).contains("interrupted; no report was written"), "{}", said(&out));
    let left = std::fs::read_dir(&folder.0).expect("there").count();
    assert_eq!(left, 0, "no report, and no half of one");
}
