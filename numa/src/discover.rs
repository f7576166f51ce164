//! The ways to a topology, one per source.

use crate::assemble::assemble;
use crate::facts::TopologySource;
use crate::spec::{Spec, SpecError};
use crate::sysfs::{DiscoverError, Sysfs};
use crate::topology::Topology;
use crate::uniform::Uniform;
use std::path::Path;

impl Topology {
    /// Looks at this host. Never fails: without `/sys` it is one uniform node over the CPUs this thread may use, and
    /// [`Topology::notes`] says so.
    ///
    /// Call it before any thread pins itself: [`Topology::allowed`] is the calling thread's mask at this moment.
    ///
    /// ```
    /// let host = numa::Topology::discover();
    /// assert!(host.default_workers() >= 1);
    /// assert!(host.is_live());
    /// ```
    #[must_use]
    pub fn discover() -> Topology {
        or_uniform(Topology::from_root(Path::new("/")))
    }

    /// Reads the `/sys` and `/proc` below `root`. With `/` it is this host; with anything else, masks and quotas
    /// are what that tree says and nothing about this process.
    ///
    /// ```
    /// let error = numa::Topology::from_root("/no/such/place".as_ref()).unwrap_err();
    /// assert!(error.to_string().contains("/no/such/place"));
    /// ```
    ///
    /// # Errors
    /// When `root` is not a readable directory, or nothing below it names a CPU.
    pub fn from_root(root: &Path) -> Result<Topology, DiscoverError> {
        Sysfs::new(root).facts().map(assemble)
    }

    /// A made-up host. The grammar is described in [`spec`](crate::spec).
    ///
    /// ```
    /// let host = numa::Topology::from_spec("node cores=4; node id=8 cores=0 mem=64g").unwrap();
    /// assert_eq!(host.nodes()[1].id.get(), 8);
    /// let error = numa::Topology::from_spec("node cores=x").unwrap_err();
    /// assert_eq!(error.position(), 11);
    /// ```
    ///
    /// # Errors
    /// Text that does not follow the grammar; the error points at the place and says what was expected.
    pub fn from_spec(text: &str) -> Result<Topology, SpecError> {
        Spec::new(text).facts().map(assemble)
    }

    /// What libhwloc makes of this host, or of what its variables (`HWLOC_FSROOT` and so on) name: a second opinion,
    /// for comparison. Takes tens of milliseconds. Knows nothing of quotas and isolated CPUs. Moves no thread but one
    /// of its own.
    ///
    /// ```
    /// let ours = numa::Topology::discover();
    /// match numa::Topology::from_hwloc() {
    ///     Ok(theirs) => assert_eq!(theirs.online(), ours.online()),
    ///     Err(error) => println!("no second opinion: {error}"),
    /// }
    /// ```
    ///
    /// # Errors
    /// A library that is not 2.x, that cannot load, or that could not read what a variable names.
    #[cfg(feature = "hwloc")]
    pub fn from_hwloc() -> Result<Topology, crate::HwlocError> {
        crate::hwloc::Hwloc.facts().map(assemble)
    }

    /// One node with `cpus` single-threaded cores and one cache; at least one CPU, at most
    /// [`CpuId::LIMIT`](crate::CpuId::LIMIT).
    ///
    /// ```
    /// assert_eq!(numa::Topology::uniform(6).cores().len(), 6);
    /// ```
    #[must_use]
    pub fn uniform(cpus: usize) -> Topology {
        assemble(Uniform::new(cpus).into_facts())
    }
}

/// The last resort: whatever the calling thread may run on, as one node.
fn or_uniform(host: Result<Topology, DiscoverError>) -> Topology {
    host.unwrap_or_else(|error| assemble(Uniform::of_this_process(&error).into_facts()))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::facts::Source;

    #[test]
    fn without_sys_this_host_is_one_node_and_says_why() {
        let host = or_uniform(Err(DiscoverError::NoCpu { root: "/".into() }));
        assert_eq!((host.source(), host.is_live(), host.nodes().len()), (Source::Uniform, true, 1));
        assert_eq!(
            host.notes()[0].to_string(),
            "source: /sys/devices/system/cpu names no CPU; one uniform node is assumed"
        );
        let mask = crate::current_affinity().unwrap_or_default();
        assert_eq!((host.online(), host.allowed(), host.default_workers()), (&mask, &mask, mask.len()));
    }
}
