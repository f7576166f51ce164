//! Every ordering has an id, every id one row in the table of its protocol, every row a model that dies without it.

use crate::lexer::{code, starts};
use crate::tree::{Source, Tree, assert_found, finding};

const HEAD: [&str; 7] = ["id", "word", "function", "ordering", "pairs with", "why", "killed by"];
/// A proof does not fit into less.
const PROOF: usize = 20;

/// A row of an orderings table.
struct Row<'a> {
    readme: &'a str,
    line: usize,
    cells: Vec<&'a str>,
}

impl Row<'_> {
    fn id(&self) -> &str {
        self.cells[0].trim_matches('`')
    }

    /// What kills it, and the proof if it survives, in whole or in half.
    fn killed_by(&self) -> (&str, Option<&str>) {
        let killed = self.cells[6];
        match killed.find("survivor") {
            Some(at) => (&killed[..at], Some(killed[at + "survivor".len()..].trim_matches([':', ' ']))),
            None => (killed, None),
        }
    }

    /// A proof that says `see ID` is this row's.
    fn proves(&self, readme: &str, proof: &str) -> bool {
        let own = self.killed_by().1.is_some_and(|own| own.len() >= PROOF);
        self.readme == readme && own && proof.strip_prefix("see ") == Some(self.id())
    }

    fn finding(&self, text: impl std::fmt::Display) -> String {
        finding(self.readme, self.line, format!("{}: {text}", self.id()))
    }
}

/// Compares the code with the tables, both ways. Files without a directory of their own, which tie protocols together,
/// may use the ids of any table.
pub(crate) fn ids(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    let rows = rows(tree, &mut found);
    let mut used = vec![false; rows.len()];
    for file in tree.library() {
        let readme = readme_of(tree, &file.path);
        let loose = file.path.matches('/').count() == 2;
        for (id, line) in uses(file) {
            let fits = |row: &Row<'_>| row.id() == id && (loose || Some(row.readme) == readme);
            match rows.iter().position(fits) {
                Some(i) => used[i] = true,
                None => {
                    let place = if loose { "any table" } else { readme.unwrap_or("a README, and there is none") };
                    found.push(finding(&file.path, line, format!("{id}: no row in {place}")));
                }
            }
        }
    }
    for (i, row) in rows.iter().enumerate() {
        if rows[..i].iter().any(|other| other.id() == row.id()) {
            found.push(row.finding("a second row"));
        } else if !used[i] {
            found.push(row.finding("nowhere in the code"));
        }
    }
    found
}

/// Each row names a model that exists and whose teeth hold the id, or gives a proof.
pub(crate) fn killers(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    let all = rows(tree, &mut Vec::new());
    for row in &all {
        if let Some(i) = row.cells.iter().position(|cell| cell.is_empty()) {
            found.push(row.finding(format!("column `{}` is empty", HEAD[i])));
        }
        let (models, proof) = row.killed_by();
        let shared = |proof: &str| all.iter().any(|other| other.proves(row.readme, proof));
        if proof.is_some_and(|proof| proof.len() < PROOF && !shared(proof)) {
            found.push(row.finding("a survivor without a proof"));
        }
        let models: Vec<_> = models.split([',', ';']).map(model_name).filter(|name| !name.is_empty()).collect();
        if models.is_empty() && proof.is_none() {
            found.push(row.finding("neither killed nor a survivor"));
        }
        found.extend(models.iter().filter_map(|model| Some(row.finding(toothless(tree, model, row.id())?))));
    }
    found
}

/// `file::model` or `model` out of `` `file::model` (acq) ``.
fn model_name(cell: &str) -> &str {
    let cell = cell.trim().trim_start_matches('`');
    cell.split(|c: char| !(c == '_' || c == ':' || c.is_ascii_alphanumeric())).next().unwrap_or_default()
}

/// What is wrong with `model` as the killer of `id`.
fn toothless(tree: &Tree, model: &str, id: &str) -> Option<String> {
    let (file, name) = model.rsplit_once("::").map_or(("", model), |(file, name)| (file, name));
    let candidates = tree.rust().filter(|source| source.path.starts_with("loom-tests/tests/"));
    let mut there = candidates.filter(|source| file.is_empty() || source.path.ends_with(&format!("/{file}.rs")));
    let Some(source) = there.find(|source| has_test(source, name)) else {
        return Some(format!("no model {model} in loom-tests/tests"));
    };
    (!bites(source, name, id)).then(|| format!("{model} is not tried with it in the teeth of {}", source.path))
}

fn has_test(source: &Source, name: &str) -> bool {
    let tokens = code(&source.text);
    (0..tokens.len()).any(|i| starts(&tokens[i..], &["#", "[", "test", "]", "fn", name]))
}

/// `("name", "id")` is in `source`, where the id may be one half or one of a list.
fn bites(source: &Source, name: &str, id: &str) -> bool {
    let tokens = code(&source.text);
    let is = |list: &str| list.split(',').any(|item| item.split(':').next() == Some(id));
    tokens.windows(4).any(|pair| {
        let named = pair[0].text == "(" && pair[1].string() == Some(name) && pair[2].text == ",";
        named && pair[3].string().is_some_and(is)
    })
}

