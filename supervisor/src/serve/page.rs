//! Serves the web page (`GET /`) and its files (`/page/…`), all embedded at build time.
//!
//! The files are the same for everyone and need no token; the page's own requests carry it. Browsers are told to run
//! only these files and to connect only to this sidecar. File names contain a digest, so browsers cache all but the
//! first for good.

use axum::Router;
use axum::http::Method;
use axum::routing::get;

/// Whether a request may come without the token.
pub fn is_public(method: &Method, path: &str) -> bool {
    matches!(*method, Method::GET | Method::HEAD) && (path == "/" || path.starts_with("/page/"))
}

/// The line that says where the page is; with a token that may be shown, a link that is ready to be opened.
pub fn link(place: &str, token: Option<&str>) -> String {
    match token {
        Some(token) => {
            let token: String = form_urlencoded::byte_serialize(token.as_bytes()).collect();
            format!("its page: {place}/#token={token}")
        }
        None => format!(
            "its page: {place}/#token=TOKEN, with what is in the token file; without, it asks"
        ),
    }
}

/// The page's routes.
pub fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/", get(embedded::index))
        .route("/page/{name}", get(embedded::asset))
}

#[cfg(not(feature = "page"))]
mod embedded {
    use crate::serve::problem::{Code, Problem};

    pub(super) async fn index() -> Problem {
        let how = "this kiln was built without its page: cargo build --release -p kiln --features page, with Node 18 or newer, makes one that has it";
        Problem::new(Code::NotFound, how)
    }

    pub(super) async fn asset() -> Problem {
        index().await
    }
}

#[cfg(feature = "page")]
mod embedded {
    use axum::extract::Path;
    use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
    use axum::response::{IntoResponse, Response};

    use crate::serve::problem::{Code, Problem};

    /// A file of the page.
    pub(super) struct Asset {
        pub(super) name: &'static str,
        media_type: &'static str,
        /// Digest of the bytes.
        tag: &'static str,
        pub(super) bytes: &'static [u8],
        gzip: &'static [u8],
    }

    include!(concat!(env!("OUT_DIR"), "/page/assets.rs"));

    const INDEX: &str = "index.html";
    /// The 3D view loads textures of a GLB, and pictures of files, as blobs. Everything else must come from here: the
    /// decoders of meshopt and KTX2 too, which are WebAssembly, and the one worker that a script may start.
    const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self' blob:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types kiln-worker";
    /// The worker that decodes KTX2. The calls into its WebAssembly are made of text; it loads nothing, and asks nobody.
    const WORKER_POLICY: &str = "default-src 'none'; script-src 'unsafe-eval'";
    /// How the name of the worker's file begins; that of its WebAssembly, too.
    const WORKER: &str = "basis-";

    #[cfg(test)]
    pub(super) fn all() -> &'static [Asset] {
        ASSETS
    }

    pub(super) async fn index(headers: HeaderMap) -> Response {
        give(INDEX, &headers)
    }

    pub(super) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
        give(&name, &headers)
    }

    fn give(name: &str, headers: &HeaderMap) -> Response {
        let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
            return Problem::new(Code::NotFound, "the page has no such file").into_response();
        };
        let given = |name: HeaderName| {
            let values = headers.get_all(name).into_iter();
            let texts = values.filter_map(|value| value.to_str().ok());
            texts.flat_map(|text| text.split(',')).map(str::trim)
        };
        let gzip = given(header::ACCEPT_ENCODING).any(|coding| {
            let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
            name.trim().eq_ignore_ascii_case("gzip") && !is_zero(quality)
        });
        let tag = format!("\"{}{}\"", asset.tag, if gzip { "-gzip" } else { "" });
        // RFC 9110, section 13.1.2: the comparison is weak.
        let known = given(header::IF_NONE_MATCH)
            .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag);
        let mut response = if known {
            StatusCode::NOT_MODIFIED.into_response()
        } else if gzip {
            asset.gzip.into_response()
        } else {
            asset.bytes.into_response()
        };
        let cache = if name.contains('-') {
            "public, max-age=31536000, immutable"
        } else {
            "no-cache"
        };
        let headers = response.headers_mut();
        let mut put = |name: HeaderName, value: &'static str| {
            headers.insert(name, HeaderValue::from_static(value));
        };
        put(header::CONTENT_TYPE, asset.media_type);
        put(header::CACHE_CONTROL, cache);
        put(header::VARY, "accept-encoding");
        let policy = if name.starts_with(WORKER) {
            WORKER_POLICY
        } else {
            POLICY
        };
        put(header::CONTENT_SECURITY_POLICY, policy);
        put(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
        put(header::REFERRER_POLICY, "no-referrer");
        put(
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        );
        put(
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        );
        if gzip && !known {
            put(header::CONTENT_ENCODING, "gzip");
        }
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            headers.insert(header::ETAG, tag);
        }
        response
    }

    /// Whether a quality is `q=0`, that is, not acceptable.
    fn is_zero(quality: &str) -> bool {
        let value = quality.trim().strip_prefix("q=");
        value.is_some_and(|value| value.trim().parse() == Ok(0.0))
    }
}

#[cfg(all(test, feature = "page"))]
mod tests;
