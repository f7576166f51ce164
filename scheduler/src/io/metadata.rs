//! What is known of a file.

use std::fmt;
use std::time::{Duration, SystemTime};

/// What is known of a file: size, kind, permissions, times.
#[derive(Clone)]
pub struct Metadata(pub(super) Box<libc::statx>);

impl Metadata {
    fn kind(&self) -> u32 {
        u32::from(self.0.stx_mode) & libc::S_IFMT
    }

    /// Size in bytes.
    #[expect(clippy::len_without_is_empty, reason = "as in the standard library: it is the size of a file")]
    pub fn len(&self) -> u64 {
        self.0.stx_size
    }

    /// A regular file.
    pub fn is_file(&self) -> bool {
        self.kind() == libc::S_IFREG
    }

    /// A directory.
    pub fn is_dir(&self) -> bool {
        self.kind() == libc::S_IFDIR
    }

    /// A symbolic link; only [`symlink_metadata`](super::symlink_metadata) shows any.
    pub fn is_symlink(&self) -> bool {
        self.kind() == libc::S_IFLNK
    }

    /// Kind and permissions as `stat` has them.
    pub fn mode(&self) -> u32 {
        self.0.stx_mode.into()
    }

    /// Number of the file on its file system.
    pub fn ino(&self) -> u64 {
        self.0.stx_ino
    }

    /// Device of the file system: major and minor number.
    pub fn dev(&self) -> (u32, u32) {
        (self.0.stx_dev_major, self.0.stx_dev_minor)
    }

    /// Number of hard links.
    pub fn nlink(&self) -> u32 {
        self.0.stx_nlink
    }

    /// Owner.
    pub fn uid(&self) -> u32 {
        self.0.stx_uid
    }

    /// Group.
    pub fn gid(&self) -> u32 {
        self.0.stx_gid
    }

    /// When the content was changed last.
    pub fn modified(&self) -> SystemTime {
        time(&self.0.stx_mtime)
    }

    /// When the content was read last, as far as the file system keeps that.
    pub fn accessed(&self) -> SystemTime {
        time(&self.0.stx_atime)
    }

    /// When it was made, if the file system knows.
    pub fn created(&self) -> Option<SystemTime> {
        (self.0.stx_mask & libc::STATX_BTIME != 0).then(|| time(&self.0.stx_btime))
    }
}

fn time(stamp: &libc::statx_timestamp) -> SystemTime {
    let whole = Duration::from_secs(stamp.tv_sec.unsigned_abs());
    let base = if stamp.tv_sec < 0 { SystemTime::UNIX_EPOCH - whole } else { SystemTime::UNIX_EPOCH + whole };
    base + Duration::from_nanos(stamp.tv_nsec.into())
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metadata")
            .field("mode", &format_args!("{:o}", self.mode()))
            .field("len", &self.len())
            .field("modified", &self.modified())
            .finish_non_exhaustive()
    }
}
