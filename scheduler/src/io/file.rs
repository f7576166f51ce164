//! Files.

use super::buf::{Buf, BufMut};
use super::cursor::Cursor;
use super::metadata::Metadata;
use super::op::Op;
use super::request::{Open, ReadAt, SetLen, Stat, Sync, WriteAt};
use crate::sys::file::blank_statx;
use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// An open file, read and written at offsets: there is no position, so any number of tasks may use one file at once.
/// For a position, and the `futures_io` traits, see [`File::cursor`].
///
/// What is in memory is read at once, on the calling thread; what is not, and everything else, by the ring of a worker
/// or a thread that may block.
///
/// Buffers are passed by value and come back with the result. A future that is dropped before it is ready leaves its
/// operation to the system: a write may still happen.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = std::env::temp_dir().join(format!("scheduler-doc-{}", std::process::id()));
/// use scheduler::io::File;
/// scheduler::block_on(async {
///     let file = File::options().read(true).write(true).create(true).open(&path).await?;
///     file.write_all_at("hello, file", 0).await.0?;
///     file.sync_all().await?;
///     let (count, buf) = file.read_at(Vec::with_capacity(100), 7).await;
///     assert_eq!((count?, buf.as_slice()), (4, &b"file"[..]));
///     assert_eq!(file.len().await?, 11);
/// #   std::fs::remove_file(&path)?;
///     Ok::<_, std::io::Error>(())
/// })?;
/// # Ok(())
/// # }
/// ```
pub struct File {
    fd: Arc<OwnedFd>,
}

impl File {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// `InvalidInput` for a path with a NUL, `NotFound`, `PermissionDenied`, and what else the system says.
    pub async fn open(path: impl AsRef<Path>) -> io::Result<File> {
        File::options().read(true).open(path).await
    }

    /// Opens a file for writing: made if it is not there, emptied if it is.
    ///
    /// # Errors
    /// As for [`File::open`].
    pub async fn create(path: impl AsRef<Path>) -> io::Result<File> {
        File::options().write(true).create(true).truncate(true).open(path).await
    }

    /// How else to open a file.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Reads at `offset` into the room of `buf`, which comes back with the result. May read less than there is; zero:
    /// the end of the file, or no room.
    ///
    /// # Errors
    /// `InvalidInput` for an offset beyond `i64::MAX`, and what the system says.
    pub async fn read_at<B: BufMut>(&self, buf: B, offset: u64) -> (io::Result<usize>, B) {
        match signed(offset) {
            Ok(offset) => Op::new(ReadAt::new(self.fd.clone(), buf, offset)).await,
            Err(error) => (Err(error), buf),
        }
    }

    /// Writes `buf` at `offset`. May write less.
    ///
    /// # Errors
    /// `InvalidInput` for an offset beyond `i64::MAX`, `StorageFull`, and what else the system says.
    pub async fn write_at<B: Buf>(&self, buf: B, offset: u64) -> (io::Result<usize>, B) {
        self.write_part(buf, 0, offset).await
    }

    async fn write_part<B: Buf>(&self, buf: B, done: usize, offset: u64) -> (io::Result<usize>, B) {
        match signed(offset) {
            Ok(offset) => Op::new(WriteAt::new(self.fd.clone(), buf, done, offset)).await,
            Err(error) => (Err(error), buf),
        }
    }

    /// Writes all of `buf` at `offset`.
    ///
    /// # Errors
    /// As for [`File::write_at`], perhaps after some has been written.
    pub async fn write_all_at<B: Buf>(&self, mut buf: B, offset: u64) -> (io::Result<()>, B) {
        let mut done = 0;
        while done < buf.bytes().len() {
            let (written, back) = self.write_part(buf, done, offset.saturating_add(done as u64)).await;
            buf = back;
            match written {
                Ok(0) => return (Err(io::ErrorKind::WriteZero.into()), buf),
                Ok(bytes) => done += bytes,
                Err(error) => return (Err(error), buf),
            }
        }
        (Ok(()), buf)
    }

    /// Everything that was written is on the disk, and what is known of the file, too (`fsync`).
    ///
    /// # Errors
    /// What the system says; what was written before may be lost then.
    pub async fn sync_all(&self) -> io::Result<()> {
        Op::new(Sync { fd: self.fd.clone(), data_only: false }).await
    }

    /// Everything that was written is on the disk (`fdatasync`).
    ///
    /// # Errors
    /// As for [`File::sync_all`].
    pub async fn sync_data(&self) -> io::Result<()> {
        Op::new(Sync { fd: self.fd.clone(), data_only: true }).await
    }

