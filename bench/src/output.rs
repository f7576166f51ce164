//! Where reports go: looked at before the long part, and never half-written.
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

fn said(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// Whether something lies there that is no ordinary file, such as `/dev/null` or a pipe: it is written to, not
/// replaced.
fn special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir())
}

/// The neighbour that becomes the file when it is complete.
fn draft(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.part", std::process::id()))
}

/// Says, before anything is measured, whether `path` can be written. Makes the folders above it.
pub(crate) fn check(path: &Path) -> Result<(), String> {
    if special(path) {
        return fs::OpenOptions::new().write(true).open(path).map(drop).map_err(|e| said(path, &e));
    }
    if path.is_dir() || path.file_name().is_none() {
        return Err(format!("{}: is a folder, not a file to write to", path.display()));
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|e| said(path, &e))?;
    }
    let draft = draft(path);
    fs::write(&draft, "").and_then(|()| fs::remove_file(&draft)).map_err(|e| said(path, &e))
}

/// Writes the whole file or nothing: whoever is interrupted leaves what was there before.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    if special(path) {
        return fs::write(path, text).map_err(|e| said(path, &e));
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|e| said(path, &e))?;
    }
    let draft = draft(path);
    let whole = || {
        let mut file = fs::File::create(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, path)
    };
    whole().map_err(|e| {
        // The draft may not even exist; the error that matters is told.
        let _ = fs::remove_file(&draft);
        said(path, &e)
    })
}

/// [`write`] for a JSON report.
pub(crate) fn json(path: &Path, value: &Value) -> Result<(), String> {
    let text = serde_json::to_string_pretty(value).map_err(|e| e.to_string())?;
    write(path, &(text + "\n"))
}

/// [`json`] without spaces, for what is kept in numbers and read by programs.
pub(crate) fn compact(path: &Path, value: &Value) -> Result<(), String> {
    write(path, &format!("{value}\n"))
}

/// Reads a JSON file; the error names it.
pub(crate) fn read_json(path: &Path) -> Result<Value, String> {
    let text = fs::read_to_string(path).map_err(|e| said(path, &e))?;
    serde_json::from_str(&text).map_err(|e| format!("{}: not JSON: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_is_left() {
        let folder = std::env::temp_dir().join(format!("bench-output-{}", std::process::id()));
        let path = folder.join("a/b.json");
        check(&path).unwrap();
        assert!(!path.exists(), "looking writes nothing");
        json(&path, &serde_json::json!({ "a": 1 })).unwrap();
        json(&path, &serde_json::json!({ "a": 2 })).unwrap();
        assert_eq!(read_json(&path).unwrap()["a"], 2);
        assert_eq!(fs::read_dir(folder.join("a")).unwrap().count(), 1);
        fs::write(&path, "{\"a\": ").unwrap();
        assert!(read_json(&path).unwrap_err().contains("b.json: not JSON"));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_cannot_be_written_is_named() {
        assert!(check(Path::new("/proc/nowhere/x.json")).unwrap_err().contains("/proc/nowhere/x.json"));
        assert!(write(Path::new("/proc/nowhere/x.json"), "").unwrap_err().contains("/proc/nowhere/x.json"));
        assert!(check(&std::env::temp_dir()).unwrap_err().contains("is a folder"));
        check(Path::new("/dev/null")).unwrap();
        write(Path::new("/dev/null"), "x").unwrap();
        assert!(special(Path::new("/dev/null")), "it is still there, and no file");
    }
}
