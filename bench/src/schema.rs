//! The form of the reports, as JSON Schema in `schema/`, and the part of that language which they use.
//!
//! `pattern` is read in one form only: `^(a|b)`, beginnings of which the text must have one.
use crate::output;
use clap::Args;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args, Clone, Debug)]
pub(crate) struct Check {
    /// Reports in JSON
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

macro_rules! schemas {
    ($($name:literal),* $(,)?) => { [$(($name, include_str!(concat!("../schema/", $name, ".json")))),*] };
}

/// All of them by kind.
static SCHEMAS: [(&str, &str); 14] = schemas![
    "common",
    "compare",
    "counts",
    "ab",
    "ab-plan",
    "ab-round",
    "wakeup",
    "skew",
    "items",
    "realistic",
    "scale",
    "load",
    "numa",
    "io",
];

/// Says of each file whether it has the form of its kind. Exit code 2 for the first that has not.
pub(crate) fn main(options: &Check) -> Result<ExitCode, String> {
    for file in &options.files {
        let report = output::read_json(file)?;
        let kind = report["kind"].as_str().unwrap_or("compare");
        let found = check(&report)?;
        if let Some(first) = found.first() {
            let more = if found.len() > 1 { format!(" (and {} more)", found.len() - 1) } else { String::new() };
            return Err(format!("{}: not the form of `{kind}`: {first}{more}", file.display()));
        }
        println!("{}: {kind}", file.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// What is wrong with a report, by the schema of its kind; an error if there is none.
pub(crate) fn check(report: &Value) -> Result<Vec<String>, String> {
    let kind = report["kind"].as_str().ok_or("no `kind`: not a report of this program")?;
    let all = Schemas::load();
    let schema = all.get(kind).ok_or_else(|| format!("unknown kind {kind:?}; known: {}", all.kinds().join(", ")))?;
    let mut found = vec![];
    all.look(report, schema, "", &mut found);
    Ok(found)
}

struct Schemas(Vec<(&'static str, Value)>);

impl Schemas {
    fn load() -> Schemas {
        let parse = |(name, text): &(&'static str, &str)| (*name, serde_json::from_str(text).unwrap_or(Value::Null));
        Schemas(SCHEMAS.iter().map(parse).collect())
    }

    fn get(&self, kind: &str) -> Option<&Value> {
        self.0.iter().find(|(name, _)| *name == kind && *name != "common").map(|(_, schema)| schema)
    }

    fn kinds(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| *name).filter(|n| *n != "common").collect()
    }

    /// `common.json#/$defs/host`, or `ab-plan.json#`.
    fn refers(&self, reference: &str) -> Option<&Value> {
        let (file, pointer) = reference.split_once('#')?;
        let name = file.strip_suffix(".json")?;
        self.0.iter().find(|(n, _)| *n == name)?.1.pointer(pointer)
    }

    fn look(&self, value: &Value, schema: &Value, at: &str, found: &mut Vec<String>) {
        let Some(rules) = schema.as_object() else {
            return found.push(format!("{at}: the schema is no object"));
        };
        for (rule, wanted) in rules {
            match rule.as_str() {
                "$ref" => match wanted.as_str().and_then(|r| self.refers(r)) {
                    Some(schema) => self.look(value, schema, at, found),
                    None => found.push(format!("{at}: the schema refers to {wanted}, which is not there")),
                },
                "type" if !has_type(value, wanted) => found.push(format!("{at}: {} is no {wanted}", short(value))),
                "enum" if !wanted.as_array().is_some_and(|all| all.contains(value)) => {
                    found.push(format!("{at}: {} is none of {wanted}", short(value)));
                }
                "minimum" if value.as_f64().is_some_and(|v| Some(v) < wanted.as_f64()) => {
                    found.push(format!("{at}: {value} is less than {wanted}"));
                }
                "minItems" if value.as_array().is_some_and(|a| Some(a.len() as u64) < wanted.as_u64()) => {
                    found.push(format!("{at}: fewer than {wanted}"));
                }
                "pattern" if value.as_str().is_some_and(|v| !begins(v, wanted)) => {
                    found.push(format!("{at}: {} begins with none of {wanted}", short(value)));
                }
                "required" => {
                    let names = wanted.as_array().into_iter().flatten().filter_map(Value::as_str);
                    let missing = |n: &&str| value.as_object().is_some_and(|o| !o.contains_key(*n));
                    found.extend(names.filter(missing).map(|n| format!("{at}/{n}: missing")));
                }
                "items" => {
                    for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.look(item, wanted, &format!("{at}/{i}"), found);
                    }
                }
                "properties" => self.properties(value, wanted, rules.get("additionalProperties"), at, found),
                "additionalProperties" if !rules.contains_key("properties") => {
                    self.properties(value, &Value::Object(Map::new()), Some(wanted), at, found);
                }
                "type" | "enum" | "minimum" | "minItems" | "pattern" | "additionalProperties" => {}
                "$schema" | "title" | "$defs" => {}
                other => found.push(format!("{at}: the schema has a rule that nobody reads: {other}")),
            }
        }
    }

    fn properties(&self, value: &Value, known: &Value, rest: Option<&Value>, at: &str, found: &mut Vec<String>) {
        for (name, value) in value.as_object().into_iter().flatten() {
            let at = format!("{at}/{name}");
            match (known.get(name), rest) {
                (Some(schema), _) => self.look(value, schema, &at, found),
                (None, Some(Value::Bool(false))) => found.push(format!("{at}: nobody knows this field")),
                (None, Some(schema)) => self.look(value, schema, &at, found),
                (None, None) => {}
            }
        }
    }
}

fn begins(text: &str, pattern: &Value) -> bool {
    let starts = pattern.as_str().and_then(|p| p.strip_prefix("^(")?.strip_suffix(')'));
    starts.is_some_and(|all| all.split('|').any(|start| text.starts_with(start)))
}

fn has_type(value: &Value, wanted: &Value) -> bool {
    let is = |name: &Value| match name.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => false,
    };
    wanted.as_array().map_or_else(|| is(wanted), |all| all.iter().any(is))
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 60 { text } else { text.chars().take(60).chain(['…']).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn counts() -> Value {
        json!({
            "kind": "counts", "tiny": true, "budgets": [],
            "host": { "commit": null, "dirty": null, "rustc": null, "profile": "release", "kernel": "6", "cpu": "x",
                      "cpus_online": "0", "nodes_online": "0", "affinity": "0", "quota": null, "governor": null,
                      "topology": { "nodes": 1, "llcs": 1, "cores": 1, "cpus": 1 }, "workers": 1, "peers": {},
                      "load_before": [0.1, 0.2, 0.3], "date": "d", "marker": null },
            "gate": { "passed": false, "runs": 0, "tree": "t", "why": "no stamp" },
            "paths": [{ "path": "external", "arm": "scheduler", "workers": 1, "depth": 0, "sizes": [1, 2],
                        "instructions": 89.2, "locked": null, "allocations": 0, "syscalls": 0, "wakes": 0, "parks": 0,
                        "membarriers": 0, "ctx_switches": null, "barrier": null, "why": { "locked": "no tool" } }],
        })
    }

    fn broken(pointer: &str, value: Value) -> Vec<String> {
        let mut report = counts();
        *report.pointer_mut(pointer).unwrap() = value;
        check(&report).unwrap()
    }

    #[test]
    fn a_good_report_has_no_fault() {
        assert_eq!(check(&counts()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn each_rule_bites() {
        assert_eq!(broken("/tiny", json!(1)), ["/tiny: 1 is no \"boolean\""]);
        assert!(broken("/host/profile", json!("fast"))[0].contains("/host/profile: \"fast\" is none of"));
        assert!(broken("/gate/runs", json!(-1))[0].contains("less than 0"));
        assert!(broken("/paths", json!([]))[0].contains("/paths: fewer than 1"));
        assert!(broken("/paths/0/why", json!({ "locked": 3 }))[0].contains("/paths/0/why/locked: 3 is no"));
        assert!(broken("/paths/0", json!({ "path": "external" })).iter().any(|f| f == "/paths/0/arm: missing"));
        let mut more = counts();
        more["paths"][0]["speed"] = json!(1);
        assert_eq!(check(&more).unwrap(), ["/paths/0/speed: nobody knows this field"]);
        let status = json!({ "type": "string", "pattern": "^(ok|absent: |failed: )" });
        let all = Schemas::load();
        let faults = |text: &str| {
            let mut found = vec![];
            all.look(&json!(text), &status, "", &mut found);
            found.len()
        };
        assert_eq!((faults("ok"), faults("absent: no go"), faults("fine")), (0, 0, 1));
    }

    #[test]
    fn unknown_kinds_are_told_the_known_ones() {
        assert!(check(&json!({ "kind": "x" })).unwrap_err().contains("known: compare, counts"));
        assert!(check(&json!([])).unwrap_err().contains("no `kind`"));
        assert!(check(&json!({ "kind": "common" })).is_err());
    }

    /// A rule that nobody reads, or a reference to nothing, would make a schema that checks less than it says.
    #[test]
    fn the_schemas_are_sound() {
        let all = Schemas::load();
        fn walk(all: &Schemas, schema: &Value) {
            match schema {
                Value::Object(rules) => {
                    if let Some(reference) = rules.get("$ref").and_then(Value::as_str) {
                        assert!(all.refers(reference).is_some(), "{reference}");
                    }
                    rules.values().for_each(|v| walk(all, v));
                }
                Value::Array(list) => list.iter().for_each(|v| walk(all, v)),
                _ => {}
            }
        }
        for (name, schema) in &all.0 {
            assert!(schema.is_object(), "{name} is no JSON");
            walk(&all, schema);
        }
    }
}
