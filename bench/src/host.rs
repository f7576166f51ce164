//! The machine: what the report says about it, and whether it is quiet enough to take rates.
use crate::arms;
use crate::source::{COMPILER, Source};
use serde_json::{Value, json};
use std::fs::read_to_string;
use std::path::Path;
use std::time::{Duration, Instant};

/// Rates are taken below this load per usable CPU.
const QUIET: f64 = 0.4;
/// How long to wait for that.
const WAIT: Duration = Duration::from_secs(180);

/// How many CPUs this process can really use.
#[derive(Clone, Debug)]
pub(crate) struct Cpus {
    pub(crate) allowed: usize,
    pub(crate) list: String,
    /// Of the control group, in CPUs.
    pub(crate) quota: Option<f64>,
    /// Nodes, caches, cores and CPUs of the host.
    shape: Value,
}

impl Cpus {
    /// Affinity mask, quota and topology as the library's own discovery finds them.
    pub(crate) fn read() -> Cpus {
        let host = numa::Topology::discover();
        let counts = [host.nodes().len(), host.llcs().len(), host.cores().len(), host.cpus().len()];
        let [nodes, llcs, cores, cpus] = counts;
        Cpus {
            allowed: host.allowed().len(),
            list: host.allowed().to_string(),
            quota: host.quota_millicpus().map(|m| m as f64 / 1e3),
            shape: json!({ "nodes": nodes, "llcs": llcs, "cores": cores, "cpus": cpus }),
        }
    }

    pub(crate) fn usable(&self) -> f64 {
        self.quota.unwrap_or(f64::INFINITY).min(self.allowed as f64)
    }

    /// The number of workers unless told otherwise.
    pub(crate) fn workers(&self) -> usize {
        (self.usable().ceil() as usize).max(1)
    }
}

/// The number that was asked for, or as many as there are usable CPUs.
pub(crate) fn workers(told: Option<u16>) -> usize {
    told.map_or_else(|| Cpus::read().workers(), usize::from)
}

/// The load averages over 1, 5 and 15 minutes.
pub(crate) fn load() -> [f64; 3] {
    let text = read_to_string("/proc/loadavg").unwrap_or_default();
    let mut parts = text.split(' ').map(|p| p.parse().unwrap_or(f64::NAN));
    std::array::from_fn(|_| parts.next().unwrap_or(f64::NAN))
}

/// What the quiet rule decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rates {
    Measured,
    Forced,
    NotMeasured,
}

impl Rates {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Rates::Measured => "measured",
            Rates::Forced => "forced",
            Rates::NotMeasured => "not_measured",
        }
    }
}

pub(crate) struct Quiet {
    pub(crate) load1: f64,
    pub(crate) limit: f64,
    pub(crate) rates: Rates,
}

impl Quiet {
    /// Waits for a quiet machine unless told not to; `progress` is told the load and how long the wait has lasted.
    pub(crate) fn decide(cpus: &Cpus, force: bool, wait: bool, mut progress: impl FnMut(f64, f64, Duration)) -> Quiet {
        let limit = Quiet::limit(cpus);
        let start = Instant::now();
        loop {
            let load1 = load()[0];
            let quiet = load1 < limit;
            if quiet || force || !wait || start.elapsed() >= WAIT {
                let rates = Quiet::rule(quiet, force);
                return Quiet { load1, limit, rates };
            }
            progress(load1, limit, start.elapsed());
            std::thread::sleep(Duration::from_secs(2));
        }
    }

    /// Not of the CPUs that are there, but of those this process may use.
    fn limit(cpus: &Cpus) -> f64 {
        QUIET * cpus.usable()
    }

    fn rule(quiet: bool, force: bool) -> Rates {
        match (quiet, force) {
            (true, _) => Rates::Measured,
            (false, true) => Rates::Forced,
            (false, false) => Rates::NotMeasured,
        }
    }

    pub(crate) fn json(&self) -> Value {
        json!({ "load1": self.load1, "limit": self.limit, "rates": self.rates.name(), "why": self.why() })
    }

