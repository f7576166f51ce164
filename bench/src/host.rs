//! The machine: what the report says about it, and whether it is quiet enough to take rates.
use crate::arms;
use crate::os::affinity;
use crate::paths;
use serde_json::{Value, json};
use std::fs::read_to_string;
use std::path::Path;
use std::process::Command;
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
}

impl Cpus {
    pub(crate) fn read() -> Cpus {
        let fallback = || (String::from("unknown"), std::thread::available_parallelism().map_or(1, |n| n.get()));
        let (list, allowed) = affinity().unwrap_or_else(fallback);
        let group = read_to_string("/proc/self/cgroup").unwrap_or_default();
        Cpus { allowed, list, quota: quota(Path::new("/sys/fs/cgroup"), &group) }
    }

    pub(crate) fn usable(&self) -> f64 {
        self.quota.unwrap_or(f64::INFINITY).min(self.allowed as f64)
    }

    /// The number of workers unless told otherwise.
    pub(crate) fn workers(&self) -> usize {
        (self.usable().ceil() as usize).max(1)
    }
}

/// The smallest `cpu.max` on the way from this process's group to the root, or the quota of version 1 of the interface.
fn quota(mount: &Path, group: &str) -> Option<f64> {
    let parse = |text: String| {
        let (quota, period) = text.trim().split_once(' ')?;
        Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
    };
    let own = group.lines().find_map(|l| l.strip_prefix("0::/")).unwrap_or("");
    let unified = Path::new(own).ancestors().filter_map(|g| parse(read_to_string(mount.join(g).join("cpu.max")).ok()?));
    let old = |name| read_to_string(mount.join("cpu").join(name)).ok()?.trim().parse::<f64>().ok();
    let version_one = old("cpu.cfs_quota_us").filter(|q| *q > 0.0).zip(old("cpu.cfs_period_us")).map(|(q, p)| q / p);
    unified.chain(version_one).reduce(f64::min)
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
        let limit = QUIET * cpus.usable();
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

    fn rule(quiet: bool, force: bool) -> Rates {
        match (quiet, force) {
            (true, _) => Rates::Measured,
            (false, true) => Rates::Forced,
            (false, false) => Rates::NotMeasured,
        }
    }

    pub(crate) fn json(&self) -> Value {
        json!({ "load1": self.load1, "limit": self.limit, "rates": self.rates.name() })
    }
}

fn said(program: &str, args: &[&str]) -> Option<String> {
    let out = Command::new(program).args(args).current_dir(paths::root()).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// The host block of the report; the load afterwards is added by the caller.
pub(crate) fn describe(cpus: &Cpus, workers: usize) -> Value {
    let cpuinfo = read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|l| Some(l.strip_prefix("model name")?.split_once(':')?.1.trim()));
    let nodes = read_to_string("/sys/devices/system/node/online").ok().map(|s| s.trim().to_owned());
    let dirty = said("git", &["status", "--porcelain"]).map(|s| !s.is_empty());
    json!({
        "commit": said("git", &["rev-parse", "HEAD"]),
        "dirty": dirty,
        "rustc": said("rustc", &["-V"]),
        "profile": if cfg!(debug_assertions) { "debug" } else { "release" },
        "kernel": read_to_string("/proc/sys/kernel/osrelease").ok().map(|s| s.trim().to_owned()),
        "cpu": model,
        "cpus_online": read_to_string("/sys/devices/system/cpu/online").ok().map(|s| s.trim().to_owned()),
        "nodes_online": nodes,
        "affinity": cpus.list,
        "quota": cpus.quota,
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
    fn workers_follow_the_quota() {
        let cpus = |quota| Cpus { allowed: 4, list: "0-3".into(), quota };
        assert_eq!(cpus(None).workers(), 4);
        assert_eq!(cpus(Some(1.5)).workers(), 2);
        assert_eq!(cpus(Some(0.2)).workers(), 1);
        assert_eq!(cpus(Some(64.0)).workers(), 4);
    }

    #[test]
    fn the_quota_is_the_least_on_the_way_up() {
        let mount = std::env::temp_dir().join(format!("bench-quota-{}", std::process::id()));
        std::fs::create_dir_all(mount.join("a/b")).unwrap();
        assert_eq!(quota(&mount, "0::/a/b\n"), None);
        std::fs::write(mount.join("a/b/cpu.max"), "max 100000\n").unwrap();
        assert_eq!(quota(&mount, "0::/a/b\n"), None);
        std::fs::write(mount.join("a/cpu.max"), "150000 100000\n").unwrap();
        assert_eq!(quota(&mount, "0::/a/b\n"), Some(1.5));
        std::fs::write(mount.join("a/b/cpu.max"), "50000 100000\n").unwrap();
        assert_eq!(quota(&mount, "0::/a/b\n"), Some(0.5));
        assert_eq!(quota(&mount, "0::/\n"), None);
        std::fs::remove_dir_all(&mount).unwrap();
    }
}
