//! Which version of a file a client has: entity tags, dates, and the conditions that name them.
use hyper::HeaderMap;
use hyper::header::{HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

/// The state of a file. The tag is made of size, time of change to the nanosecond, and inode, and is strong: a file
/// that is written twice within the resolution of its file system's clock keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) etag: String,
    /// In whole seconds; `None` for times that the header cannot say.
    pub(crate) modified: Option<SystemTime>,
}

/// What the conditions come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Send it; with whether a range may be looked at.
    Send { range: bool },
    /// 304.
    NotModified,
    /// 412.
    Failed,
}

/// The first second that has no date: the year 10,000.
const END_OF_DATES: i64 = 253_402_300_800;

impl Version {
    pub(crate) fn of(meta: &Metadata) -> Version {
        let seconds = meta.mtime();
        let etag = format!("\"{:x}-{:x}.{:x}-{:x}\"", meta.size(), seconds, meta.mtime_nsec(), meta.ino());
        let modified = u64::try_from(seconds).ok().filter(|_| seconds < END_OF_DATES);
        Version { etag, modified: modified.map(|s| SystemTime::UNIX_EPOCH + Duration::from_secs(s)) }
    }

    /// In the order that RFC 9110, 13.2.2 asks for.
    pub(crate) fn judge(&self, headers: &HeaderMap) -> Verdict {
        let matched = self.named(headers, &IF_MATCH, false);
        let unmodified = || self.since(headers, &IF_UNMODIFIED_SINCE);
        if matched == Some(false) || matched.is_none() && unmodified() == Some(false) {
            return Verdict::Failed;
        }
        let known = self.named(headers, &IF_NONE_MATCH, true);
        if known.or_else(|| self.since(headers, &IF_MODIFIED_SINCE)) == Some(true) {
            return Verdict::NotModified;
        }
        Verdict::Send { range: headers.contains_key(RANGE) && self.in_range(headers) }
    }

    /// Whether the header names this version; `None`: there is no such header.
    fn named(&self, headers: &HeaderMap, name: &HeaderName, weak: bool) -> Option<bool> {
        let mut values = headers.get_all(name).iter().peekable();
        values.peek()?;
        Some(values.any(|value| value.to_str().is_ok_and(|list| self.is_in(list, weak))))
    }

    /// Whether a list of tags names it. A tag may hold a comma.
    fn is_in(&self, list: &str, weak: bool) -> bool {
        if list.trim() == "*" {
            return true;
        }
        let mut rest = list;
        while let Some(start) = rest.find('"') {
            let Some(len) = rest[start + 1..].find('"') else { return false };
            let end = start + len + 2;
            if rest[start..end] == self.etag && (weak || !rest[..start].ends_with("W/")) {
                return true;
            }
            rest = &rest[end..];
        }
        false
    }

    /// Whether it is no younger than the header says; `None`: it says nothing, or nothing that is a date.
    fn since(&self, headers: &HeaderMap, name: &HeaderName) -> Option<bool> {
        let date = httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()?;
        Some(self.modified? <= date)
    }

    /// Whether `If-Range`, where it is there, names exactly this version.
    fn in_range(&self, headers: &HeaderMap) -> bool {
        let Some(value) = headers.get(IF_RANGE) else { return true };
        let Ok(text) = value.to_str() else { return false };
        if text.contains('"') {
            return text.trim() == self.etag;
        }
        self.modified.is_some_and(|modified| httpdate::parse_http_date(text).is_ok_and(|date| date == modified))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    const DATE: &str = "Thu, 01 Jan 1970 00:16:40 GMT";
    const BEFORE: &str = "Thu, 01 Jan 1970 00:16:39 GMT";
    const AFTER: &str = "Thu, 01 Jan 1970 00:16:41 GMT";

    fn judge(headers: &[(HeaderName, &str)]) -> Verdict {
        let modified = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000));
        let version = Version { etag: "\"a,b\"".into(), modified };
        let pairs = headers.iter().map(|(n, v)| (n.clone(), HeaderValue::from_str(v).unwrap()));
        let mut map = HeaderMap::new();
        pairs.for_each(|(name, value)| {
            map.append(name, value);
        });
        version.judge(&map)
    }

    const SEND: Verdict = Verdict::Send { range: false };

    #[test]
    fn a_client_that_has_it_gets_nothing() {
        for tags in ["\"a,b\"", "*", "W/\"a,b\"", "\"x\", \"a,b\"", "\"x\",W/\"a,b\" , \"y\""] {
            assert_eq!(judge(&[(IF_NONE_MATCH, tags)]), Verdict::NotModified, "{tags}");
        }
        for tags in ["\"a\"", "a,b", "\"", "", "\"a,b"] {
            assert_eq!(judge(&[(IF_NONE_MATCH, tags)]), SEND, "{tags}");
        }
        assert_eq!(judge(&[(IF_NONE_MATCH, "\"x\""), (IF_NONE_MATCH, "\"a,b\"")]), Verdict::NotModified);
        assert_eq!(judge(&[(IF_MODIFIED_SINCE, DATE)]), Verdict::NotModified);
        assert_eq!(judge(&[(IF_MODIFIED_SINCE, AFTER)]), Verdict::NotModified);
        assert_eq!(judge(&[(IF_MODIFIED_SINCE, BEFORE)]), SEND);
        assert_eq!(judge(&[(IF_MODIFIED_SINCE, "yesterday")]), SEND);
        // A tag is more exact than a date.
        assert_eq!(judge(&[(IF_NONE_MATCH, "\"x\""), (IF_MODIFIED_SINCE, DATE)]), SEND);
    }

    #[test]
    fn a_condition_that_does_not_hold_fails() {
        assert_eq!(judge(&[(IF_MATCH, "\"a,b\"")]), SEND);
        assert_eq!(judge(&[(IF_MATCH, "W/\"a,b\"")]), Verdict::Failed, "weak is not enough");
        assert_eq!(judge(&[(IF_MATCH, "\"x\""), (IF_UNMODIFIED_SINCE, AFTER)]), Verdict::Failed);
        assert_eq!(judge(&[(IF_UNMODIFIED_SINCE, BEFORE)]), Verdict::Failed);
        assert_eq!(judge(&[(IF_UNMODIFIED_SINCE, DATE)]), SEND);
    }

    #[test]
    fn a_range_of_another_version_is_the_whole() {
        let part = (RANGE, "bytes=0-1");
        let with = |value| judge(&[part.clone(), (IF_RANGE, value)]);
        assert_eq!(judge(std::slice::from_ref(&part)), Verdict::Send { range: true });
        assert_eq!(with("\"a,b\""), Verdict::Send { range: true });
        assert_eq!(with(DATE), Verdict::Send { range: true });
        for other in ["\"x\"", "W/\"a,b\"", AFTER, BEFORE, "nonsense"] {
            assert_eq!(with(other), SEND, "{other}");
        }
    }
}