    /// Why there are no rates, or why they are marked.
    pub(crate) fn why(&self) -> Option<String> {
        (self.rates != Rates::Measured).then(|| {
            let (load, limit) = (self.load1, self.limit);
            format!("the 1-minute load was {load:.2} at the start, and rates are taken below {limit:.2} only")
        })
    }
}

/// The time as `2026-11-30T17:04:00Z`.
pub(crate) fn now() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    utc(since)
}

/// Seconds since 1970 as a date and a time. The calendar repeats every 400 years, which have 146,097 days; years begin
/// in March here, so that the leap day is the last one.
fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3_600, rest / 60 % 60, rest % 60)
}

/// Why there are no cycles and no cache misses in any report; `None` where the machine offers such counters.
fn no_hardware_counters() -> Option<&'static str> {
    // Where perf can count in hardware there is a device of one of these names.
    let devices = ["cpu", "cpu_core", "cpu_atom"];
    let there = devices.iter().any(|d| Path::new("/sys/bus/event_source/devices").join(d).exists());
    (!there).then_some("NOT MEASURED: this machine has no hardware counters")
}

/// The host block of the report; the load afterwards is added by the caller.
pub(crate) fn describe(cpus: &Cpus, workers: usize) -> Value {
    let cpuinfo = read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|l| Some(l.strip_prefix("model name")?.split_once(':')?.1.trim()));
    let nodes = read_to_string("/sys/devices/system/node/online").ok().map(|s| s.trim().to_owned());
    let (commit, dirty, commit_why) = Source::find().commit();
    let governor = read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").ok();
    json!({
        "date": now(),
        "commit": commit,
        "dirty": dirty,
        "commit_why": commit_why,
        // Two builds of one source differ in this, and in nothing else.
        "marker": option_env!("BENCH_MARKER"),
        "rustc": Some(COMPILER).filter(|c| !c.is_empty()),
        "profile": if cfg!(debug_assertions) { "debug" } else { "release" },
        "kernel": read_to_string("/proc/sys/kernel/osrelease").ok().map(|s| s.trim().to_owned()),
        "cpu": model,
        "cpus_online": read_to_string("/sys/devices/system/cpu/online").ok().map(|s| s.trim().to_owned()),
        "nodes_online": nodes,
        "topology": cpus.shape,
        "affinity": cpus.list,
        "quota": cpus.quota,
        "governor": governor.map(|g| g.trim().to_owned()),
        "hardware_counters": no_hardware_counters(),
        "workers": workers,
        "load_before": load(),
        "peers": arms::versions(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule() {
        assert_eq!(Quiet::rule(true, false), Rates::Measured);
        assert_eq!(Quiet::rule(true, true), Rates::Measured);
        assert_eq!(Quiet::rule(false, true), Rates::Forced);
        assert_eq!(Quiet::rule(false, false), Rates::NotMeasured);
    }

    #[test]
    fn workers_and_limit_follow_the_quota() {
        let cpus = |quota| Cpus { allowed: 4, list: "0-3".into(), quota, shape: Value::Null };
        let both = |quota| (cpus(quota).workers(), Quiet::limit(&cpus(quota)));
        assert_eq!(both(None), (4, 1.6));
        assert_eq!(both(Some(1.5)), (2, QUIET * 1.5));
        assert_eq!(both(Some(0.2)), (1, QUIET * 0.2));
        assert_eq!(both(Some(64.0)), (4, 1.6));
    }

    /// The mask of the thread counts, not the number of CPUs.
    #[test]
    fn the_mask_is_seen() {
        let all = Cpus::read();
        let one = std::thread::spawn(|| {
            let host = numa::Topology::discover();
            let first = host.allowed().iter().next().expect("some CPU is allowed");
            numa::bind_current_thread(&[first].into_iter().collect()).expect("an allowed CPU");
            Cpus::read()
        });
        let one = one.join().expect("the thread ends");
        assert_eq!((one.allowed, one.workers()), (1, 1));
        assert!(Quiet::limit(&one) <= Quiet::limit(&all));
        assert!(all.shape["cpus"].as_u64().unwrap() >= all.allowed as u64);
    }

    #[test]
    fn dates() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(utc(951_868_800), "2000-03-01T00:00:00Z");
        assert_eq!(utc(1_798_761_599), "2026-12-31T23:59:59Z");
    }
}
