//! The picture: it is XML, everything is in it, and nothing of it lies outside of the sheet.
#![cfg(not(loom))]

mod common;

use common::hosts;
use common::tree::Tree;
use proptest::prelude::*;
use std::fs;
use std::process::{Command, Output};

fn numa(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_numa")).args(arguments).output().unwrap()
}

fn picture(arguments: &[&str]) -> String {
    let output = numa(&[&["--svg", "-"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Every tag closed by its own name, in order; no markup in text. Returns the texts.
fn texts(svg: &str) -> Vec<String> {
    let (mut open, mut texts) = (Vec::new(), Vec::new());
    for piece in svg.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').expect("a tag that ends");
        assert!(!text.contains('>') && tag.matches('"').count() % 2 == 0, "{piece}");
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap().to_owned();
        if tag.starts_with('/') {
            assert_eq!(open.pop().as_ref(), Some(&name), "{piece}");
        } else if !tag.ends_with('/') {
            open.push(name);
        }
        if !text.trim().is_empty() {
            texts.push(text.to_owned());
        }
    }
    assert_eq!(open, Vec::<String>::new());
    texts
}

/// The numbers of an attribute in all tags of a name.
fn numbers(svg: &str, tag: &str, attribute: &str) -> Vec<f64> {
    let (tag, name) = (format!("<{tag} "), format!("{attribute}=\""));
    let tags = svg.split(&tag).skip(1).filter_map(|rest| rest.split('>').next());
    tags.filter_map(|tag| tag.split(&name).nth(1)?.split('"').next()?.parse().ok()).collect()
}

const MIXED: &str = "2*node cores=4 threads=2; node cores=0 mem=64g; offline 5; isolated 2; allowed 0-1,3-4,8-11; \
                     quota 2500; mems 0,2; dist 10 21 31/21 10 -/31 - 10";

#[test]
fn everything_is_in_the_picture() {
    let svg = picture(&["--spec", MIXED]);
    let texts = texts(&svg);
    for part in [
        "3 nodes, 2 cache groups, 8 cores, 15 CPUs",
        "spec (not this host: nothing is pinned)",
        "3 workers = the lesser of 8 CPUs allowed and the quota rounded up, 3",
        "node 2",
        "64.0 GiB",
        "memory only: nobody's home",
        "its memory is not allowed",
        "memory from node 0",
        "L3  8-15",
        "w2",
        "distances",
        "from node 0 to node 2: 31",
        "from node 1 to node 2: unknown",
        "switched off",
        "CPU 5: switched off",
        "CPU 12: outside the mask of this process",
        "CPU 2: isolated: used only when listed",
        "CPU 4: free",
        "CPU 0, worker 0: spread: node 0, own core; bound to the CPUs that share its cache",
        "workers 0,2 on 0-1,3-4",
    ] {
        assert!(texts.iter().any(|text| text.contains(part)), "{part}\n{texts:#?}");
    }
    for cpu in 0..16 {
        assert!(texts.iter().any(|text| text.starts_with(&format!("CPU {cpu}"))), "CPU {cpu} has no place");
    }
    for pattern in ["#forbidden", "#offline", "#unknown"] {
        assert!(svg.contains(&format!("url({pattern})")), "{pattern}");
    }
    // One entry of the table per pair of nodes.
    assert_eq!(texts.iter().filter(|text| text.starts_with("from node")).count(), 9);
}

#[test]
fn a_cache_over_two_nodes_says_so() {
    let texts = texts(&picture(&["--spec", "2*node llcs=0 cores=2; cache 0-3"]));
    let shared = texts.iter().filter(|text| text.starts_with("shared with node")).count();
    assert_eq!(shared, 2, "{texts:#?}");
}

#[test]
fn names_of_folders_are_text_and_not_markup() {
    let tree = Tree::new();
    tree.file("<b>\"&'/sys/devices/system/cpu/online", "0-1");
    let root = tree.root().join("<b>\"&'");
    let texts = texts(&picture(&["--root", root.to_str().unwrap()]));
    assert!(texts.iter().any(|text| text.contains("&lt;b&gt;&quot;&amp;'")), "{texts:#?}");
}

#[test]
fn a_file_is_written_and_refusals_name_it() {
    let tree = Tree::new();
    let path = tree.root().join("host.svg");
    let output = numa(&["--spec", "node cores=2", "--svg", path.to_str().unwrap()]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("2 CPUs, drawn in "));
    assert_eq!(fs::read_to_string(path).unwrap(), picture(&["--spec", "node cores=2"]));
    let refused = |arguments: &[&str], part: &str| {
        let output = numa(arguments);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{message}");
        assert!(message.contains(part), "{message}");
    };
    refused(&["--svg", "/no/such/folder/host.svg"], "--svg: cannot write /no/such/folder/host.svg: ");
    refused(&["--svg", "x.svg", "--json"], "--json");
    refused(&["--svg", "x.svg", "explain"], "explain prints text only");
    refused(&["--svg", "x.svg", "--spec", "nodes"], "--spec: spec, position 0");
}

/// The pictures of the book are what the command draws now.
#[test]
fn the_picture_in_the_book_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/pictures/container.svg");
    let made = fs::read_to_string(path).unwrap();
    assert!(made == picture(&["--spec", MIXED]), "draw {path} again: cargo run -p numa -- --svg FILE --spec {MIXED:?}");
}

#[test]
fn a_host_with_more_than_1024_cpus() {
    let svg = picture(&["--spec", "2*node llcs=4 cores=70 threads=2"]);
    assert_eq!(texts(&svg).iter().filter(|text| text.starts_with("CPU ")).count(), 1120);
}

/// The largest host there can be: no table of a million distances, and no minutes.
#[test]
fn a_thousand_nodes() {
    let svg = picture(&["--spec", "1024*node cores=16"]);
    assert!(svg.len() < 20_000_000, "{} bytes", svg.len());
    assert_eq!(svg.matches("<title>CPU ").count(), 16_384);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_host_is_a_picture_within_its_sheet(spec in hosts::spec(), workers in 1_u32..40, unpinned in any::<bool>()) {
        let placement = if unpinned { "unpinned" } else { "spread" };
        let svg = picture(&["--spec", &spec, "--workers", &workers.to_string(), "--placement", placement]);
        let texts = texts(&svg);
        let host = numa::Topology::from_spec(&spec).unwrap();
        let cells = host.cpus().len() + host.offline().len();
        prop_assert_eq!(texts.iter().filter(|text| text.starts_with("CPU ")).count(), cells);
        let (width, height) = (numbers(&svg, "svg", "width")[0], numbers(&svg, "svg", "height")[0]);
        for (attribute, most) in [("width", width), ("height", height)] {
            prop_assert!(numbers(&svg, "rect", attribute).iter().all(|&size| (0.0..=most + 1.0).contains(&size)));
        }
        prop_assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}
