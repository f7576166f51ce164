//! Submissions to a place: lanes that are for somebody in particular.
#![expect(unsafe_code, reason = "the producer's side of lanes")]

use super::{HELD, Held, Lease, OnFull, acquire_for, on_lane, purge, refuses, submit};
use crate::error::SubmitError;
use crate::lanes::{Aim, Entry};
use crate::policy::Place;
use crate::sync::Arc;
use crate::task::raw::Job;
use crate::worker::{Shared, current};

/// The lanes that lead to `place`: shard and aim, or nothing special. `None`: there is no such place.
pub(super) fn target(shared: &Shared, place: Place) -> Option<Option<(usize, Aim)>> {
    Some(match place {
        Place::Any => None,
        Place::Worker(worker) => Some((shared.layout.spots.get(worker)?.shard, Aim::Worker(worker))),
        Place::Node(node) => {
            let shard = shared.layout.shard_on(node)?;
            shared.layout.is_apart().then_some((shard, Aim::Node))
        }
    })
}

/// The calling thread is a worker of `shared`, and is where the lane leads to.
fn is_there(shared: &Shared, shard: usize, aim: Aim) -> bool {
    let Some(context) = current().filter(|context| context.shared.id == shared.id) else { return false };
    match aim {
        Aim::Worker(worker) => context.index == worker,
        _ => shared.layout.spots[context.index].node == shared.layout.shards[shard].node,
    }
}

/// Queues `job` for `place`.
///
/// # Safety
/// As for [`submit`].
pub(crate) unsafe fn submit_on<J: Job>(
    shared: &Arc<Shared>,
    place: Place,
    job: J,
    full: OnFull,
) -> Result<(), SubmitError<J>> {
    let (shard, aim) = match target(shared, place) {
        None => return Err(SubmitError::NoSuchPlace(job, place)),
        Some(Some((shard, aim))) if !is_there(shared, shard, aim) => (shard, aim),
        // SAFETY: the caller's promise.
        Some(_) => return unsafe { submit(shared, job, full) },
    };
    // Before any lock: in the child of a fork it may be held by nobody who lives.
    if refuses(shared) {
        return Err(shared.refusal(job));
    }
    purge();
    let held = HELD.try_with(|held| held.borrow_mut().lane_for(shared, shard, aim));
    let once = held.is_err();
    let lease = Lease { shared, entry: held.unwrap_or_else(|_| acquire_for(shared, shard, aim)), once };
    // SAFETY: this thread's lane; the rest is the caller's promise.
    unsafe { on_lane(shared, lease.entry(), job, full) }
}

impl Held {
    /// This thread's lane for a place.
    fn lane_for(&mut self, shared: &Arc<Shared>, shard: usize, aim: Aim) -> *const Entry {
        let fits = |entry: &Entry| entry.aim == aim && entry.shard() == shard;
        // SAFETY: this thread's lanes, not given up yet.
        let known = self.0.iter().find(|(held, entry)| held.id == shared.id && fits(unsafe { &**entry }));
        if let Some((_, entry)) = known {
            return *entry;
        }
        let entry = acquire_for(shared, shard, aim);
        self.0.push((shared.clone(), entry));
        entry
    }
}
