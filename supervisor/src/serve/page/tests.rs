use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use axum::response::Response;
use tower_service::Service;

use super::{embedded, is_public, link, routes};

async fn ask(method: Method, path: &str, headers: &[(&str, &str)]) -> Response {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::empty()).expect("a request");
    let answered = Service::call(&mut routes::<()>().with_state(()), request).await;
    answered.expect("routes do not fail")
}

async fn bytes(response: Response) -> Vec<u8> {
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await;
    body.expect("it is in memory").to_vec()
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    let value = headers.get(name).unwrap_or_else(|| panic!("no {name}"));
    value.to_str().expect("ASCII")
}

#[test]
fn only_reading_the_page_is_public() {
    for path in ["/", "/page/a.js", "/page/"] {
        assert!(is_public(&Method::GET, path) && is_public(&Method::HEAD, path));
        assert!(!is_public(&Method::POST, path) && !is_public(&Method::PUT, path));
    }
    for path in ["/v1/jobs", "/page", "/pages/x", "/metrics", "", "//page/x"] {
        assert!(!is_public(&Method::GET, path), "{path}");
    }
}

#[test]
fn a_link_has_any_token_as_the_page_reads_it() {
    let shown = link("http://127.0.0.1:1", Some("a+b/c=%#&"));
    assert_eq!(
        shown,
        "its page: http://127.0.0.1:1/#token=a%2Bb%2Fc%3D%25%23%26"
    );
    assert!(link("http://127.0.0.1:1", None).contains("#token=TOKEN,"));
}

#[tokio::test]
async fn each_file_is_there_and_says_what_a_browser_may_do_with_it() {
    for asset in embedded::all() {
        let response = ask(Method::GET, &format!("/page/{}", asset.name), &[]).await;
        assert_eq!(response.status(), StatusCode::OK, "{}", asset.name);
        let headers = response.headers().clone();
        let policy = text(&headers, "content-security-policy");
        assert!(policy.starts_with("default-src 'none';"), "{policy}");
        // A worker that may make functions of text may do nothing else.
        match asset.name.starts_with("basis-") {
            true => assert_eq!(policy, "default-src 'none'; script-src 'unsafe-eval'"),
            false => {
                let rest = policy.replace(" 'wasm-unsafe-eval'", "");
                assert!(!rest.contains("unsafe") && !rest.contains("http"));
            }
        }
        assert_eq!(text(&headers, "x-content-type-options"), "nosniff");
        assert_eq!(text(&headers, "referrer-policy"), "no-referrer");
        let kind = match asset.name.rsplit_once('.').map(|(_, ending)| ending) {
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("html") => "text/html; charset=utf-8",
            Some("svg") => "image/svg+xml",
            Some("wasm") => "application/wasm",
            _ => "text/plain; charset=utf-8",
        };
        assert_eq!(text(&headers, "content-type"), kind);
        let immutable = text(&headers, "cache-control").ends_with("immutable");
        let named = !matches!(asset.name, "index.html" | "licences.txt");
        assert_eq!(immutable, named, "{}", asset.name);
        assert_eq!(bytes(response).await, asset.bytes);
    }
    let none = ask(Method::GET, "/page/../Cargo.toml", &[]).await;
    assert_eq!(none.status(), StatusCode::NOT_FOUND);
}

#[test]
fn the_page_has_words_for_each_phase_and_each_error() {
    let scripts = embedded::all()
        .iter()
        .filter(|asset| asset.name.starts_with("page-"));
    let text: String = scripts
        .map(|asset| String::from_utf8_lossy(asset.bytes))
        .collect();
    for phase in proto::message::Phase::ALL {
        let said = crate::words::sentence(crate::words::doing(phase));
        assert!(
            text.contains(&format!("{}:\"{said}\"", name(&phase))),
            "{phase:?}: {said}"
        );
    }
    for code in proto::message::Code::ALL {
        assert!(text.contains(&format!("{}:\"", name(&code))), "{code:?}");
    }
}

/// As JSON has it.
fn name(word: &impl serde::Serialize) -> String {
    let json = serde_json::to_value(word).expect("a word");
    json.as_str().expect("a word").to_owned()
}

#[tokio::test]
async fn the_page_names_nothing_outside_and_nothing_inline() {
    let page = String::from_utf8(bytes(ask(Method::GET, "/", &[]).await).await).expect("UTF-8");
    for word in ["http://", "https://", "//", "style=", "onclick", "<style"] {
        assert!(!page.contains(word), "{word}");
    }
    let named = |start: &str| {
        let (_, rest) = page.split_once(start).expect(start);
        rest.split('"').next().expect("quoted").to_owned()
    };
    for name in [
        named("src=\"/page/"),
        named("rel=\"stylesheet\" href=\"/page/"),
    ] {
        assert!(
            embedded::all().iter().any(|asset| asset.name == name),
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_browser_that_has_a_file_is_told_so() {
    let first = ask(Method::GET, "/", &[]).await;
    let tag = text(first.headers(), "etag").to_owned();
    assert!(tag.starts_with('"') && tag.len() > 30, "{tag}");
    for known in [tag.clone(), format!("\"x\", W/{tag}"), "*".to_owned()] {
        let again = ask(Method::GET, "/", &[("if-none-match", &known)]).await;
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED, "{known}");
        assert_eq!(text(again.headers(), "etag"), tag);
        assert!(bytes(again).await.is_empty());
    }
    let other = ask(Method::GET, "/", &[("if-none-match", "\"x\"")]).await;
    assert_eq!(other.status(), StatusCode::OK);
}

#[tokio::test]
async fn head_tells_the_same_without_a_body_and_nothing_can_be_written() {
    let (head, get) = (
        ask(Method::HEAD, "/", &[]).await,
        ask(Method::GET, "/", &[]).await,
    );
    for name in ["etag", "content-type", "content-security-policy"] {
        assert_eq!(text(head.headers(), name), text(get.headers(), name));
    }
    assert_eq!(head.status(), StatusCode::OK);
    assert!(bytes(head).await.is_empty());
    let post = ask(Method::POST, "/", &[]).await;
    assert_eq!(post.status(), StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn who_takes_gzip_gets_it_under_a_tag_of_its_own() {
    let plain = ask(Method::GET, "/", &[("accept-encoding", "br, gzip;q=0")]).await;
    assert!(!plain.headers().contains_key(header::CONTENT_ENCODING));
    let packed = ask(
        Method::GET,
        "/",
        &[("accept-encoding", "deflate, gzip;q=0.5")],
    )
    .await;
    assert_eq!(text(packed.headers(), "content-encoding"), "gzip");
    assert_ne!(
        text(packed.headers(), "etag"),
        text(plain.headers(), "etag")
    );
    let packed = bytes(packed).await;
    assert_eq!(packed[..2], [0x1f, 0x8b], "gzip's magic number");
    assert!(packed.len() < bytes(plain).await.len());
}
