//! The stamp of the stress gate: whether it passed for exactly these sources. What is hashed and where stamps are kept
//! is the suite's own business.
use crate::paths;
use crate::source::{BUILT_FROM, Source};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use stress::stamp::RUNS;

fn hash_of(root: &Path) -> String {
    stress::tree::hash(root).unwrap_or_else(|e| format!("unknown: {e}"))
}

/// Runs `gate-hash`: of the sources as they are now, which may have changed since they were built.
pub(crate) fn print_hash() -> Result<ExitCode, String> {
    let root = Source::find().root.ok_or("the sources are neither where this was built nor where it was started")?;
    let hash = stress::tree::hash(&root).map_err(|e| format!("{}: {e}", root.display()))?;
    println!("{hash}");
    Ok(ExitCode::SUCCESS)
}

/// Where the gate may have left its stamp: in `STRESS_GATE_DIR` if that is set, else in a target folder: that of this
/// program, that which cargo is told to use, or that of the sources.
fn places(roots: &[PathBuf]) -> Vec<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    match set("STRESS_GATE_DIR") {
        Some(named) => vec![named],
        None => target_folders(roots, paths::target(), set("CARGO_TARGET_DIR")),
    }
}

fn target_folders(roots: &[PathBuf], own: PathBuf, told: Option<PathBuf>) -> Vec<PathBuf> {
    let mut out = vec![own];
    let roots = || roots.iter().map(PathBuf::as_path).chain([paths::root()]);
    if let Some(told) = told {
        // A relative one is relative to where cargo was started, and nobody knows where the gate was.
        out.extend(roots().map(|root| root.join(&told)));
        out.push(told);
    }
    out.extend(roots().map(|root| root.join("target")));
    out
}

/// What the stamp says about a tree.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    pub(crate) passed: bool,
    pub(crate) runs: u64,
    pub(crate) tree: String,
    /// Why it is not passed.
    pub(crate) why: Option<String>,
}

impl Gate {
    /// The stamp for the sources this program was built from, wherever it is started.
    pub(crate) fn read() -> Gate {
        let source = Source::find();
        let root = source.root.as_deref();
        let tree = match (BUILT_FROM, root) {
            ("", Some(root)) => hash_of(root),
            ("", None) => "unknown: built without it, and the sources are gone".into(),
            (built_from, _) => built_from.to_owned(),
        };
        Gate::look(tree, &places(&source.places))
    }

    /// The stamp for the tree below `root`.
    pub(crate) fn of(root: &Path) -> Gate {
        Gate::look(hash_of(root), &places(&[root.to_path_buf()]))
    }

    /// The best that any of these folders says.
    fn look<P: AsRef<Path>>(tree: String, places: &[P]) -> Gate {
        let said = |p: &P| Gate::judge(tree.clone(), stress::stamp::read(p.as_ref(), &tree).as_deref());
        let all: Vec<Gate> = places.iter().map(said).collect();
        let best = all.iter().find(|g| g.passed).or_else(|| all.iter().find(|g| g.runs > 0));
        best.cloned().unwrap_or_else(|| Gate::judge(tree, None))
    }

    fn judge(tree: String, stamp: Option<&str>) -> Gate {
        let stamp: Value = stamp.and_then(|s| serde_json::from_str(s).ok()).unwrap_or(Value::Null);
        let runs = stamp["runs"].as_u64().unwrap_or(0);
        let why = if stamp.is_null() {
            Some("no stamp".to_owned())
        } else if stamp["tree"] != tree.as_str() {
            Some("the stamp is for another source tree".to_owned())
        } else if stamp["passed"] != true || runs < RUNS {
            Some(format!("the stamp says passed: {}, runs: {runs}", stamp["passed"]))
        } else {
            None
        };
        Gate { passed: why.is_none(), runs, tree, why }
    }

    pub(crate) fn line(&self) -> String {
        match &self.why {
            None => format!("stress gate: {RUNS}/{RUNS}"),
            Some(why) => format!("stress gate: NOT GATED ({why})"),
        }
    }

    pub(crate) fn json(&self) -> Value {
        json!({ "passed": self.passed, "runs": self.runs, "tree": self.tree, "why": self.why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_full_stamp_for_this_tree_counts() {
        let line = |stamp: Option<&str>| Gate::judge("abc".into(), stamp).line();
        assert_eq!(line(Some(r#"{"tree":"abc","passed":true,"runs":20}"#)), "stress gate: 20/20");
        assert!(line(None).contains("NOT GATED (no stamp)"));
        assert!(line(Some("{")).contains("NOT GATED"));
        assert!(line(Some(r#"{"tree":"abd","passed":true,"runs":20}"#)).contains("another source tree"));
        assert!(line(Some(r#"{"tree":"abc","passed":false,"runs":20}"#)).contains("passed: false"));
        assert!(line(Some(r#"{"tree":"abc","passed":true,"runs":19}"#)).contains("runs: 19"));
    }

    /// Whether the program is where it was built or not, and wherever it is started from.
    #[test]
    fn stamps_are_looked_for_where_a_gate_leaves_them() {
        let of = |told: Option<&str>| target_folders(&["/clone".into()], "/own".into(), told.map(PathBuf::from));
        for place in ["/own", "/clone/target"] {
            assert!(of(None).contains(&place.into()), "{place}");
        }
        assert!(of(None).contains(&paths::root().join("target")));
        for place in ["/own", "/clone/build", "build", "/clone/target"] {
            assert!(of(Some("build")).contains(&place.into()), "{place}");
        }
        assert!(of(Some("/build")).contains(&"/build".into()));
    }

    /// From the sources to the line that every report prints.
    #[test]
    fn a_changed_source_line_is_not_gated() {
        let root = std::env::temp_dir().join(format!("bench-gate-{}", std::process::id()));
        for folder in ["numa/src", "scheduler/src", "stress/src"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
            std::fs::write(root.join(folder).join("lib.rs"), "fn f() {\n    g();\n}\n").unwrap();
        }
        for file in ["Cargo.lock", "Cargo.toml"] {
            std::fs::write(root.join(file), file).unwrap();
        }
        let stamps = [root.join("elsewhere"), root.join("stamps")];
        let line = || Gate::look(stress::tree::hash(&root).unwrap(), &stamps).line();
        assert!(line().contains("NOT GATED (no stamp)"));
        stress::stamp::write(&stamps[1], &stress::tree::hash(&root).unwrap()).unwrap();
        assert_eq!(line(), "stress gate: 20/20");
        std::fs::write(root.join("scheduler/src/README.md"), "a document\n").unwrap();
        assert_eq!(line(), "stress gate: 20/20");
        std::fs::write(root.join("scheduler/src/lib.rs"), "fn f() {\n    h();\n}\n").unwrap();
        assert_eq!(line(), "stress gate: NOT GATED (the stamp is for another source tree)");
        std::fs::write(root.join("scheduler/src/lib.rs"), "fn f() {\n    g();\n}\n").unwrap();
        assert_eq!(line(), "stress gate: 20/20");
        std::fs::remove_dir_all(&root).unwrap();
    }
}
