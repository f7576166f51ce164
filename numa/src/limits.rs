//! What a process may use, looked at again: quotas, cpusets and switched off CPUs change while a process runs.

use crate::cpuset::CpuSet;
use crate::facts::Note;
use crate::ids::NodeId;
use crate::sysfs;
use crate::topology::Topology;

/// What may be used of a host at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// CPUs that are on. Empty when the host does not tell.
    pub online: CpuSet,
    /// Online CPUs within the cpusets and the mask of the process's main thread.
    pub allowed: CpuSet,
    /// CPU time per wall time in thousandths of a CPU, the least of all control groups; `None`: no limit.
    pub quota_millicpus: Option<u64>,
    /// Nodes to allocate on, when the host says.
    pub mems_allowed: Option<Vec<NodeId>>,
}

impl Limits {
    /// What is different from `before`, for people. Empty when nothing is.
    ///
    /// ```
    /// # if let Some(before) = numa::Topology::discover().limits_now() {
    /// let mut now = before.clone();
    /// now.quota_millicpus = Some(1_500);
    /// let said = now.changes_since(&before)[0].to_string();
    /// assert!(said.starts_with("quota: was ") && said.ends_with(", is 1500 thousandths of a CPU"));
    /// # }
    /// ```
    #[must_use]
    pub fn changes_since(&self, before: &Limits) -> Vec<Note> {
        let quota = |limits: &Limits| match limits.quota_millicpus {
            Some(milli) => format!("{milli} thousandths of a CPU"),
            None => "unlimited".to_owned(),
        };
        let mems = |limits: &Limits| match &limits.mems_allowed {
            Some(nodes) => nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
            None => "not said".to_owned(),
        };
        let parts = [
            ("online", before.online.to_string(), self.online.to_string()),
            ("allowed", before.allowed.to_string(), self.allowed.to_string()),
            ("quota", quota(before), quota(self)),
            ("memory", mems(before), mems(self)),
        ];
        let different = parts.into_iter().filter(|(_, was, is)| was != is);
        different.map(|(about, was, is)| Note::new(about, format!("was {was}, is {is}"))).collect()
    }
}

impl Topology {
    /// Reads again what may be used, below the root this topology was read from. `None`: it was not read from files.
    ///
    /// Costs some dozen small files, so it is for once in a while, not for every task. The topology itself stays as
    /// it was; to place workers anew, discover anew.
    ///
    /// ```
    /// let host = numa::Topology::discover();
    /// let before = host.limits_now();
    /// // ... a second later, from some thread:
    /// if let (Some(before), Some(now)) = (before, host.limits_now()) {
    ///     for change in now.changes_since(&before) {
    ///         eprintln!("{change}");
    ///     }
    /// }
    /// assert!(numa::Topology::uniform(2).limits_now().is_none());
    /// ```
    #[must_use]
    pub fn limits_now(&self) -> Option<Limits> {
        self.root().map(sysfs::limits)
    }
}
