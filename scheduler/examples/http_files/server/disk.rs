//! How files are read.
use scheduler::io::File;
use std::io::Result;

/// At most `len` bytes from `at` on; none behind the end of the file.
pub(crate) async fn read_at(file: &File, len: usize, at: u64) -> Result<Vec<u8>> {
    let buf = Vec::with_capacity(len);
    // The room is the capacity, which may be more than was asked for. A part is as good as the whole: the caller goes
    // on behind it.
    let (count, mut buf) = file.read_at(buf, at).await;
    buf.truncate(count?.min(len));
    Ok(buf)
}
