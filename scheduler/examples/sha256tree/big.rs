//! Big files: chunks are read ahead by tasks of their own while the digest advances in order.
//!
//! ```text
//! read task i        R1 read chunk i      R2 put it into slot i mod WINDOW      R3 advance
//! advance            A1 take the digest (it is away: somebody advances, and will look at our slot before it stops)
//!                    A2 take the next chunk, hash it      A3 submit the next read
//!                    A4 next chunk, or put the digest back
//! ```
//! The digest leaves its place only under the lock, so one task at a time advances, and chunks are hashed in order. A
//! slot is free again when its chunk is hashed (A2), and only then is the read submitted that will fill it (A3): never
//! more than `WINDOW` chunks of one file are in memory. At most [`Admission`] files are in flight.

use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

use crate::job::{Hashed, Job, Outcome, Problem};
use crate::read::{self, Links};

/// Hashing 256 KiB takes 0.15 to 1 ms: long against a task, and two of them fit a second-level cache.
const CHUNK: usize = 256 << 10;
/// Below four chunks reading ahead has nothing to overlap with.
pub(crate) const THRESHOLD: u64 = 4 * CHUNK as u64;
/// Chunks of one file in memory or being read: 2 MiB, twice what disks want to see queued.
const WINDOW: u64 = 8;

/// How many big files are in flight, and which wait. The memory for chunks is `limit * WINDOW * CHUNK` at most.
pub(crate) struct Admission {
    limit: usize,
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    active: usize,
    waiting: VecDeque<(PathBuf, Links)>,
}

impl Admission {
    pub(crate) fn new(limit: usize) -> Self {
        Admission { limit, line: Mutex::default() }
    }

    /// Gives the file back if it may start now, else remembers it until another one is done.
    fn enter(&self, file: (PathBuf, Links)) -> Option<(PathBuf, Links)> {
        let mut line = lock(&self.line);
        if line.active < self.limit {
            line.active += 1;
            return Some(file);
        }
        line.waiting.push_back(file);
        None
    }

    /// A file is done: its place goes to the one returned.
    fn leave(&self) -> Option<(PathBuf, Links)> {
        let mut line = lock(&self.line);
        let next = line.waiting.pop_front();
        if next.is_none() {
            line.active -= 1;
        }
        next
    }
}

/// Hashes `path` as soon as fewer than the limit of big files are in flight.
pub(crate) fn admit(job: &Arc<Job>, path: PathBuf, links: Links) {
    if let Some((path, links)) = job.admission.enter((path, links)) {
        job.submit(move |job| start(job, path, links));
    }
}

/// One file in flight.
struct Big {
    job: Arc<Job>,
    path: PathBuf,
    file: File,
    before: Metadata,
    state: Mutex<State>,
}

struct State {
    /// Away while a task advances, and for good when the file is done.
    digest: Option<Sha256>,
    slots: [Option<io::Result<Chunk>>; WINDOW as usize],
    spare: Vec<Vec<u8>>,
    next_digest: u64,
    next_read: u64,
}

struct Chunk {
    buffer: Vec<u8>,
    len: usize,
}

fn start(job: Arc<Job>, path: PathBuf, links: Links) {
    match read::open(&path, links) {
        Ok((file, before)) => {
            let state = State {
                digest: Some(Sha256::new()),
                slots: Default::default(),
                spare: Vec::new(),
                next_digest: 0,
                next_read: 0,
            };
            let big = Arc::new(Big { job, path, file, before, state: Mutex::new(state) });
            let reads = big.reads_wanted(&mut lock(&big.state));
            big.submit_reads(reads);
        }
        Err(problem) => finish(&job, Outcome::Failed(path, problem)),
    }
}

/// Reports the file and starts the next that waits.
fn finish(job: &Arc<Job>, outcome: Outcome) {
    job.report(vec![outcome]);
    if let Some((path, links)) = job.admission.leave() {
        job.submit(move |job| start(job, path, links));
    }
}

impl Big {
    /// The reads that are due: up to the window, not beyond the end the file had when it was opened, but always the one
    /// that the digest waits for (the file may have grown).
    fn reads_wanted(&self, state: &mut State) -> std::ops::Range<u64> {
        let last = (self.before.len() / CHUNK as u64).max(state.next_digest);
        let end = (last + 1).min(state.next_digest + WINDOW);
        let begin = state.next_read;
        state.next_read = end.max(begin);
        begin..state.next_read
    }

    fn submit_reads(self: &Arc<Self>, reads: std::ops::Range<u64>) {
        for index in reads {
            let big = Arc::clone(self);
            self.job.submit(move |_| big.read(index));
        }
    }

    fn read(self: &Arc<Self>, index: u64) {
        let spare = lock(&self.state).spare.pop();
        let mut buffer = spare.unwrap_or_else(|| vec![0; CHUNK]);
        let chunk = read::fill(&self.file, &mut buffer, index * CHUNK as u64).map(|len| Chunk { buffer, len });
        if let Ok(chunk) = &chunk {
            self.job.seen.bytes_read.fetch_add(chunk.len as u64, Relaxed);
        }
        lock(&self.state).slots[(index % WINDOW) as usize] = Some(chunk);
        self.advance();
    }

    /// Hashes every chunk that is there, in order, unless another task is at it.
    fn advance(self: &Arc<Self>) {
        while let Some((mut digest, chunk)) = self.take_next() {
            let chunk = match chunk {
                Ok(chunk) => chunk,
                Err(error) => return self.fail(error.into()),
            };
            digest.update(&chunk.buffer[..chunk.len]);
            if chunk.len < CHUNK {
                return self.complete(digest, chunk.len);
            }
            let mut state = lock(&self.state);
            state.next_digest += 1;
            state.spare.push(chunk.buffer);
            state.digest = Some(digest);
            let reads = self.reads_wanted(&mut state);
            drop(state);
            self.submit_reads(reads);
        }
    }

    fn take_next(&self) -> Option<(Sha256, io::Result<Chunk>)> {
        let mut state = lock(&self.state);
        let digest = state.digest.take()?;
        let slot = (state.next_digest % WINDOW) as usize;
        match state.slots[slot].take() {
            Some(chunk) => Some((digest, chunk)),
            None => {
                state.digest = Some(digest);
                None
            }
        }
    }

    /// The caller has taken the digest and does not put it back: chunks that still arrive are ignored.
    fn complete(&self, digest: Sha256, last_len: usize) {
        let bytes = lock(&self.state).next_digest * CHUNK as u64 + last_len as u64;
        let outcome = match read::unchanged(&self.file, &self.before) {
            Ok(()) => Outcome::Hashed(Hashed { path: self.path.clone(), digest: digest.finalize().into(), bytes }),
            Err(problem) => Outcome::Failed(self.path.clone(), problem),
        };
        finish(&self.job, outcome);
    }

    fn fail(&self, problem: Problem) {
        finish(&self.job, Outcome::Failed(self.path.clone(), problem));
    }
}

/// No code that may panic runs under these locks, and a file whose task panicked is missed at the end of the run.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
