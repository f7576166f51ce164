//! Listing directories: each one is a task of its own, which submits a task per subdirectory and per batch of files.

use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::big;
use crate::job::{Hashed, Job, Outcome};
use crate::read::{self, Links};

/// A batch closes at this many files or bytes: opening and closing a small file costs about 10 us, so a full batch is
/// some 0.5 ms of work, long against the cost of a task and short against the run.
const BATCH_FILES: usize = 64;
const BATCH_BYTES: u64 = 1 << 20;

/// Files waiting to be hashed by one task.
#[derive(Default)]
struct Batch {
    files: Vec<PathBuf>,
    bytes: u64,
}

/// Starts with `root`: a directory to walk or a single file. This one path may be a symlink.
pub(crate) fn root(job: &Arc<Job>, root: PathBuf, metadata: &Metadata) {
    if metadata.is_dir() {
        return job.submit(move |job| directory(&job, &root));
    }
    job.found(metadata.len());
    if metadata.len() >= big::THRESHOLD {
        return big::admit(job, root, Links::Follow);
    }
    job.submit(move |job| {
        let outcome = small(&job, root, Links::Follow);
        job.report(vec![outcome]);
    });
}

/// Lists one directory. What it cannot list is reported, what it lists is counted and submitted.
fn directory(job: &Arc<Job>, path: &Path) {
    let mut batch = Batch::default();
    let listed = fs::read_dir(path).and_then(|entries| {
        for entry in entries {
            visit(job, &entry?, &mut batch);
        }
        Ok(())
    });
    if let Err(error) = listed {
        job.report(vec![Outcome::Unlisted(path.to_owned(), error.into())]);
    }
    batch.submit(job);
}

fn visit(job: &Arc<Job>, entry: &DirEntry, batch: &mut Batch) {
    let path = entry.path();
    match kind(entry) {
        Ok(Kind::Directory) => job.submit(move |job| directory(&job, &path)),
        Ok(Kind::File(size)) => {
            job.found(size);
            if size >= big::THRESHOLD {
                big::admit(job, path, Links::Refuse);
            } else {
                batch.add(job, path, size);
            }
        }
        Ok(Kind::Other) => {}
        Err(error) => {
            job.found(0);
            job.report(vec![Outcome::Failed(path, error.into())]);
        }
    }
}

enum Kind {
    Directory,
    File(u64),
    /// Symlinks, sockets, fifos, devices: not followed, not opened.
    Other,
}

fn kind(entry: &DirEntry) -> io::Result<Kind> {
    let kind = entry.file_type()?;
    if kind.is_dir() {
        Ok(Kind::Directory)
    } else if kind.is_file() {
        Ok(Kind::File(entry.metadata()?.len()))
    } else {
        Ok(Kind::Other)
    }
}

impl Batch {
    fn add(&mut self, job: &Arc<Job>, path: PathBuf, size: u64) {
        self.files.push(path);
        self.bytes += size;
        if self.files.len() >= BATCH_FILES || self.bytes >= BATCH_BYTES {
            std::mem::take(self).submit(job);
        }
    }

    fn submit(self, job: &Arc<Job>) {
        if self.files.is_empty() {
            return;
        }
        let files = self.files;
        job.submit(move |job| {
            let outcomes = files.into_iter().map(|path| small(&job, path, Links::Refuse)).collect();
            job.report(outcomes);
        });
    }
}

/// Hashes one file from start to end in the calling task.
fn small(job: &Job, path: PathBuf, links: Links) -> Outcome {
    let hashed = read::open(&path, links).and_then(|(file, before)| read::hash(file, &before, &job.seen.bytes_read));
    match hashed {
        Ok((digest, bytes)) => Outcome::Hashed(Hashed { path, digest, bytes }),
        Err(problem) => Outcome::Failed(path, problem),
    }
}
