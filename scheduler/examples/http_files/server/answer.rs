//! From a request to its response.
use super::body::Body;
use super::listing;
use super::range::{Range, range};
use super::root::{Found, Missing, Root};
use super::target::{Refused, Target};
use super::version::{Verdict, Version};
use hyper::header::{
    ACCEPT_RANGES, ALLOW, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, LAST_MODIFIED,
    LOCATION, RANGE, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{HeaderMap, Method, Response, StatusCode};
use std::fs::{File, Metadata};

/// The page that stands for its folder.
const INDEX: &[u8] = b"index.html";
const HTML: &str = "text/html; charset=utf-8";

/// The response to `method path`.
pub(crate) fn answer(root: &Root, method: &Method, path: &str, headers: &HeaderMap) -> Response<Body> {
    if method != Method::GET && method != Method::HEAD {
        return with(page(StatusCode::METHOD_NOT_ALLOWED), ALLOW, "GET, HEAD");
    }
    let target = match Target::parse(path) {
        Ok(target) => target,
        Err(Refused::Malformed) => return page(StatusCode::BAD_REQUEST),
        Err(Refused::Upwards) => return page(StatusCode::FORBIDDEN),
    };
    let mut response = match root.find(&target) {
        Ok(Found::File(file, meta)) => send(file, &meta, &target.path, method, headers),
        Ok(Found::Folder(_)) if !target.folder => {
            with(page(StatusCode::MOVED_PERMANENTLY), LOCATION, &target.as_folder())
        }
        Ok(Found::Folder(folder)) => match index(root, &target) {
            Some((file, meta, path)) => send(file, &meta, &path, method, headers),
            None => match listing::page(folder, &target) {
                Ok(html) => text(StatusCode::OK, html),
                Err(errno) => missing(errno.into()),
            },
        },
        Err(why) => missing(why),
    };
    if method == Method::HEAD {
        // The head says how long the body would have been.
        *response.body_mut() = Body::empty();
    }
    response
}

fn index(root: &Root, target: &Target) -> Option<(File, Metadata, Vec<u8>)> {
    let mut path = target.path.clone();
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend(INDEX);
    match root.find(&Target { path: path.clone(), folder: false }) {
        Ok(Found::File(file, meta)) => Some((file, meta, path)),
        _ => None,
    }
}

fn send(file: File, meta: &Metadata, path: &[u8], method: &Method, headers: &HeaderMap) -> Response<Body> {
    let version = Version::of(meta);
    let ranged = match version.judge(headers) {
        Verdict::Failed => return page(StatusCode::PRECONDITION_FAILED),
        Verdict::NotModified => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return versioned(response, &version);
        }
        // A range is a matter of GET alone.
        Verdict::Send { range } => range && method == Method::GET,
    };
    let len = meta.len();
    let asked = headers.get(RANGE).filter(|_| ranged).and_then(|value| value.to_str().ok());
    let (status, first, count) = match range(asked, len) {
        Range::Unsatisfiable => {
            return with(page(StatusCode::RANGE_NOT_SATISFIABLE), CONTENT_RANGE, &format!("bytes */{len}"));
        }
        Range::Whole => (StatusCode::OK, 0, len),
        Range::Part { first, last } => (StatusCode::PARTIAL_CONTENT, first, last - first + 1),
    };
    let mut response = Response::new(Body::part(file, first, count));
    *response.status_mut() = status;
    if status == StatusCode::PARTIAL_CONTENT {
        response = with(response, CONTENT_RANGE, &format!("bytes {first}-{}/{len}", first + count - 1));
    }
    response = with(response, CONTENT_LENGTH, &count.to_string());
    response = with(response, ACCEPT_RANGES, "bytes");
    response = with(response, CONTENT_TYPE, &content_type(path));
    versioned(with(response, X_CONTENT_TYPE_OPTIONS, "nosniff"), &version)
}

/// By the ending of the name. Texts are taken for UTF-8.
fn content_type(path: &[u8]) -> String {
    let name = String::from_utf8_lossy(path.rsplit(|b| *b == b'/').next().unwrap_or_default()).into_owned();
    let mime = mime_guess::from_path(name).first_or_octet_stream();
    let charset = mime.type_() == mime_guess::mime::TEXT && mime.get_param("charset").is_none();
    if charset { format!("{mime}; charset=utf-8") } else { mime.to_string() }
}

fn versioned(response: Response<Body>, version: &Version) -> Response<Body> {
    let response = with(response, ETAG, &version.etag);
    match version.modified {
        Some(time) => with(response, LAST_MODIFIED, &httpdate::fmt_http_date(time)),
        None => response,
    }
}

fn missing(why: Missing) -> Response<Body> {
    match why {
        Missing::Nothing => page(StatusCode::NOT_FOUND),
        Missing::Forbidden => page(StatusCode::FORBIDDEN),
        Missing::Busy => with(page(StatusCode::SERVICE_UNAVAILABLE), RETRY_AFTER, "1"),
        Missing::Broken => page(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

/// The status in words. It says nothing of what was asked for: that is not ours to repeat.
fn page(status: StatusCode) -> Response<Body> {
    let words = status.canonical_reason().unwrap_or("error");
    let code = status.as_u16();
    text(status, format!("<!DOCTYPE html>\n<title>{code} {words}</title>\n<h1>{code} {words}</h1>\n"))
}

fn text(status: StatusCode, html: String) -> Response<Body> {
    let len = html.len().to_string();
    let mut response = Response::new(Body::Bytes(html.into()));
    *response.status_mut() = status;
    let response = with(with(response, CONTENT_TYPE, HTML), CONTENT_LENGTH, &len);
    with(response, X_CONTENT_TYPE_OPTIONS, "nosniff")
}

fn with(mut response: Response<Body>, name: HeaderName, value: &str) -> Response<Body> {
    // All values are made here, of visible ASCII; one that were not would be left out.
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
    response
}