    /// What is known of the file; on a network file system, what this host knows.
    ///
    /// # Errors
    /// What the system says.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        stat(Some(self.fd.clone()), CString::default(), libc::AT_EMPTY_PATH).await
    }

    /// Size in bytes.
    ///
    /// # Errors
    /// As for [`File::metadata`].
    pub async fn len(&self) -> io::Result<u64> {
        Ok(self.metadata().await?.len())
    }

    /// Cuts the file off there, or fills it up with zeros.
    ///
    /// # Errors
    /// `InvalidInput` for a length beyond `i64::MAX`, and what the system says.
    pub async fn set_len(&self, len: u64) -> io::Result<()> {
        Op::new(SetLen { fd: self.fd.clone(), len: signed(len)? }).await
    }

    /// The file with a position, at `offset` first, for the `futures_io` traits.
    pub fn cursor(self, offset: u64) -> Cursor {
        Cursor::new(self, offset)
    }

    /// The descriptor, for an operation to own.
    pub(super) fn fd(&self) -> Arc<OwnedFd> {
        self.fd.clone()
    }

    /// Another handle of the same open file.
    pub(super) fn share(&self) -> File {
        File { fd: self.fd.clone() }
    }
}

impl From<std::fs::File> for File {
    fn from(file: std::fs::File) -> Self {
        File { fd: Arc::new(file.into()) }
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("File").field(&self.fd).finish()
    }
}

/// What is known of whatever is at `path`, symbolic links followed.
///
/// # Errors
/// As for [`File::open`].
pub async fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    stat(None, c_path(path.as_ref())?, 0).await
}

/// What is known of whatever is at `path`, a symbolic link perhaps.
///
/// # Errors
/// As for [`File::open`].
pub async fn symlink_metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    stat(None, c_path(path.as_ref())?, libc::AT_SYMLINK_NOFOLLOW).await
}

async fn stat(fd: Option<Arc<OwnedFd>>, path: CString, flags: i32) -> io::Result<Metadata> {
    Op::new(Stat { fd, path, flags, answer: Box::new(blank_statx()) }).await.map(Metadata)
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a path with a NUL"))
}

fn signed(offset: u64) -> io::Result<i64> {
    i64::try_from(offset)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "beyond what a file can have (i64::MAX)"))
}

/// How to open a file; like the options of the standard library.
#[derive(Clone, Debug)]
#[must_use = "nothing is opened before `open`"]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    mode: u32,
    flags: i32,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenOptions {
    /// Neither for reading nor for writing.
    pub fn new() -> Self {
        OpenOptions {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            mode: 0o666,
            flags: 0,
        }
    }

    /// For reading.
    pub fn read(mut self, read: bool) -> Self {
        self.read = read;
        self
    }

    /// For writing.
    pub fn write(mut self, write: bool) -> Self {
        self.write = write;
        self
    }

    /// For writing at the end, whatever the offset.
    pub fn append(mut self, append: bool) -> Self {
        self.append = append;
        self
    }

    /// Emptied, if it is there.
    pub fn truncate(mut self, truncate: bool) -> Self {
        self.truncate = truncate;
        self
    }

    /// Made, if it is not there.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Made; it must not be there.
    pub fn create_new(mut self, create_new: bool) -> Self {
        self.create_new = create_new;
        self
    }

    /// Permissions of a file that is made, less the process's mask; 0o666 by default.
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// Further flags of `open(2)`.
    pub fn custom_flags(mut self, flags: i32) -> Self {
        self.flags = flags;
        self
    }

    fn flags(&self) -> io::Result<i32> {
        let access = match (self.read, self.write, self.append) {
            (true, false, false) => libc::O_RDONLY,
            (false, true, false) => libc::O_WRONLY,
            (true, true, false) => libc::O_RDWR,
            (false, _, true) => libc::O_WRONLY | libc::O_APPEND,
            (true, _, true) => libc::O_RDWR | libc::O_APPEND,
            (false, false, false) => return Err(io::Error::from_raw_os_error(libc::EINVAL)),
        };
        let makes = self.create || self.create_new || self.truncate;
        if makes && !self.write && !self.append || self.truncate && self.append && !self.create_new {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let making = match (self.create, self.truncate, self.create_new) {
            (_, _, true) => libc::O_CREAT | libc::O_EXCL,
            (true, truncate, false) => libc::O_CREAT | if truncate { libc::O_TRUNC } else { 0 },
            (false, truncate, false) => i32::from(truncate) * libc::O_TRUNC,
        };
        Ok(access | making | libc::O_CLOEXEC | self.flags & !libc::O_ACCMODE)
    }

    /// Opens a file. Dropped before it is ready, it leaves nothing open, but the file may have been made or emptied.
    ///
    /// # Errors
    /// `InvalidInput` for options that contradict each other and for a path with a NUL, `NotFound`, `AlreadyExists`,
    /// `PermissionDenied`, and what else the system says.
    pub async fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let open = Open { path: c_path(path.as_ref())?, flags: self.flags()?, mode: self.mode };
        Ok(File { fd: Arc::new(Op::new(open).await?) })
    }
}
