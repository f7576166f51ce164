//! Trees that are broken: whatever is done to one, a topology that holds together comes out, or an error that names
//! the place. No worker is ever put on a CPU that is not allowed.
#![cfg(not(loom))]

mod common;

use common::hosts::{self, holds_together};
use common::set;
use common::tree::{Style, Tree};
use numa::{CpuId, DiscoverError, Pin, Placement, Topology, plan};
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Reads the tree; what comes out must hold together, and all seats must be on allowed CPUs.
#[track_caller]
fn survives(root: &Path) -> Option<Topology> {
    match Topology::from_root(root) {
        Ok(host) => {
            holds_together(&host);
            for seat in plan(&host, &Placement::Spread, Pin::Auto, host.allowed().len()).unwrap() {
                assert!(seat.bind.unwrap().is_subset(host.allowed()));
            }
            Some(host)
        }
        Err(error @ (DiscoverError::NoCpu { .. } | DiscoverError::Root { .. })) => {
            assert!(error.to_string().contains(&root.display().to_string()), "{error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A host with a bit of everything, and the files of it that discovery looks at.
fn ordinary() -> (Tree, Vec<PathBuf>) {
    let spec =
        "node cores=2 threads=2; node id=5 cores=2 mem=0; node id=7 cores=0; offline 3; allowed 0-1,4; quota 1500";
    let tree = Tree::new();
    // Only maps or only lists: files in reserve would hide the damage.
    tree.host_in_style(&Topology::from_spec(spec).unwrap(), Style { maps: false, ..Style::default() });
    let reads = tree.read();
    let files = reads.reads().iter().map(|read| tree.root().join(&read.path)).filter(|path| path.is_file());
    let files: Vec<PathBuf> = files.collect();
    assert!(files.len() > 20);
    (tree, files)
}

#[test]
fn every_file_cut_off_at_every_byte() {
    let (tree, files) = ordinary();
    for file in &files {
        let whole = fs::read(file).unwrap();
        for length in 0..whole.len() {
            fs::write(file, &whole[..length]).unwrap();
            survives(tree.root()).unwrap();
        }
        fs::write(file, whole).unwrap();
    }
}

#[test]
fn every_file_missing_or_not_a_file() {
    let (tree, files) = ordinary();
    for file in &files {
        let whole = fs::read(file).unwrap();
        fs::remove_file(file).unwrap();
        survives(tree.root()).unwrap();
        fs::create_dir(file).unwrap();
        survives(tree.root()).unwrap();
        fs::remove_dir(file).unwrap();
        for target in
            [file.as_path(), Path::new("."), Path::new("/"), Path::new("/dev/zero"), Path::new("/proc/self/mem")]
        {
            symlink(target, file).unwrap();
            survives(tree.root()).unwrap();
            fs::remove_file(file).unwrap();
        }
        fs::write(file, whole).unwrap();
    }
}

#[test]
fn directories_that_lead_back_into_themselves() {
    let (tree, files) = ordinary();
    let mut folders: Vec<PathBuf> = files.iter().filter_map(|file| file.parent()).map(Path::to_owned).collect();
    for folder in folders.clone() {
        folders.extend(folder.ancestors().filter(|path| path.starts_with(tree.root())).map(Path::to_owned));
    }
    folders.retain(|folder| folder != tree.root());
    folders.sort();
    folders.dedup();
    assert!(folders.len() > 10);
    let aside = tree.root().join("aside");
    for folder in folders {
        fs::rename(&folder, &aside).unwrap();
        for target in
            [folder.clone(), tree.root().to_owned(), tree.root().join("aside/.."), PathBuf::from("/proc/self/fd")]
        {
            symlink(target, &folder).unwrap();
            survives(tree.root());
            fs::remove_file(&folder).unwrap();
        }
        fs::rename(&aside, &folder).unwrap();
    }
    assert_eq!(tree.read().allowed(), &set("0-1,4"), "the damage was not undone");
}

#[test]
fn folders_that_may_not_be_read() {
    use std::os::unix::fs::PermissionsExt;
    let (tree, _) = ordinary();
    let sys = tree.root().join("sys");
    fs::set_permissions(&sys, fs::Permissions::from_mode(0o0)).unwrap();
    // The superuser reads it all the same.
    let host = survives(tree.root());
    fs::set_permissions(&sys, fs::Permissions::from_mode(0o755)).unwrap();
    if let Some(host) = host {
        println!("the superuser was not stopped");
        assert_eq!(host.allowed(), &set("0-1,4"));
    }
    let empty = Tree::new();
    empty.dir("sys/devices/system/cpu").dir("sys/devices/system/node").dir("proc/self");
    assert!(survives(empty.root()).is_none());
}

#[test]
fn lists_that_name_what_is_not_there() {
    let (tree, _) = ordinary();
    // A node without directory, CPUs without directories, CPUs beyond every limit.
    tree.node("online", "0,3,5,7").node("node0/cpulist", "0-1,900").cpu("online", "0-2,4-5,17");
    let host = survives(tree.root()).unwrap();
    assert_eq!(host.online(), &set("0-2,4-5,17"));
    assert_eq!(host.nodes().iter().map(|node| node.id.get()).collect::<Vec<_>>(), [0, 5, 7]);
    assert!(host.notes().iter().any(|note| note.to_string().contains("node 3: listed as online but has no directory")));
    assert_eq!(host.home(CpuId::new(900)), None);
    tree.cpu("online", "0-18446744073709551615")
        .cpu("present", "0-5,4294967296")
        .node("node5/cpulist", "4-99999999999");
    let host = survives(tree.root()).unwrap();
    assert!(host.online().last().unwrap().get() < 10);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_damage_leaves_a_topology_that_holds_together(
        made_up in hosts::host(),
        damage in prop::collection::vec(
            (any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 0..12)),
            1..8,
        ),
    ) {
        let tree = Tree::new();
        let files: Vec<_> = tree.host(&made_up).read().reads().iter().map(|read| read.path.clone()).collect();
        for (which, bytes) in damage {
            let path = tree.root().join(which.get(&files));
            if path.is_file() {
                fs::write(path, bytes).unwrap();
            }
        }
        survives(tree.root());
    }
}

/// The same from pieces that mean something to the parsers, many times over on one tree.
#[test]
fn thousands_of_files_of_meaningful_nonsense() {
    const PIECES: [&str; 16] = [
        "0",
        "1",
        "5",
        "7",
        "63",
        "16383",
        "18446744073709551615",
        "-",
        ",",
        " ",
        "\n",
        "\0",
        "ffffffff",
        "3",
        "max",
        "/",
    ];
    let (tree, files) = ordinary();
    let whole: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    let mut state = 7_u32;
    let mut draw = |below: usize| {
        // Constants of Numerical Recipes; the upper bits are good enough here.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % below
    };
    let mut read = 0;
    for _ in 0..if cfg!(debug_assertions) { 500 } else { 5000 } {
        let which = [draw(files.len()), draw(files.len())];
        for &file in &which {
            let text: String = (0..draw(8)).map(|_| PIECES[draw(PIECES.len())]).collect();
            fs::write(&files[file], text).unwrap();
        }
        read += usize::from(survives(tree.root()).is_some());
        for &file in &which {
            fs::write(&files[file], &whole[file]).unwrap();
        }
    }
    assert!(read > 100);
    assert_eq!(tree.read().allowed(), &set("0-1,4"), "the damage was not undone");
}
