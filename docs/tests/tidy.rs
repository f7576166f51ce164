//! The guardian of the tree: what `CONTRIBUTING.md` asks for and a program can check. Every check is a function from a
//! tree to findings; beside it stands a test that hands it a bad tree and expects to be told.
#![cfg(not(loom))]

#[path = "tidy/book.rs"]
mod book;
#[path = "tidy/code.rs"]
mod code;
#[path = "tidy/lexer.rs"]
mod lexer;
#[path = "tidy/orderings.rs"]
mod orderings;
#[path = "tidy/ranks.rs"]
mod ranks;
#[path = "tidy/text.rs"]
mod text;
#[path = "tidy/tree.rs"]
mod tree;

use tree::Tree;

#[track_caller]
fn assert_clean(check: fn(&Tree) -> Vec<String>) {
    let found = check(&Tree::workspace());
    assert!(found.is_empty(), "{} findings:\n{}", found.len(), found.join("\n"));
}

#[test]
fn lines_are_short() {
    assert_clean(text::long_lines);
}

#[test]
fn files_are_short() {
    assert_clean(text::long_files);
}

#[test]
fn functions_are_short() {
    assert_clean(code::long_functions);
}

#[test]
fn crate_docs_come_first() {
    assert_clean(text::late_docs);
}

#[test]
fn nothing_is_unfinished() {
    assert_clean(text::unfinished);
}

#[test]
fn no_path_of_one_machine() {
    assert_clean(text::machine_paths);
}

#[test]
fn no_sequential_consistency_outside_sync() {
    assert_clean(code::sequential);
}

#[test]
fn nothing_goes_around_the_switch() {
    assert_clean(code::around_the_switch);
}

#[test]
fn unsafe_is_announced() {
    assert_clean(code::unlisted_unsafe);
}

#[test]
fn every_ordering_has_its_row() {
    assert_clean(orderings::ids);
}

#[test]
fn every_row_has_its_killer() {
    assert_clean(orderings::killers);
}

#[test]
fn modules_name_only_lower_ones() {
    assert_clean(ranks::ranks);
}

#[test]
fn the_changelog_has_its_parts() {
    assert_clean(book::changelog);
}

#[test]
fn decisions_have_their_parts() {
    assert_clean(book::decisions);
}

#[test]
fn links_lead_somewhere() {
    assert_clean(book::links);
}

#[test]
fn licences_are_there() {
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
        assert!(path.is_file(), "{name}");
    }
}
