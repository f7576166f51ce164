//! Directories, and names of hosts: the library's calls, on threads that may block.

use super::blocking::blocking;
use super::fallback::pool;
use super::node::{Operation, Right};
use super::op::Op;
use crate::sys::result;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::mem::replace;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

/// Entries that are read at once.
const BATCH: usize = 128;

/// Reads a directory.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let names = scheduler::block_on(async {
///     let mut names = Vec::new();
///     let mut entries = scheduler::io::read_dir("/proc/self").await?;
///     while let Some(entry) = entries.next().await? {
///         names.push(entry.file_name().to_owned());
///     }
///     Ok::<_, std::io::Error>(names)
/// })?;
/// assert!(names.iter().any(|name| name == "status"));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `InvalidInput` for a path with a NUL, `NotFound`, `NotADirectory`, `PermissionDenied`, and what else the
/// system says.
pub async fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let path = path.as_ref().to_owned();
    let entries = blocking(move || std::fs::read_dir(path)).await.map_err(|refused| refused.reason)??;
    Ok(ReadDir { source: Source::There(entries), read: VecDeque::new() })
}

/// The entries of a directory, in no order, without `.` and `..`.
pub struct ReadDir {
    /// What has not been read yet.
    source: Source,
    read: VecDeque<io::Result<DirEntry>>,
}

enum Source {
    There(std::fs::ReadDir),
    Reading(Op<Batch>),
    Over,
}

impl ReadDir {
    /// The next entry. Dropped before it is ready, it has taken none.
    ///
    /// # Errors
    /// What the system says; the next call goes on behind that entry. Without a thread that may block: why there is
    /// none, and the next call asks for one again.
    pub async fn next(&mut self) -> io::Result<Option<DirEntry>> {
        loop {
            if let Some(entry) = self.read.pop_front() {
                return entry.map(Some);
            }
            self.source = match replace(&mut self.source, Source::Over) {
                Source::Over => return Ok(None),
                Source::There(entries) => Source::Reading(Op::new(Batch { entries, read: VecDeque::new() })),
                reading => reading,
            };
            if let Source::Reading(op) = &mut self.source {
                let (done, Batch { entries, read }) = op.await;
                let whole = read.len() == BATCH || done.is_err();
                self.source = if whole { Source::There(entries) } else { Source::Over };
                self.read = read;
                done?;
            }
        }
    }
}

/// Reads some entries. Comes back as it was if there is no thread for it.
struct Batch {
    entries: std::fs::ReadDir,
    read: VecDeque<io::Result<DirEntry>>,
}

impl Operation for Batch {
    type Output = (io::Result<i32>, Batch);

    fn run(&mut self) -> i32 {
        self.read = self.entries.by_ref().take(BATCH).map(|entry| entry.map(DirEntry::new)).collect();
        0
    }
    fn output(self, done: i32) -> Self::Output {
        (result(done).map(|_| done), self)
    }
    fn send(right: Right) {
        pool::send(right);
    }
}

impl fmt::Debug for ReadDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadDir").field("read", &self.read.len()).finish_non_exhaustive()
    }
}

/// What a directory says of one of its entries.
#[derive(Debug)]
pub struct DirEntry {
    name: OsString,
    path: PathBuf,
    kind: io::Result<std::fs::FileType>,
}

impl DirEntry {
    fn new(entry: std::fs::DirEntry) -> Self {
        DirEntry { name: entry.file_name(), path: entry.path(), kind: entry.file_type() }
    }

    /// Its name.
    pub fn file_name(&self) -> &OsStr {
        &self.name
    }

    /// The path of the directory, and its name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file, a directory, a symbolic link or something else.
    ///
    /// # Errors
    /// Where the directory does not say, and the entry could not be asked.
    pub fn file_type(&self) -> io::Result<std::fs::FileType> {
        match &self.kind {
            Ok(kind) => Ok(*kind),
            Err(error) => Err(error.raw_os_error().map_or(error.kind().into(), io::Error::from_raw_os_error)),
        }
    }
}

/// The addresses of a host: `("example.org", 80)` or `"example.org:80"`, asked of the system's resolver.
///
/// # Errors
/// `InvalidInput` for what is no address, and what the resolver says.
pub async fn resolve(host: impl ToSocketAddrs + Send + 'static) -> io::Result<Vec<SocketAddr>> {
    let ask = move || host.to_socket_addrs().map(Iterator::collect);
    blocking(ask).await.map_err(|refused| refused.reason)?
}
