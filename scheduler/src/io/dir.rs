//! Directories, and names of hosts: the library's calls, on threads that may block.

use super::blocking::blocking;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
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
    Ok(ReadDir { entries: Some(entries), read: VecDeque::new() })
}

/// The entries of a directory, in no order, without `.` and `..`.
pub struct ReadDir {
    /// What has not been read yet.
    entries: Option<std::fs::ReadDir>,
    read: VecDeque<io::Result<DirEntry>>,
}

impl ReadDir {
    /// The next entry. Dropped before it is ready, it may have lost some: the directory is read no further then.
    ///
    /// # Errors
    /// What the system says; the next call goes on behind that entry.
    pub async fn next(&mut self) -> io::Result<Option<DirEntry>> {
        if self.read.is_empty()
            && let Some(mut entries) = self.entries.take()
        {
            let batch = move || {
                let batch: VecDeque<_> = entries.by_ref().take(BATCH).map(|entry| entry.map(DirEntry::new)).collect();
                (batch, entries)
            };
            let (batch, entries) = blocking(batch).await.map_err(|refused| refused.reason)?;
            self.entries = (batch.len() == BATCH).then_some(entries);
            self.read = batch;
        }
        self.read.pop_front().transpose()
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