/// The ids in the code of `file`, each with a line.
fn uses(file: &Source) -> Vec<(&str, usize)> {
    let tokens = code(&file.text);
    let named = |i: usize| {
        let [function, open, id] = tokens.get(i..i + 3)? else {
            return None;
        };
        let names = ["ord", "full_fence", "acquire_fence"].contains(&function.text);
        id.string().filter(|_| names && open.text == "(").map(|text| (text, id.line))
    };
    (0..tokens.len()).filter_map(named).collect()
}

/// The README of the protocol directory that `path` is in.
fn readme_of<'a>(tree: &'a Tree, path: &str) -> Option<&'a str> {
    let mut directory = path;
    while let Some((parent, _)) = directory.rsplit_once('/').filter(|(parent, _)| *parent != "scheduler/src") {
        directory = parent;
        let readme = format!("{directory}/README.md");
        if let Some(file) = tree.files.iter().find(|file| file.path == readme) {
            return Some(&file.path);
        }
    }
    None
}

/// All rows of all orderings tables. A table that begins like one and has other columns is reported.
fn rows<'a>(tree: &'a Tree, found: &mut Vec<String>) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    let readme = |file: &&Source| file.path.starts_with("scheduler/src/") && file.path.ends_with("README.md");
    for file in tree.files.iter().filter(readme) {
        let mut inside = false;
        for (i, text) in file.text.lines().enumerate() {
            let cells = cells(text);
            if !text.starts_with('|') {
                inside = false;
            } else if cells[0] == "id" {
                inside = cells == HEAD;
                if !inside {
                    found.push(finding(&file.path, i + 1, format!("the columns must be {HEAD:?}")));
                }
            } else if inside && !cells[0].starts_with(['-', ':']) {
                if cells.len() == HEAD.len() {
                    rows.push(Row { readme: &file.path, line: i + 1, cells });
                } else {
                    found.push(finding(&file.path, i + 1, format!("{} columns, not {}", cells.len(), HEAD.len())));
                }
            }
        }
    }
    rows
}

/// The trimmed cells of a row; a bar after a backslash or in backquotes belongs to the cell.
fn cells(row: &str) -> Vec<&str> {
    let inner = row.trim().trim_start_matches('|');
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    let (mut cells, mut begin, mut quoted, mut last) = (Vec::new(), 0, false, ' ');
    for (at, c) in inner.char_indices() {
        match c {
            '`' => quoted = !quoted,
            '|' if !quoted && last != '\\' => {
                cells.push(inner[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
        last = c;
    }
    cells.push(inner[begin..].trim());
    cells
}

#[cfg(test)]
const TABLE: &str = "| id | word | function | ordering | pairs with | why | killed by |\n\
                     |---|---|---|---|---|---|---|\n";

#[test]
fn reports_ids_and_rows_without_each_other() {
    let code = "// ord(\"XX\", y)\nx.load(ord(\"A1\", Acquire)); full_fence(\"A2\"); acquire_fence(\n\"A3\");";
    let readme = format!("{TABLE}| A1 | `a|b` | f | o | p | y | m |\n| A4 | w | f | o | p | y | m |\n\n| A2 |");
    let second = format!(
        "{TABLE}| A1 | w | f | o | p | y | m |\n| B1 | w | m |\n| B2 | w | f | o | p | y | m |\n\n| id |\n| A7 |"
    );
    let tree = Tree::made_up(&[
        ("scheduler/src/a/inner/mod.rs", code),
        ("scheduler/src/a/README.md", &readme),
        ("scheduler/src/b/README.md", &second),
        ("scheduler/src/c.rs", "ord(\"C1\", Acquire); ord(\"B2\", Release)"),
        ("scheduler/src/d/mod.rs", "ord(\"B2\", Acquire)"),
    ]);
    let expected = [
        "inner/mod.rs:2: A2: no row in scheduler/src/a/README.md",
        "inner/mod.rs:3: A3: no row",
        "a/README.md:4: A4: nowhere in the code",
        "b/README.md:3: A1: a second row",
        "b/README.md:4: 3 columns",
        "b/README.md:7: the columns must be",
        "c.rs:1: C1: no row in any table",
        "d/mod.rs:1: B2: no row in a README",
    ];
    assert_found(&ids(&tree), &expected);
}

#[test]
fn reports_rows_without_teeth() {
    let row = |id: &str, killed: &str| format!("| {id} | w | f | o | p | y | {killed} |\n");
    let readme = [
        TABLE,
        &row("A1", "`m::good`"),
        &row("A2", "`m::good` (acq), `gone` (rel)"),
        &row("A3", "`m::good`"),
        &row("A4", "survivor: short"),
        &row("A5", "m::good; survivor (rel): nobody reads what was written before this store"),
        &row("A6", ""),
        &row("A7", "`m::helper`"),
        &row("A8", "survivor: see A5"),
        &row("A9", "survivor: see A4"),
    ];
    let model = "#[test]\nfn good() {}\nfn helper() {}\nfn t() { teeth(&[(\"good\", \"A1\"), (\"good\", \"A2:acq\"),\n\
                 (\"good\", \"X,A5:acq\"), (\"helper\", \"A7\")]) }";
    let tree = Tree::made_up(&[("scheduler/src/a/README.md", &readme.concat()), ("loom-tests/tests/m.rs", model)]);
    let expected = [
        "A2: no model gone",
        "A3: m::good is not tried with it",
        "A4: a survivor without a proof",
        "A6: column `killed by` is empty",
        "A6: neither killed nor a survivor",
        "A7: no model m::helper",
        "A9: a survivor without a proof",
    ];
    assert_found(&killers(&tree), &expected);
}
