//! Just enough of a Rust lexer to tell code from comments and strings.

/// What a piece of source is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Word,
    Str,
    Punct,
    Comment,
}

/// One piece of source, as it stands there: strings with their quotes, so that none looks like code.
#[derive(Clone, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    pub(crate) line: usize,
}

impl<'a> Token<'a> {
    /// What a plain string literal says.
    pub(crate) fn string(&self) -> Option<&'a str> {
        self.text.strip_prefix('"')?.strip_suffix('"')
    }
}

/// The tokens of `source` without comments.
pub(crate) fn code(source: &str) -> Vec<Token<'_>> {
    let mut tokens = all(source);
    tokens.retain(|token| token.kind != Kind::Comment);
    tokens
}

/// Whether the texts of `tokens` begin with `texts`.
pub(crate) fn starts(tokens: &[Token<'_>], texts: &[&str]) -> bool {
    tokens.len() >= texts.len() && tokens.iter().zip(texts).all(|(token, text)| token.text == *text)
}

fn all(source: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < source.len() {
        let rest = &source[at..];
        let (kind, len) = piece(rest);
        if let Some(kind) = kind {
            tokens.push(Token { kind, text: &rest[..len], line });
        }
        line += rest[..len].matches('\n').count();
        at += len;
    }
    tokens
}

/// The kind (`None` for space) and the length of the first piece of `rest`.
fn piece(rest: &str) -> (Option<Kind>, usize) {
    let first = rest.chars().next().expect("not at the end");
    if first.is_whitespace() {
        (None, first.len_utf8())
    } else if rest.starts_with("//") {
        (Some(Kind::Comment), rest.find('\n').unwrap_or(rest.len()))
    } else if rest.starts_with("/*") {
        (Some(Kind::Comment), block_comment(rest))
    } else if let Some(hashes) = raw_string(rest) {
        let begin = rest.find('"').expect("a raw string has a quote") + 1;
        let close = format!("\"{}", "#".repeat(hashes));
        let end = rest[begin..].find(&close).map_or(rest.len(), |found| begin + found + close.len());
        (Some(Kind::Str), end)
    } else if first == '"' || rest.starts_with("b\"") || rest.starts_with("c\"") {
        let begin = rest.find('"').expect("just seen") + 1;
        (Some(Kind::Str), begin + quoted(&rest[begin..], '"'))
    } else if first == '\'' && !is_lifetime(rest) {
        (Some(Kind::Str), 1 + quoted(&rest[1..], '\''))
    } else if first == '_' || first.is_alphanumeric() {
        let end = rest.find(|c: char| c != '_' && !c.is_alphanumeric());
        (Some(Kind::Word), end.unwrap_or(rest.len()))
    } else {
        (Some(Kind::Punct), first.len_utf8())
    }
}

/// Length of a block comment; they nest.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// The number of hashes if `rest` begins with a raw string.
fn raw_string(rest: &str) -> Option<usize> {
    let after = ["br", "cr", "r"].iter().find_map(|prefix| rest.strip_prefix(prefix))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..].starts_with('"').then_some(hashes)
}

/// Where the text ends that the next unescaped `quote` closes.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// `'a` and not `'a'`.
fn is_lifetime(rest: &str) -> bool {
    let mut chars = rest.chars().skip(1);
    let first = chars.next().unwrap_or(' ');
    (first == '_' || first.is_alphabetic()) && chars.next() != Some('\'')
}

#[test]
fn tells_code_from_comments_and_strings() {
    let source = r##"a /* x /* y */ z */ 'b' '\'' "c\"{" r#"d"{"# // e {
        'f: b"g" { 'é' }"##;
    let found: Vec<_> = code(source).iter().map(|t| (t.text.to_owned(), t.line)).collect();
    let expected = [
        ("a", 1),
        ("'b'", 1),
        ("'\\''", 1),
        (r#""c\"{""#, 1),
        (r##"r#"d"{"#"##, 1),
        ("'", 2),
        ("f", 2),
        (":", 2),
        ("b\"g\"", 2),
        ("{", 2),
        ("'é'", 2),
        ("}", 2),
    ];
    assert_eq!(found, expected.map(|(text, line)| (text.to_owned(), line)));
}
