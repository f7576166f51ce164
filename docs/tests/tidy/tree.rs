//! The files of the workspace, or a made-up tree for the tests of the checks.

use std::fs;
use std::path::{Path, PathBuf};

/// Everything a check may look at: paths relative to the root of the workspace, sorted.
pub(crate) struct Tree {
    pub(crate) files: Vec<Source>,
    /// Paths of pictures and of measured figures, whose text nobody reads.
    pub(crate) pictures: Vec<String>,
}

pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// What is not source: built, measured or none of our business.
const SKIPPED: [&str; 4] = ["target", "results", ".git", "node_modules"];
/// What a document may show or point to.
const LINKED: [&str; 4] = ["svg", "png", "json", "patch"];
const TEXT: [&str; 6] = ["rs", "md", "toml", "sh", "go", "cpp"];

impl Tree {
    /// The workspace this test was built in.
    pub(crate) fn workspace() -> Tree {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("docs/ has a parent").to_owned();
        let (mut files, mut pictures) = (Vec::new(), Vec::new());
        let mut open = vec![root.clone()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(&dir).expect("readable directory") {
                let path = entry.expect("readable entry").path();
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                if path.is_dir() {
                    if !SKIPPED.contains(&name) {
                        open.push(path);
                    }
                } else if is_text(&path) {
                    let text = fs::read_to_string(&path).expect("text file");
                    let path = path.strip_prefix(&root).expect("below the root").display().to_string();
                    files.push(Source { path, text });
                } else if LINKED.iter().any(|end| path.extension().is_some_and(|extension| extension == *end)) {
                    pictures.push(path.strip_prefix(&root).expect("below the root").display().to_string());
                }
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        assert!(files.len() > 20, "this is not the workspace");
        Tree { files, pictures }
    }

    /// A tree of `(path, text)`.
    pub(crate) fn made_up(files: &[(&str, &str)]) -> Tree {
        let file = |(path, text): &(&str, &str)| Source { path: (*path).into(), text: (*text).into() };
        Tree { files: files.iter().map(file).collect(), pictures: Vec::new() }
    }

    pub(crate) fn get(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }

    pub(crate) fn rust(&self) -> impl Iterator<Item = &Source> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// The Rust files of the library.
    pub(crate) fn library(&self) -> impl Iterator<Item = &Source> {
        self.rust().filter(|file| file.path.starts_with("scheduler/src/"))
    }
}

fn is_text(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    TEXT.contains(&extension) || path.ends_with(".ci/run")
}

/// The path that `link` in the file `from` leads to, relative to the root.
pub(crate) fn resolve(from: &str, link: &str) -> String {
    let mut path = PathBuf::from(from);
    path.pop();
    for part in link.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                path.pop();
            }
            part => path.push(part),
        }
    }
    path.display().to_string()
}

/// One violation, where it is and what it is.
pub(crate) fn finding(path: &str, line: usize, text: impl std::fmt::Display) -> String {
    format!("{path}:{line}: {text}")
}

/// Asserts that `findings` holds one item per entry of `expected`, each containing its text.
#[track_caller]
pub(crate) fn assert_found(findings: &[String], expected: &[&str]) {
    let all_there = expected.iter().all(|text| findings.iter().any(|finding| finding.contains(text)));
    assert!(all_there && findings.len() == expected.len(), "expected {expected:#?}, found {findings:#?}");
}
