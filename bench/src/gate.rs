//! The stamp of the stress gate: whether it passed for exactly these sources. What is hashed and where stamps are kept
//! is the suite's own business.
use crate::paths;
use serde_json::{Value, json};
use std::path::Path;
use stress::stamp::RUNS;

/// The hash of the tree below `root`, as the gate takes it.
pub(crate) fn tree_hash(root: &Path) -> std::io::Result<String> {
    stress::tree::hash(root)
}

/// What the stamp says about the tree as it is now.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    pub(crate) passed: bool,
    pub(crate) runs: u64,
    pub(crate) tree: String,
    /// Why it is not passed.
    pub(crate) why: Option<String>,
}

impl Gate {
    /// The stamp for the sources this program was built from.
    pub(crate) fn read() -> Gate {
        Gate::of(paths::root())
    }

    /// The stamp for the tree below `root`: from `STRESS_GATE_DIR` if that is set, else from the target folders.
    pub(crate) fn of(root: &Path) -> Gate {
        let tree = tree_hash(root).unwrap_or_else(|e| format!("unknown: {e}"));
        let named = std::env::var_os("STRESS_GATE_DIR").map(std::path::PathBuf::from);
        let places = named.map_or_else(
            || vec![paths::target(), stress::tree::target(), paths::root().join("target")],
            |dir| vec![dir],
        );
        Gate::look(tree, &places)
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
        let line = || Gate::look(tree_hash(&root).unwrap(), &stamps).line();
        assert!(line().contains("NOT GATED (no stamp)"));
        stress::stamp::write(&stamps[1], &tree_hash(&root).unwrap()).unwrap();
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
