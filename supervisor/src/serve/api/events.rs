//! What happens to a job → server-sent events, from the beginning or from where a reader left off.
//!
//! `Last-Event-ID` takes the stream up again; after `done` it ends, and a reader that comes back then is told 204, upon which an
//! `EventSource` gives up.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{document as doc, job};
use crate::serve::board::{Entry, Live};
use crate::serve::listen::Peer;
use crate::serve::problem::Problem;
use crate::serve::service::Service;
use crate::store::JobId;

/// For a reader that lost its connection.
const RETRY: Duration = Duration::from_secs(1);
/// A comment in between, so that nobody takes the silence for an end.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// `GET /v1/jobs/{id}/events`.
pub async fn events(
    State(service): State<Service>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (stored, now) = job::find(&service, &peer, &id).await?;
    let last: Option<u64> = headers
        .get("last-event-id")
        .and_then(|value| value.to_str().ok()?.parse().ok());
    let live = match service.board.find(stored.id) {
        Some(live) => live,
        // Nothing is known but its end: it ended long ago, or under another process.
        None if stored.state.is_terminal() && last.is_some() => {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
        None if stored.state.is_terminal() => {
            let body = job::show(&stored, now.as_ref()).to_string();
            let only = event(1, "done", &body);
            return Ok(answer(stream::iter([Ok(only)])));
        }
        None => service.board.place(stored.id),
    };
    // A number of an earlier process means nothing here.
    let last = last
        .filter(|last| *last < *live.changes().borrow())
        .unwrap_or(0);
    if last > 0 && live.now().state.is_over() && live.after(last).is_empty() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(answer(follow(service, stored.id, live, last)))
}

fn answer(stream: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Response {
    let mut response = Sse::new(stream)
        .keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
        .into_response();
    // For proxies that gather an answer before they pass it on.
    response
        .headers_mut()
        .insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

struct Reader {
    service: Service,
    id: JobId,
    live: Arc<Live>,
    changes: watch::Receiver<u64>,
    last: u64,
    ready: VecDeque<Entry>,
    over: bool,
}

fn follow(
    service: Service,
    id: JobId,
    live: Arc<Live>,
    last: u64,
) -> impl Stream<Item = Result<Event, Infallible>> + Send {
    let reader = Reader {
        service,
        id,
        changes: live.changes(),
        live,
        last,
        ready: VecDeque::new(),
        over: false,
    };
    stream::unfold(reader, async |mut reader: Reader| {
        loop {
            if reader.over {
                return None;
            }
            if let Some(entry) = reader.ready.pop_front() {
                reader.last = entry.seq;
                reader.over = entry.kind == "done";
                let told = match reader.over {
                    true => event(entry.seq, entry.kind, &reader.end(&entry).await),
                    false => event(entry.seq, entry.kind, &entry.data),
                };
                return Some((Ok(told), reader));
            }
            reader.changes.borrow_and_update();
            reader.ready = reader.live.after(reader.last).into();
            if reader.ready.is_empty() && reader.changes.changed().await.is_err() {
                return None;
            }
        }
    })
}

impl Reader {
    /// The whole job, for its last event: the store has it, the board would keep it for an hour.
    async fn end(&self, entry: &Entry) -> String {
        match self.service.store.get(self.id).await {
            Ok(job) => job::show(&job, Some(&self.live.now())).to_string(),
            // It was forgotten since.
            Err(_) => entry.data.to_string(),
        }
    }
}

fn event(seq: u64, kind: &str, data: &str) -> Event {
    let event = Event::default().id(seq.to_string()).event(kind).data(data);
    if seq == 1 { event.retry(RETRY) } else { event }
}

/// For the document.
pub(super) fn about() -> Value {
    json!({
        "parameters": [doc::in_path("id", doc::id())],
        "get": doc::operation(
            "events",
            "What happens, as server-sent events: state, progress, log, done",
            json!({ "parameters": doc::headers(&["Last-Event-ID"]) }),
            doc::of_a_job(json!({
                "200": doc::answer("The stream", "text/event-stream", doc::schema("Event")),
                "204": doc::bare("Nothing follows"),
            })),
        ),
    })
}
