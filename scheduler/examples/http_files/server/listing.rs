//! A folder as a page.
use super::target::{Target, encoded};
use rustix::fs::{AtFlags, Dir, FileType, statat};
use std::fmt::Write;
use std::os::fd::OwnedFd;

/// Most entries that are shown: a page is made in memory.
const MOST: usize = 10_000;

struct Entry {
    name: Vec<u8>,
    folder: bool,
    len: u64,
}

/// The page. Names come from whoever may write below the folder: all of them are escaped, bytes that are no UTF-8 are
/// shown as `\u{fffd}` and linked as they are.
pub(crate) fn page(folder: OwnedFd, target: &Target) -> Result<String, rustix::io::Errno> {
    let mut entries = vec![];
    let mut more = false;
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        if entries.len() == MOST {
            more = true;
            break;
        }
        // It may be gone by now, or be a link to nowhere: then it is shown without a size.
        let stat = statat(&folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW).ok();
        let is = |kind| stat.as_ref().is_some_and(|s| FileType::from_raw_mode(s.st_mode) == kind);
        let len = stat.as_ref().filter(|_| is(FileType::RegularFile)).map_or(0, |s| s.st_size as u64);
        entries.push(Entry { name: name.to_vec(), folder: is(FileType::Directory), len });
    }
    entries.sort_by(|a, b| (!a.folder, &a.name).cmp(&(!b.folder, &b.name)));
    Ok(render(&entries, more, target))
}

fn shown(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let text: String = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    html_escape::encode_safe(&text).into_owned()
}

fn render(entries: &[Entry], more: bool, target: &Target) -> String {
    let title = format!("/{}", shown(&target.path));
    let mut out = format!(
        "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>{title}</title>\
         <style>body{{font:15px/1.5 sans-serif;margin:2em}}td{{padding:0 1.5em 0 0}}td+td{{text-align:right}}</style>\
         </head>\n<body><h1>{title}</h1><table>\n"
    );
    if !target.path.is_empty() {
        out += "<tr><td><a href=\"../\">../</a></td></tr>\n";
    }
    for entry in entries {
        let (slash, size) = if entry.folder { ("/", String::new()) } else { ("", entry.len.to_string()) };
        // `./` before the name: one with a colon in it would be taken for a scheme.
        let (link, name) = (encoded(&entry.name), shown(&entry.name));
        // Writing to a string cannot fail.
        let _ = writeln!(out, "<tr><td><a href=\"./{link}{slash}\">{name}{slash}</a></td><td>{size}</td></tr>");
    }
    out += "</table>\n";
    if more {
        let _ = writeln!(out, "<p>Only {MOST} entries are shown.</p>");
    }
    out + "</body></html>\n"
}

#[test]
fn names_are_escaped_twice_over() {
    let target = Target::parse("/a<b>/").unwrap();
    let entry = |name: &[u8], folder| Entry { name: name.to_vec(), folder, len: 7 };
    let entries = [entry(b"d\"q", true), entry(b"<script>", false), entry(b"x:y\xff\n", false), entry(b"&%", false)];
    let page = render(&entries, true, &target);
    assert!(page.contains("<h1>/a&lt;b&gt;</h1>"), "{page}");
    assert!(page.contains("<a href=\"./d%22q/\">d&quot;q/</a></td><td></td>"), "{page}");
    assert!(page.contains("<a href=\"./%3Cscript%3E\">&lt;script&gt;</a></td><td>7</td>"), "{page}");
    assert!(page.contains("<a href=\"./x%3Ay%FF%0A\">x:y\u{fffd}\u{fffd}</a>"), "{page}");
    assert!(page.contains("<a href=\"./%26%25\">&amp;%</a>"), "{page}");
    assert!(page.contains("Only 10000 entries"), "{page}");
    assert!(!page.contains("<script>"));
}
