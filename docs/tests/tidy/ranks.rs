//! Data goes one way: a module of the library names only modules of lower rank.

use crate::lexer::{Token, code, starts};
use crate::tree::{Tree, assert_found, finding};

/// Modules from the bottom up; those of one row do not know each other.
const RANKS: &[&[&str]] = &[
    &["sys", "config"],
    &["policy"],
    &["sync", "error"],
    &["credit", "idle", "park", "phase"],
    &["mode", "latch", "queue", "roll", "task", "driver"],
    &["lanes", "timer"],
    &["worker"],
    &["metrics"],
    &["submit", "fork_join"],
    &["future"],
    &["join_handle", "time"],
    &["io"],
    &["scope"],
    &["handle"],
    &["pool", "hyper"],
    &["scheduler"],
    &["builder"],
];

/// Arrows that point up all the same: who, whom, and why that does no harm.
const UPWARD: &[(&str, &str, &str)] = &[
    ("scheduler", "builder", "`Scheduler::builder()` is where users look for it"),
    ("pool", "builder", "starting takes the settings as the builder holds them"),
];

/// Reports names of modules of the same or a higher rank, and modules without a rank.
pub(crate) fn upward(tree: &Tree, ranks: &[&[&str]]) -> Vec<String> {
    let rank = |module: &str| ranks.iter().position(|row| row.contains(&module));
    let mut found = Vec::new();
    for file in tree.library() {
        let module = module_of(&file.path);
        if module == "lib" {
            continue;
        }
        let Some(own) = rank(module) else {
            found.push(finding(&file.path, 1, format!("module {module} has no rank")));
            continue;
        };
        for (name, line) in named(&code(&file.text)) {
            let excused = UPWARD.iter().any(|(from, to, _)| *from == module && *to == name);
            if name != module && !excused && rank(name).is_some_and(|other| other >= own) {
                found.push(finding(&file.path, line, format!("{module} names {name}, which is not below it")));
            }
        }
    }
    found
}

/// `queue` for `scheduler/src/queue/lane/mod.rs`, `handle` for `scheduler/src/handle.rs`.
fn module_of(path: &str) -> &str {
    let inner = path.strip_prefix("scheduler/src/").unwrap_or(path);
    inner.split('/').next().unwrap_or(inner).trim_end_matches(".rs")
}

/// The first parts of all `crate::` paths, with lines; `crate::{a, b::c}` names two.
fn named<'a>(tokens: &[Token<'a>]) -> Vec<(&'a str, usize)> {
    let mut found = Vec::new();
    for i in 0..tokens.len() {
        if !starts(&tokens[i..], &["crate", ":", ":"]) {
            continue;
        }
        let rest = &tokens[i + 3..];
        if !starts(rest, &["{"]) {
            found.extend(rest.first().map(|token| (token.text, token.line)));
            continue;
        }
        let mut depth = 0;
        let mut first = false;
        for token in rest {
            match token.text {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ if first && depth == 1 => found.push((token.text, token.line)),
                _ => {}
            }
            if depth == 0 {
                break;
            }
            first = depth == 1 && (token.text == "{" || token.text == ",");
        }
    }
    found
}

/// [`upward`] with the ranks of the library.
pub(crate) fn ranks(tree: &Tree) -> Vec<String> {
    upward(tree, RANKS)
}

#[test]
fn reports_names_from_above() {
    let tree = Tree::made_up(&[
        ("scheduler/src/lib.rs", "use crate::top::X;"),
        ("scheduler/src/top.rs", "use crate::{low::{mid, Y}, mid::Z, top::Q};"),
        ("scheduler/src/mid/inner/mod.rs", "use crate::low::A; // crate::top\nuse crate::{low::B, top::C};"),
        ("scheduler/src/low.rs", "fn f() { crate::mid::g(); crate::beside::h(); }"),
        ("scheduler/src/beside.rs", ""),
        ("scheduler/src/new.rs", ""),
    ]);
    let ranks: &[&[&str]] = &[&["low", "beside"], &["mid"], &["top"]];
    let expected = [
        "mid/inner/mod.rs:2: mid names top",
        "low.rs:1: low names mid",
        "low.rs:1: low names beside",
        "new.rs:1: module new has no rank",
    ];
    assert_found(&upward(&tree, ranks), &expected);
}
