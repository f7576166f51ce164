//! Opening and reading regular files that other processes may change, replace or delete at any moment.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sha2::{Digest, Sha256};

use crate::job::Problem;

/// Fits the second-level cache beside the hash state, and keeps the system calls below 1 % of the hashing time.
const BUFFER: usize = 64 << 10;

/// Whether a symlink as the last part of a path is followed.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Links {
    Follow,
    Refuse,
}

/// Opens a regular file. Between listing and opening the name may have come to mean a fifo (so: never block) or a
/// symlink (so: refuse it); what was opened is looked at again.
pub(crate) fn open(path: &Path, links: Links) -> Result<(File, Metadata), Problem> {
    let refuse = if links == Links::Refuse { libc::O_NOFOLLOW } else { 0 };
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | refuse).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() { Ok((file, metadata)) } else { Err(Problem::NotRegular) }
}

/// The digest and the length of `file`, read to its end whatever its size claims to be (that of `/proc` files is 0).
pub(crate) fn hash(mut file: File, before: &Metadata, progress: &AtomicU64) -> Result<([u8; 32], u64), Problem> {
    let mut sha = Sha256::new();
    let mut buffer = vec![0; BUFFER];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => {
                sha.update(&buffer[..n]);
                bytes += n as u64;
                progress.fetch_add(n as u64, Relaxed);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    unchanged(&file, before)?;
    Ok((sha.finalize().into(), bytes))
}

/// Fills `buffer` from `offset`; less than the whole buffer means the end of the file.
pub(crate) fn fill(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Compares the open file with what it was when it was opened. The number of bytes read proves nothing by itself: files
/// of the kernel have sizes that do not match their content.
pub(crate) fn unchanged(file: &File, before: &Metadata) -> Result<(), Problem> {
    let after = file.metadata()?;
    let state = |m: &Metadata| (m.size(), m.mtime(), m.mtime_nsec());
    if state(&after) == state(before) {
        return Ok(());
    }
    Err(Problem::Changed { size_before: before.size(), size_after: after.size() })
}
