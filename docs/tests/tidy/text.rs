//! What holds for every text file.

use crate::tree::{Source, Tree, assert_found, finding};

const LINE: usize = 120;
const FILE: usize = 500;

/// Lines of at most 120 columns. Rows of a table cannot be broken, also in doc comments, nor can addresses.
pub(crate) fn long_lines(tree: &Tree) -> Vec<String> {
    let checked = |file: &&Source| [".rs", ".md", ".ci/run"].iter().any(|end| file.path.ends_with(end));
    let mut found = Vec::new();
    for file in tree.files.iter().filter(checked) {
        for (i, line) in file.text.lines().enumerate() {
            let row = match file.path.ends_with(".md") {
                true => line,
                false => line.trim_start().strip_prefix("///").or_else(|| line.strip_prefix("//!")).unwrap_or_default(),
            };
            let unbreakable = row.trim_start().starts_with('|') || line.contains("://");
            let columns = line.chars().count();
            if columns > LINE && !unbreakable {
                found.push(finding(&file.path, i + 1, format!("{columns} columns, at most {LINE}")));
            }
        }
    }
    found
}

/// Rust files of at most 500 lines.
pub(crate) fn long_files(tree: &Tree) -> Vec<String> {
    let lines = |file: &Source| file.text.lines().count();
    let long = tree.rust().filter(|file| lines(file) > FILE);
    long.map(|file| finding(&file.path, lines(file), format!("at most {FILE} lines"))).collect()
}

/// A crate that its `#![cfg(..)]` takes away keeps only what stands above that line: a crate doc below it is missed by
/// the lint for missing docs, but only in the build that has no other use for the crate.
pub(crate) fn late_docs(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for file in tree.rust() {
        let top =
            file.text.lines().enumerate().take_while(|(_, line)| line.starts_with("//!") || line.starts_with("#!["));
        let mut after_cfg = top.skip_while(|(_, line)| !line.starts_with("#![cfg("));
        if let Some((i, _)) = after_cfg.find(|(_, line)| line.starts_with("//!")) {
            found.push(finding(&file.path, i + 1, "the crate doc comes before #![cfg(..)]"));
        }
    }
    found
}

/// Nothing is left for later.
pub(crate) fn unfinished(tree: &Tree) -> Vec<String> {
    // In two halves, or this file would report itself.
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("todo", "!("), concat!("unimplemented", "!(")];
    holding(tree, &marks, "unfinished")
}

/// No path that exists on one machine only.
pub(crate) fn machine_paths(tree: &Tree) -> Vec<String> {
    let marks = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/tmp/", "spec"), concat!(".lib", "rary")];
    holding(tree, &marks, "path of one machine")
}

fn holding(tree: &Tree, marks: &[&str], what: &str) -> Vec<String> {
    let mut found = Vec::new();
    for file in &tree.files {
        for (i, line) in file.text.lines().enumerate() {
            if let Some(mark) = marks.iter().find(|mark| stands_alone(line, mark)) {
                found.push(finding(&file.path, i + 1, format!("{what}: {mark}")));
            }
        }
    }
    found
}

/// `mark` is in `line` and is not the tail of a longer word or path.
fn stands_alone(line: &str, mark: &str) -> bool {
    let begins = |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '.');
    line.match_indices(mark).any(|(at, _)| begins(at))
}

#[test]
fn reports_long_lines() {
    let long = "x".repeat(121);
    let (row, doc, address) = (format!("| {long}"), format!("    /// | {long}"), format!("https://{long}"));
    let tree = Tree::made_up(&[
        ("a.rs", &long),
        ("b.md", &row),
        ("c.rs", &row),
        ("d.rs", &address),
        ("e.toml", &long),
        ("f.rs", &doc),
    ]);
    assert_found(&long_lines(&tree), &["a.rs:1: 121 columns", "c.rs:1: 123 columns"]);
}

#[test]
fn reports_long_files() {
    let (long, short) = ("\n".repeat(501), "\n".repeat(500));
    let tree = Tree::made_up(&[("a.rs", &long), ("b.rs", &short), ("c.md", &long)]);
    assert_found(&long_files(&tree), &["a.rs:501"]);
}

#[test]
fn reports_late_docs() {
    let tree = Tree::made_up(&[
        ("a.rs", "#![cfg(not(loom))]\n//! Doc."),
        ("b.rs", "//! Doc.\n#![cfg(not(loom))]\n\n//! x"),
        ("c.rs", "#![deny(x)]\n//! Doc.\n#![cfg(loom)]\n#![deny(y)]\n"),
    ]);
    assert_found(&late_docs(&tree), &["a.rs:2"]);
}

#[test]
fn reports_what_is_unfinished() {
    let text = concat!("fn f() {}\n// TO", "DO later\nx::todo", "!(); FIX", "ME\n", "my_todo", "!()");
    let tree = Tree::made_up(&[("a.rs", text)]);
    assert_found(&unfinished(&tree), &["a.rs:2: unfinished", "a.rs:3: unfinished"]);
}

#[test]
fn reports_paths_of_one_machine() {
    let text = concat!("see /wo", "rk/main\nnet/wo", "rk/x\n\"/ro", "ot/.cargo\"");
    let tree = Tree::made_up(&[("a.md", text)]);
    assert_found(&machine_paths(&tree), &["a.md:1", "a.md:3"]);
}
