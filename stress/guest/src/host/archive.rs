//! The guest's file system as the kernel unpacks it: an archive in the format `newc` (kernel documentation,
//! `driver-api/early-userspace/buffer-format`).

const MAGIC: &str = "070701";
const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const LAST: &str = "TRAILER!!!";

pub(crate) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    pub(crate) fn new() -> Archive {
        Archive { bytes: Vec::new(), entries: 0 }
    }

    pub(crate) fn folder(&mut self, path: &str) {
        self.entry(path, FOLDER, &[]);
    }

    pub(crate) fn program(&mut self, path: &str, content: &[u8]) {
        self.entry(path, PROGRAM, content);
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry(LAST, 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        // ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor, rdevmajor, rdevminor, namesize, check
        let (size, name) = (content.len() as u32, path.len() as u32 + 1);
        let fields = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name, 0];
        self.bytes.extend_from_slice(MAGIC.as_bytes());
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    /// Names and contents begin at multiples of four.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout() {
        let mut archive = Archive::new();
        archive.folder("bin");
        archive.program("bin/x", b"hello");
        let bytes = archive.finish();
        assert_eq!(&bytes[..14], b"07070100000001");
        // Header of 110 bytes, name of 4 with its end, padded to 116.
        assert_eq!(&bytes[116..122], MAGIC.as_bytes());
        assert_eq!(&bytes[116 + 54..116 + 62], b"00000005");
        assert_eq!(&bytes[116 + 110..116 + 116], b"bin/x\0");
        assert_eq!(&bytes[116 + 116..116 + 124], b"hello\0\0\0");
        assert_eq!(bytes.len() % 4, 0);
    }
}
