//! The sidecar: accepts jobs by HTTP over a Unix socket and runs them with the same supervisor as `kiln bake`. Accepted
//! jobs survive this process.
//!
//! ```text
//!  listen ─► guard ─► api ──► store (accepted only once it is on disk)
//!                      │         ▲
//!                      ▼         │ began, finished
//!                    board ◄── schedule ──► job::run, several at once
//! ```
//!
//! Everything but the store's writer runs on the supervisor's one thread. The sidecar decodes nothing and leaves
//! blocking disk work to other threads.

pub mod api;

pub mod board;

pub mod elsewhere;

pub mod folder;

pub mod framing;

pub mod guard;

pub mod inputs;

pub mod listen;

mod metrics;

mod options;

pub mod page;

pub mod problem;

pub mod proof;

mod queue;

pub mod schedule;

pub mod service;

pub mod site;

pub mod slots;

pub mod steady;

mod work;

use std::cell::Cell;
use std::io::IsTerminal;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use proto::exit;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::LocalSet;

use self::elsewhere::Elsewhere;
use self::framing::{Doubled, Heads};
use self::guard::Guard;
use self::listen::{Peer, Sockets, Stream};
use self::service::notify;
use self::site::Origin;
use self::slots::{Seat, Slots};
use self::steady::{Awaited, Steady};
use crate::error::JobError;
use crate::print;
use crate::signals::Signals;

pub use options::Options;

/// For a request's head to come, the silence before it included.
const HEAD: Duration = Duration::from_secs(15);
/// Pause after a connection could not be accepted, in which others may close theirs.
const PAUSE: Duration = Duration::from_millis(50);
/// Time for answers in progress at shutdown.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
/// Time for running jobs at shutdown; a second signal ends it.
const DRAIN: Duration = Duration::from_secs(20);

/// Serves until a signal ends it, and gives the exit code: 0 only where it was told to leave. Jobs are done here, or elsewhere.
pub async fn run(options: Options, elsewhere: Option<Rc<dyn Elsewhere>>) -> u8 {
    match serve(options, elsewhere).await {
        Ok(()) => exit::OK,
        Err(error) => {
            print::complain("", &error);
            error.exit_code
        }
    }
}

async fn serve(
    options: Options,
    elsewhere: Option<Rc<dyn Elsewhere>>,
) -> Result<(), Box<JobError>> {
    let mut signals = Signals::listen()?;
    let local = LocalSet::new();
    let guard = Arc::new(Guard {
        uids: options.allow_uid.clone(),
        token: options.token.clone(),
        sites: options.sites.clone(),
    });
    // The store first, so that a client that can connect finds all earlier jobs.
    let (service, scheduler) = schedule::open(&options, elsewhere)?;
    let public = options.sites.public.as_ref();
    let sockets = Sockets::open(&options.socket, options.tcp, public.is_some())?;
    for place in sockets.places() {
        tracing::info!("listens at {place}");
        print::say(&format!("listens at {place}"));
        if cfg!(feature = "page") && place.starts_with("http://") {
            let place = public.map_or(place.as_str(), Origin::url);
            // A log is no place for the token: whoever reads it would be let in.
            let token = options.token.as_deref();
            let shown = token.filter(|_| std::io::stderr().is_terminal());
            print::say(&page::link(place, shown));
        }
    }
    print::say("serves");
    notify(&[sd_notify::NotifyState::Ready]);
    let router = api::router(service.clone(), Arc::clone(&guard));
    let graceful = GracefulShutdown::new();
    let work = scheduler.run();
    let leave = async {
        let signal = tokio::select! {
            signal = signals.any() => signal,
            () = service.asked_to_leave() => {
                tracing::info!("drained on order: no new jobs, and those at work to their end");
                notify(&[sd_notify::NotifyState::Stopping]);
                tokio::select! {
                    () = service.idle() => return service.leave(),
                    signal = signals.any() => signal,
                }
            }
        };
        tracing::info!(
            "{signal}: no new jobs, {} s for those at work",
            DRAIN.as_secs()
        );
        notify(&[sd_notify::NotifyState::Stopping]);
        service.drain();
        tokio::select! {
            () = tokio::time::sleep(DRAIN) => {}
            () = service.idle() => {}
            _ = signals.any() => {}
        }
        service.leave();
    };
    local
        .run_until(async {
            let ended = tokio::select! {
                // Ends only once it was told to exit and everything is in the store.
                ended = work => ended,
                () = accept(&sockets, &guard, &router, &graceful) => unreachable!("accepts for ever"),
                () = async { leave.await; std::future::pending::<()>().await } => unreachable!("waits for the scheduler"),
            };
            let answered = tokio::time::timeout(LAST_ANSWERS, graceful.shutdown()).await;
            if answered.is_err() {
                tracing::debug!("connections were cut");
            }
            ended
        })
        .await
}

#[expect(
    clippy::infinite_loop,
    reason = "its caller drops it when the sidecar drains"
)]
async fn accept(sockets: &Sockets, guard: &Guard, router: &Router, graceful: &GracefulShutdown) {
    let slots = Slots::new();
    loop {
        let (stream, peer) = match sockets.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                // Most likely out of descriptors: makes idle connections close theirs.
                slots.give_way();
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let seat = Arc::new(slots.take(guard.sitter(&peer)));
        let router = router.clone();
        let connection = async move |watcher: hyper_util::server::graceful::Watcher| {
            let talk = async {
                match stream {
                    Stream::Unix(stream) => converse(stream, peer, &seat, router, watcher).await,
                    Stream::Tcp(stream) => converse(stream, peer, &seat, router, watcher).await,
                }
            };
            tokio::select! {
                biased;
                () = seat.given_up() => tracing::debug!("a connection was cut"),
                ended = talk => if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended");
                },
            }
        };
        tokio::task::spawn_local(connection(graceful.watcher()));
    }
}

async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    peer: Peer,
    seat: &Arc<Seat>,
    router: Router,
    watcher: hyper_util::server::graceful::Watcher,
) -> Result<(), hyper::Error> {
    let (doubled, asked) = (Doubled::default(), Cell::new(0));
    let heads = Heads::new(doubled.clone());
    let io = TokioIo::new(Steady::new(stream, Arc::clone(seat), heads));
    let service = service_fn(|request: Request<Incoming>| {
        let mut request = request.map(|body| Body::new(Awaited::new(body)));
        asked.set(asked.get() + 1);
        if let Some(double) = doubled.mark(asked.get()) {
            request.extensions_mut().insert(double);
        }
        request.extensions_mut().insert(peer.clone());
        request.extensions_mut().insert(Arc::clone(seat));
        tower_service::Service::call(&mut router.clone(), request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(io, service);
    watcher.watch(connection).await
}
