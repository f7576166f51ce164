//! What holds for the documents.

use crate::tree::{Tree, assert_found, finding, resolve};

/// The CHANGELOG tells what was added, changed and fixed.
pub(crate) fn changelog(tree: &Tree) -> Vec<String> {
    headings(tree, "CHANGELOG.md", &["## Unreleased", "### Added", "### Changed", "### Fixed"])
}

const DECISION: [&str; 4] = ["## Context", "## Options", "## Decision", "## Numbers"];

/// Every decision says what else was possible and which numbers spoke; they are numbered without gaps.
pub(crate) fn decisions(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    let paths = tree.files.iter().filter_map(|file| file.path.strip_prefix("docs/decisions/"));
    for (i, name) in paths.enumerate() {
        let path = format!("docs/decisions/{name}");
        if !name.starts_with(&format!("{:04}-", i + 1)) {
            found.push(finding(&path, 1, format!("expected number {:04}", i + 1)));
        }
        found.extend(headings(tree, &path, &DECISION));
    }
    found
}

/// `path` exists and has the lines `wanted`, in this order, each followed by some text.
fn headings(tree: &Tree, path: &str, wanted: &[&str]) -> Vec<String> {
    let Some(text) = tree.get(path) else {
        return vec![finding(path, 0, "missing")];
    };
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    for heading in wanted {
        let Some((at, _)) = lines.by_ref().find(|(_, line)| line.trim_end() == *heading) else {
            found.push(finding(path, 1, format!("no `{heading}`, or not in order")));
            return found;
        };
        let body = text.lines().skip(at + 1).find(|line| !line.trim().is_empty());
        if body.is_none_or(|line| level(line) > 0 && level(line) <= level(heading)) {
            found.push(finding(path, at + 1, format!("`{heading}` is empty")));
        }
    }
    found
}

/// 2 for `## Heading`, 0 for other lines.
fn level(line: &str) -> usize {
    let hashes = line.bytes().take_while(|byte| *byte == b'#').count();
    if line[hashes..].starts_with(' ') { hashes } else { 0 }
}

/// Relative links in Markdown lead to something. Links with `::` in included READMEs are rustdoc's to check.
pub(crate) fn links(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    let exists = |path: &str| {
        let below = |file: &str| file == path || file.starts_with(&format!("{path}/"));
        path.is_empty()
            || tree.files.iter().any(|file| below(&file.path))
            || tree.pictures.iter().any(|file| below(file))
    };
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        let mut fenced = false;
        for (i, line) in file.text.lines().enumerate() {
            fenced ^= line.trim_start().starts_with("```");
            for target in line.split("](").skip(1).filter(|_| !fenced) {
                let target = target.split([')', '#', ' ']).next().unwrap_or_default();
                let elsewhere = target.contains("://") || target.contains("::") || target.starts_with("mailto:");
                if !target.is_empty() && !elsewhere && !exists(&resolve(&file.path, target)) && !is_licence(target) {
                    found.push(finding(&file.path, i + 1, format!("dead link {target}")));
                }
            }
        }
    }
    found
}

/// The licence texts have no extension, so they are not in the tree; their presence is checked by the test itself.
fn is_licence(target: &str) -> bool {
    target.starts_with("LICENSE-")
}

#[test]
fn reports_a_changelog_without_its_parts() {
    let log = "# Changelog\n\n## Unreleased\n\n### Added\n\n### Changed\n- x\n";
    let tree = Tree::made_up(&[("CHANGELOG.md", log)]);
    assert_found(&changelog(&tree), &["CHANGELOG.md:5: `### Added` is empty", "no `### Fixed`"]);
    assert_found(&changelog(&Tree::made_up(&[])), &["CHANGELOG.md:0: missing"]);
}

#[test]
fn reports_decisions_without_their_parts() {
    let good = "# T\n\n## Context\nx\n\n## Options\n1. x\n\n### Sub\n\n## Decision\nx\n\n## Numbers\nx\n";
    let tree = Tree::made_up(&[
        ("docs/decisions/0001-a.md", good),
        ("docs/decisions/0002-b.md", &good.replace("## Numbers\nx", "## Numbers\n")),
        ("docs/decisions/0004-c.md", &good.replace("## Options", "## Choices")),
    ]);
    let expected =
        ["0002-b.md:14: `## Numbers` is empty", "0004-c.md:1: expected number 0003", "0004-c.md:1: no `## Opt"];
    assert_found(&decisions(&tree), &expected);
}

#[test]
fn reports_dead_links() {
    let text = "[a](docs/b.md#top) [c](docs) [d](docs/gone.md)\n[e](https://x.y) [f](#b) [g](a::h)\n```\nx[i](j)\n```";
    let tree = Tree::made_up(&[("README.md", text), ("docs/b.md", "[up](../README.md) [no](README.md)")]);
    assert_found(&links(&tree), &["README.md:1: dead link docs/gone.md", "docs/b.md:1: dead link README.md"]);
}
