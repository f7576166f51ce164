//! The folder that is served, and how what lies below it is opened.
//!
//! Nothing outside of it is ever opened. The kernel sees to that: `openat2` with `RESOLVE_BENEATH` follows symbolic
//! links only as long as they stay below the folder; absolute links, links upwards and links into `/proc` are refused.
//! On a kernel without it (before 5.6, or where a filter denies it) every part of a path is opened by itself, and no
//! symbolic link is followed at all.
use super::target::Target;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fcntl_setfl, openat, openat2};
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// The folder.
#[derive(Debug)]
pub(crate) struct Root {
    folder: OwnedFd,
    /// Whether the kernel resolves paths below a folder.
    beneath: bool,
}

/// What lies at a place.
#[derive(Debug)]
pub(crate) enum Found {
    File(File, Metadata),
    Folder(OwnedFd),
}

/// Why there is nothing to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// There is nothing, or nothing that is a file or a folder: 404.
    Nothing,
    /// We may not read it, or it leads out of the folder: 403.
    Forbidden,
    /// Too many files are open: 503.
    Busy,
    /// Anything else: 500.
    Broken,
}

impl From<Errno> for Missing {
    fn from(errno: Errno) -> Missing {
        match errno {
            // ENXIO: a socket, or a device without a driver.
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::NXIO | Errno::NODEV => Missing::Nothing,
            // XDEV: it leads out of the folder. LOOP: a link where none may be, or too many.
            Errno::ACCESS | Errno::PERM | Errno::XDEV | Errno::LOOP => Missing::Forbidden,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => Missing::Busy,
            _ => Missing::Broken,
        }
    }
}

/// NONBLOCK: the open of a fifo does not wait for its other end. NOCTTY: a terminal does not become ours.
const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

impl Root {
    /// The folder at `path`; links on the way to it are followed.
    pub(crate) fn open(path: &Path) -> std::io::Result<Root> {
        let folder = openat(CWD, path, FLAGS | OFlags::DIRECTORY, Mode::empty())?;
        let beneath = openat2(&folder, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), RESOLVE).is_ok();
        Ok(Root { folder, beneath })
    }

    /// Opens what the target names. It does not block on what is no file, but on the disk.
    pub(crate) fn find(&self, target: &Target) -> Result<Found, Missing> {
        let path = if target.path.is_empty() { b"." } else { &target.path[..] };
        let opened = if self.beneath { self.resolve(path) } else { self.walk(path) };
        let file = File::from(opened?);
        let meta = file.metadata().map_err(|_| Missing::Broken)?;
        if meta.is_dir() {
            return Ok(Found::Folder(file.into()));
        }
        // A file with a slash behind its name is no folder.
        if !meta.is_file() || target.folder {
            return Err(Missing::Nothing);
        }
        // From here on a read may wait for the disk: a ring takes NONBLOCK as a wish not to.
        fcntl_setfl(&file, OFlags::empty())?;
        Ok(Found::File(file, meta))
    }

    fn resolve(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        // AGAIN: the tree was changed under the kernel's eyes; a few tries are enough unless somebody goes on.
        (0..8)
            .map(|_| openat2(&self.folder, path, FLAGS, Mode::empty(), RESOLVE))
            .find(|opened| *opened.as_ref().map_or_else(|e| e, |_| &Errno::IO) != Errno::AGAIN)
            .unwrap_or(Err(Errno::AGAIN))
    }

    fn walk(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let mut names: Vec<&[u8]> = path.split(|b| *b == b'/').collect();
        let last = names.pop().unwrap_or(b".");
        let mut folder: Option<OwnedFd> = None;
        for name in names {
            let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::DIRECTORY;
            folder = Some(openat(self.at(&folder), name, flags, Mode::empty())?);
        }
        openat(self.at(&folder), last, FLAGS | OFlags::NOFOLLOW, Mode::empty())
    }

    fn at<'a>(&'a self, folder: &'a Option<OwnedFd>) -> BorrowedFd<'a> {
        folder.as_ref().map_or(self.folder.as_fd(), AsFd::as_fd)
    }
}

const RESOLVE: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

/// On any kernel the walk must refuse what the kernel refuses, and more: all links.
#[test]
fn the_walk_follows_no_link() {
    let base = std::env::temp_dir().join(format!("http_files-walk-{}", std::process::id()));
    std::fs::create_dir_all(base.join("site/d")).unwrap();
    std::fs::write(base.join("secret"), "secret").unwrap();
    std::fs::write(base.join("site/d/file"), "inside").unwrap();
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, base.join("site").join(name)).unwrap();
    link("../secret", "out");
    link("..", "up");
    link("d/file", "near");
    let beneath = Root::open(&base.join("site")).unwrap();
    let walking = Root { folder: beneath.folder.try_clone().unwrap(), beneath: false };
    let find = |root: &Root, path: &str| match root.find(&Target::parse(path).unwrap()) {
        Ok(Found::File(..)) => Ok("file"),
        Ok(Found::Folder(_)) => Ok("folder"),
        Err(why) => Err(why),
    };
    for root in [&beneath, &walking] {
        assert_eq!(find(root, "/d/file"), Ok("file"));
        assert_eq!(find(root, "/d/file/"), Err(Missing::Nothing));
        assert_eq!((find(root, "/"), find(root, "/d")), (Ok("folder"), Ok("folder")));
        assert_eq!(find(root, "/out"), Err(Missing::Forbidden));
        assert!(find(root, "/up/secret").is_err() && find(root, "/up").is_err());
    }
    assert_eq!(find(&walking, "/near"), Err(Missing::Forbidden));
    std::fs::remove_dir_all(&base).unwrap();
}
