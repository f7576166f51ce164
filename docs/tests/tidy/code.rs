//! What holds for Rust code.

use crate::lexer::{Token, code, starts};
use crate::tree::{Tree, assert_found, finding};

const FUNCTION: usize = 70;

/// Functions of at most 70 lines, from `fn` to the closing brace; tests may be longer.
pub(crate) fn long_functions(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for file in tree.rust().filter(|file| !file.path.contains("tests/")) {
        let tokens = code(&file.text);
        for (i, token) in tokens.iter().enumerate().filter(|(_, token)| token.text == "fn") {
            let Some(last) = body_end(&tokens[i..]) else {
                continue;
            };
            let lines = last - token.line + 1;
            if lines > FUNCTION {
                let name = tokens[i + 1].text;
                found.push(finding(&file.path, token.line, format!("{name}: {lines} lines, at most {FUNCTION}")));
            }
        }
    }
    found
}

/// The line where the body of the function ends whose tokens begin here; `None` for a declaration or a pointer type.
fn body_end(tokens: &[Token<'_>]) -> Option<usize> {
    let (mut braces, mut others) = (0, 0);
    for token in tokens {
        match token.text {
            "(" | "[" => others += 1,
            ")" | "]" => others -= 1,
            "{" => braces += 1,
            "}" => braces -= 1,
            ";" if braces == 0 && others == 0 => return None,
            _ => continue,
        }
        if others < 0 || braces < 0 {
            return None;
        }
        if braces == 0 && token.text == "}" {
            return Some(token.line);
        }
    }
    None
}

/// `SeqCst` only in `sync/`: everybody else uses the explicit fences from there, which loom models exactly.
pub(crate) fn sequential(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for file in tree.library().filter(|file| !file.path.starts_with("scheduler/src/sync/")) {
        for token in code(&file.text).iter().filter(|token| token.text == "SeqCst") {
            found.push(finding(&file.path, token.line, "SeqCst outside sync/"));
        }
    }
    found
}

/// Files that may name the real atomics and `cfg(loom)`.
const SWITCH: [&str; 4] =
    ["scheduler/src/sync/", "scheduler/src/sys/", "scheduler/src/config.rs", "scheduler/src/lib.rs"];

/// Nothing but the switch knows which atomics it runs on.
pub(crate) fn around_the_switch(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for file in tree.library().filter(|file| !SWITCH.iter().any(|path| file.path.starts_with(path))) {
        let tokens = code(&file.text);
        for i in 0..tokens.len() {
            let rest = &tokens[i..];
            let atomics =
                ["std", "core"].iter().any(|root| starts(rest, &[root, ":", ":", "sync", ":", ":", "atomic"]));
            let what = if atomics {
                "real atomics outside sync/"
            } else if mentions_loom(rest) {
                "cfg(loom) outside sync/"
            } else {
                continue;
            };
            found.push(finding(&file.path, rest[0].line, what));
        }
    }
    found
}

/// `cfg(.. loom ..)`, `cfg_attr(loom, ..)` and `cfg!(loom)` begin here.
fn mentions_loom(tokens: &[Token<'_>]) -> bool {
    if !["cfg", "cfg_attr"].contains(&tokens[0].text) {
        return false;
    }
    let mut inside = tokens[1..].iter().skip_while(|token| token.text == "!").peekable();
    if inside.peek().is_none_or(|token| token.text != "(") {
        return false;
    }
    let mut depth = 0;
    for token in inside {
        match token.text {
            "(" => depth += 1,
            ")" => depth -= 1,
            "loom" => return true,
            _ => {}
        }
        if depth == 0 {
            return false;
        }
    }
    false
}

/// `unsafe` only in files that say so at their top.
pub(crate) fn unlisted_unsafe(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    let checked = |path: &str| path.starts_with("scheduler/src/") || path.starts_with("numa/src/");
    for file in tree.rust().filter(|file| checked(&file.path)) {
        let tokens = code(&file.text);
        let listed = (0..tokens.len()).any(|i| starts(&tokens[i..], &["#", "!", "[", "expect", "(", "unsafe_code"]));
        let first = (0..tokens.len()).find(|&i| is_unsafe_code(&tokens, i));
        if let (Some(i), false) = (first, listed) {
            found.push(finding(&file.path, tokens[i].line, "unsafe in a file without #![expect(unsafe_code, reason)]"));
        }
    }
    found
}

/// The word `unsafe`, except in the type of a function pointer, which does nothing by itself.
fn is_unsafe_code(tokens: &[Token<'_>], i: usize) -> bool {
    let pointer = starts(&tokens[i + 1..], &["fn", "("]) || starts(&tokens[i + 1..], &["extern"]);
    tokens[i].text == "unsafe" && !pointer
}

#[test]
fn reports_long_functions() {
    let body = "\n".repeat(69);
    let long = format!("trait T {{ fn short();\n fn f(x: [u8; 3]) {{ let s = \"}}\"; // }}\n{body}\n}} }}");
    let fits = format!("fn f() {{{body}}}");
    let tree = Tree::made_up(&[("a.rs", &long), ("b.rs", &fits), ("x/tests/c.rs", &long)]);
    assert_found(&long_functions(&tree), &["a.rs:2: f: 72 lines"]);
}

#[test]
fn reports_sequential_consistency() {
    let text = "// SeqCst is discussed here\nx.load(SeqCst);";
    let tree =
        Tree::made_up(&[("scheduler/src/a.rs", text), ("scheduler/src/sync/mod.rs", text), ("bench/b.rs", text)]);
    assert_found(&sequential(&tree), &["scheduler/src/a.rs:2"]);
}

#[test]
fn reports_ways_around_the_switch() {
    let text = "use std::sync::atomic::AtomicU8;\n#[cfg(all(test, not(loom)))]\nmod x {}\n// cfg(loom)\n\
                let loom = cfg!(debug_assertions);\nif cfg!(loom) {}\n#[cfg_attr(loom, x)]";
    let tree = Tree::made_up(&[("scheduler/src/a.rs", text), ("scheduler/src/sync/b.rs", text), ("stress/c.rs", text)]);
    let expected = ["a.rs:1: real", "a.rs:2: cfg(loom)", "a.rs:6: cfg(loom)", "a.rs:7: cfg(loom)"];
    assert_found(&around_the_switch(&tree), &expected);
}

#[test]
fn reports_unlisted_unsafe() {
    let quiet = "// unsafe\nstruct S { run: unsafe fn(u8) }";
    let listed = "//! Doc.\n#![expect(unsafe_code, reason = \"x\")]\nunsafe fn f() {}";
    let tree = Tree::made_up(&[
        ("scheduler/src/a.rs", quiet),
        ("scheduler/src/b.rs", "\nunsafe fn f() {}"),
        ("scheduler/src/c.rs", listed),
        ("bench/src/d.rs", "unsafe {}"),
    ]);
    assert_found(&unlisted_unsafe(&tree), &["scheduler/src/b.rs:2"]);
}
