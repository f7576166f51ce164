//! What a request asks for: the path of its URI, decoded and made safe, as a path below the root.
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, percent_encode};

/// What may not stand in a segment of a path as it is. `/` is encoded too: a name that holds one does not exist.
const SEGMENT: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'&')
    .add(b'\'')
    .add(b'/')
    .add(b':')
    .add(b';')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A place below the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Relative, without empty segments, `.` or `..`; empty for the root itself. Bytes: names need not be UTF-8.
    pub(crate) path: Vec<u8>,
    /// It was written with a slash at its end: only a folder is meant.
    pub(crate) folder: bool,
}

/// Why there is no such place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// No path of a file: 400.
    Malformed,
    /// It leads upwards: 403.
    Upwards,
}

impl Target {
    /// Decoded once, and looked at after that: `%2e%2e%2f` leads upwards as `../` does, and is refused rather than
    /// resolved, since no client that means well sends it.
    pub(crate) fn parse(path: &str) -> Result<Target, Refused> {
        if !path.starts_with('/') {
            return Err(Refused::Malformed);
        }
        let decoded: Vec<u8> = percent_decode_str(path).collect();
        if decoded.contains(&0) {
            return Err(Refused::Malformed);
        }
        let last = decoded.rsplit(|b| *b == b'/').next().unwrap_or_default();
        let folder = last.is_empty() || last == b".";
        let mut segments: Vec<&[u8]> = vec![];
        for segment in decoded.split(|b| *b == b'/') {
            match segment {
                b"" | b"." => {}
                b".." => return Err(Refused::Upwards),
                name => segments.push(name),
            }
        }
        Ok(Target { path: segments.join(&b'/'), folder })
    }

    /// The path of the folder, as a client should have asked for it. It begins with one slash exactly, so it cannot
    /// be taken for the name of another host.
    pub(crate) fn as_folder(&self) -> String {
        let mut out = String::from("/");
        for name in self.path.split(|b| *b == b'/').filter(|name| !name.is_empty()) {
            out += &encoded(name);
            out.push('/');
        }
        out
    }
}

/// A name as it stands in a link.
pub(crate) fn encoded(name: &[u8]) -> String {
    percent_encode(name, SEGMENT).to_string()
}

#[test]
fn paths_are_decoded_once() {
    let parse = |path| Target::parse(path).map(|t| (String::from_utf8(t.path).unwrap(), t.folder));
    let good = |path: &str, folder| Ok((path.to_owned(), folder));
    assert_eq!(parse("/"), good("", true));
    assert_eq!(parse("/a/b"), good("a/b", false));
    assert_eq!(parse("//a///b/"), good("a/b", true));
    assert_eq!(parse("/./a/."), good("a", true));
    assert_eq!(parse("/a%20b%2Fc"), good("a b/c", false));
    assert_eq!(parse("/%2541"), good("%41", false), "not twice");
    assert_eq!(parse("/%zz%"), good("%zz%", false), "what is no code stands for itself");
    assert_eq!(parse("/..."), good("...", false));
    assert_eq!(Target::parse("/%ff").unwrap().path, [0xff]);
}

#[test]
fn what_leads_upwards_or_nowhere_is_refused() {
    for path in ["/..", "/../etc/passwd", "/a/../b", "/%2e%2e/x", "/.%2E/x", "/a%2f..%2fb", "/a/..%2f"] {
        assert_eq!(Target::parse(path), Err(Refused::Upwards), "{path}");
    }
    for path in ["", "a", "*", "/a%00b"] {
        assert_eq!(Target::parse(path), Err(Refused::Malformed), "{path}");
    }
}

#[test]
fn a_folder_never_looks_like_a_host() {
    let folder = |path: &str| Target::parse(path).unwrap().as_folder();
    assert_eq!(folder("//evil.example/x"), "/evil.example/x/");
    assert_eq!(folder("/%5cevil"), "/%5Cevil/");
    assert_eq!(folder("/a b\u{fc}%0d%0aset-cookie:x"), "/a%20b%C3%BC%0D%0Aset-cookie%3Ax/");
    assert_eq!(folder("/"), "/");
}
