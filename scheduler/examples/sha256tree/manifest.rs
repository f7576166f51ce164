//! The manifest, byte for byte as GNU `sha256sum` prints it.

use std::borrow::Cow;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::job::Hashed;

/// Sorts by the bytes of the path and writes one line per file.
pub(crate) fn write(files: &mut [Hashed], out: impl Write) -> io::Result<()> {
    files.sort_unstable_by(|a, b| bytes(&a.path).cmp(bytes(&b.path)));
    let mut out = BufWriter::with_capacity(1 << 16, out);
    for file in files.iter() {
        let name = escape(bytes(&file.path));
        let mark: &[u8] = if matches!(name, Cow::Owned(_)) { b"\\" } else { b"" };
        out.write_all(mark)?;
        out.write_all(&hex(&file.digest))?;
        out.write_all(b"  ")?;
        out.write_all(&name)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// A name that would break the line is escaped, and its line begins with a backslash. All other bytes, also those that
/// are no UTF-8, stand for themselves.
fn escape(name: &[u8]) -> Cow<'_, [u8]> {
    if !name.iter().any(|byte| matches!(byte, b'\\' | b'\n' | b'\r')) {
        return Cow::Borrowed(name);
    }
    let mut escaped = Vec::with_capacity(name.len() + 8);
    for &byte in name {
        match byte {
            b'\\' => escaped.extend_from_slice(b"\\\\"),
            b'\n' => escaped.extend_from_slice(b"\\n"),
            b'\r' => escaped.extend_from_slice(b"\\r"),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

fn hex(digest: &[u8; 32]) -> [u8; 64] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    std::array::from_fn(|i| {
        let byte = digest[i / 2];
        DIGITS[usize::from(if i % 2 == 0 { byte >> 4 } else { byte & 15 })]
    })
}
