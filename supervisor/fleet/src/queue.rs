//! A NATS server → messages: ids of jobs, each handed to one host at a time until it is acked; progress; wake-ups.
//!
//! A message that is neither acked nor told to be in progress for [`ACK_WAIT`] goes to another host. The client reconnects
//! by itself; what is published meanwhile waits, or fails after [`PATIENCE`].

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, RetentionPolicy, StorageType};
use async_nats::jetstream::{AckKind, Context, ContextBuilder, Message};
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use serde::Serialize;
use tokio::time::timeout;

use crate::FleetError;
use crate::fate::MOST_DELIVERIES;

/// How long a host may be silent about a job that it was handed.
pub const ACK_WAIT: Duration = Duration::from_secs(15);
/// Longest wait for an answer of the server.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest wait for a message; then it is asked for again.
const PULL: Duration = Duration::from_secs(5);
/// Jobs that may be at work in all hosts together.
const MOST_AT_WORK: i64 = 20_000;
/// Pulls that may wait at once: one of each host.
const MOST_WAITING: i64 = 20_000;
const JOBS: &str = "KILN_JOBS";
const DEAD: &str = "KILN_DEAD";
const CONSUMER: &str = "kiln";

/// Where a queue is, and who asks.
#[derive(Clone, Debug)]
pub struct Access {
    /// `nats://host:4222`, `tls://…`, several with commas between them.
    pub address: String,
    /// A file of credentials (`.creds`), or with the seed of an nkey.
    pub credentials: Option<PathBuf>,
    /// Replies come beneath this subject, which nobody else may read.
    pub inbox: String,
    /// For the server's lists of connections.
    pub name: String,
}

/// A connection; see the head of this file.
#[derive(Clone, Debug)]
pub struct Queue {
    client: Client,
    jetstream: Context,
    /// The last refusal of the server's, which no request is told of.
    refusal: Arc<Mutex<Option<String>>>,
}

/// A job that this host was handed.
#[derive(Debug)]
pub struct Delivery {
    /// The job's id.
    pub id: String,
    /// Whose it is.
    pub tenant: String,
    /// How often the job was handed out, this time included.
    pub delivered: i64,
    message: Message,
}

/// What waits.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Depth {
    /// Jobs that no host has.
    pub waiting: u64,
    /// Jobs that hosts have, or that rest after a failure.
    pub taken: usize,
    /// Jobs among them that were handed out more than once.
    pub redelivered: usize,
    /// Hosts that wait for a job.
    pub idle_pulls: usize,
    /// Age of the oldest job in the queue.
    pub oldest_s: Option<u64>,
    /// Results in `KILN_DEAD`.
    pub dead: u64,
}

impl Queue {
    /// Connects. `patient`: a server that is not there yet is waited for.
    ///
    /// # Errors
    /// The credentials cannot be used, or nothing answers.
    pub async fn connect(access: &Access, patient: bool) -> Result<Self, FleetError> {
        let refusal: Arc<Mutex<Option<String>>> = Arc::default();
        let heard = Arc::clone(&refusal);
        let mut options = ConnectOptions::new()
            .name(&access.name)
            .custom_inbox_prefix(&access.inbox)
            .ping_interval(Duration::from_secs(10))
            .connection_timeout(PATIENCE)
            .request_timeout(Some(PATIENCE))
            .reconnect_delay_callback(|attempts| {
                let ms = 50_u64 << attempts.min(5);
                Duration::from_millis(ms)
            })
            .event_callback(move |event| {
                let heard = Arc::clone(&heard);
                async move {
                    match event {
                        Event::ServerError(error) => {
                            tracing::warn!("the queue refuses: {error}");
                            let mut last = heard.lock().unwrap_or_else(PoisonError::into_inner);
                            *last = Some(error.to_string());
                        }
                        Event::Connected => tracing::info!("connected to the queue"),
                        Event::Disconnected => tracing::warn!("the queue is away"),
                        other => tracing::debug!("queue: {other}"),
                    }
                }
            });
        if let Some(path) = &access.credentials {
            options = with_credentials(options, path)?;
        }
        if patient {
            options = options.retry_on_initial_connect();
        }
        let client = options.connect(&access.address).await.map_err(|error| {
            let message = format!("the queue at {}: {error}", access.address);
            match error.kind() {
                ConnectErrorKind::ServerParse => FleetError::Usage(message),
                ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                    FleetError::Denied(message)
                }
                _ => FleetError::Unreachable(message),
            }
        })?;
        let jetstream = ContextBuilder::new()
            .timeout(PATIENCE)
            .ack_timeout(PATIENCE)
            .build(client.clone());
        Ok(Self {
            client,
            jetstream,
            refusal,
        })
    }

    /// Makes streams and consumer, unless they are there, and returns the consumer.
    ///
    /// # Errors
    /// The server does not answer, or these credentials may not make them.
    pub async fn prepare(&self, replicas: usize) -> Result<PullConsumer, FleetError> {
        let wrong = |error: &dyn std::fmt::Display| self.failed("its streams", error);
        let stream = |name: &str, subject: &str, retention| Config {
            name: name.to_owned(),
            subjects: vec![subject.to_owned()],
            retention,
            storage: StorageType::File,
            num_replicas: replicas,
            ..Config::default()
        };
        let dead = stream(DEAD, "kiln.dead.*", RetentionPolicy::Limits);
        let dead = self.jetstream.get_or_create_stream(dead).await;
        dead.map_err(|error| wrong(&error))?;
        let jobs = stream(JOBS, "kiln.jobs.*", RetentionPolicy::WorkQueue);
        let jobs = self.jetstream.get_or_create_stream(jobs).await;
        let jobs = jobs.map_err(|error| wrong(&error))?;
        let config = pull::Config {
            durable_name: Some(CONSUMER.to_owned()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            // Nothing is dropped in silence: hosts count attempts, and end a job that has had too many.
            max_deliver: -1,
            max_ack_pending: MOST_AT_WORK,
            max_waiting: MOST_WAITING,
            ..pull::Config::default()
        };
        let consumer = jobs.get_or_create_consumer(CONSUMER, config).await;
        consumer.map_err(|error| wrong(&error))
    }

    /// Says that a job is to be done. Said again within the stream's window, it is said once.
    ///
    /// # Errors
    /// The server does not take it.
    pub async fn submit(&self, tenant: &str, id: &str) -> Result<(), FleetError> {
        let subject = format!("kiln.jobs.{tenant}");
        match self.publish(&subject, id, Bytes::from(id.to_owned())).await {
            Err(Refused::NoStream(_)) => {
                self.prepare(1).await?;
                let again = self.publish(&subject, id, Bytes::from(id.to_owned())).await;
                again.map_err(Refused::into)
            }
            other => other.map_err(Refused::into),
        }
    }

    /// Lays a result down that no host could make.
    ///
    /// # Errors
    /// The server does not take it.
    pub async fn bury(&self, tenant: &str, id: &str, result: Vec<u8>) -> Result<(), FleetError> {
        let (subject, message) = (format!("kiln.dead.{tenant}"), format!("dead-{id}"));
        let laid = self.publish(&subject, &message, result.into());
        laid.await.map_err(Refused::into)
    }

    async fn publish(&self, subject: &str, id: &str, payload: Bytes) -> Result<(), Refused> {
        let message = PublishMessage::build().payload(payload).message_id(id);
        let sent = async {
            let message = self.jetstream.send_publish(subject.to_owned(), message);
            message.await?.await
        };
        sent.await.map(drop).map_err(|error| {
            let failed = self.failed(subject, &error);
            match error.kind() {
                PublishErrorKind::StreamNotFound => Refused::NoStream(failed),
                _ => Refused::Other(failed),
            }
        })
    }

    /// Hands out a job, or none in a while.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn pull(&self, consumer: &PullConsumer) -> Result<Option<Delivery>, FleetError> {
        let wrong = |error: &dyn std::fmt::Display| self.failed("a pull", error);
        let mut batch = (consumer.batch().max_messages(1).expires(PULL))
            .messages()
            .await
            .map_err(|error| wrong(&error))?;
        // A server that was restarted meanwhile has forgotten the pull.
        let next = timeout(PULL + PATIENCE, batch.next()).await;
        let Ok(Some(message)) = next else {
            return Ok(None);
        };
        let message = message.map_err(|error| wrong(&error))?;
        let info = message.info().map_err(|error| wrong(&error))?;
        let delivered = info.delivered;
        let tenant = message.subject.rsplit('.').next().unwrap_or_default();
        Ok(Some(Delivery {
            id: String::from_utf8_lossy(&message.payload).into_owned(),
            tenant: tenant.to_owned(),
            delivered,
            message,
        }))
    }

    /// Tells who listens what happens to a job. Nobody need.
    pub async fn tell(&self, tenant: &str, id: &str, event: Vec<u8>) {
        let subject = format!("kiln.events.{tenant}.{id}");
        let sent = in_time(self.client.publish(subject, event.into()));
        // While the queue is away, what is sent would only pile up.
        if self.client.connection_state() != State::Connected || sent.await.is_none() {
            tracing::debug!("an event is lost");
        }
    }

    /// What happens to a job.
    ///
    /// # Errors
    /// The connection is gone.
    pub async fn events(&self, tenant: &str, id: &str) -> Result<Subscriber, FleetError> {
        let subject = format!("kiln.events.{tenant}.{id}");
        let subscribed = self.client.subscribe(subject).await;
        subscribed.map_err(|error| self.failed("events", &error))
    }

    /// Wakes who works on a job, to see that it is cancelled.
    pub async fn wake(&self, tenant: &str, id: &str) {
        let subject = format!("kiln.cancel.{tenant}.{id}");
        let sent = in_time(self.client.publish(subject, Bytes::new())).await;
        if sent.is_none() || in_time(self.client.flush()).await.is_none() {
            tracing::debug!("nobody is woken: the job ends when its host looks next");
        }
    }

    /// The wake-ups for all jobs; the last part of a subject is the job's id.
    ///
    /// # Errors
    /// The connection is gone.
    pub async fn wakes(&self) -> Result<Subscriber, FleetError> {
        let subscribed = self.client.subscribe("kiln.cancel.*.*").await;
        subscribed.map_err(|error| self.failed("wake-ups", &error))
    }

    /// What waits.
    ///
    /// # Errors
    /// The server does not answer, or there is no queue yet.
    pub async fn depth(&self) -> Result<Depth, FleetError> {
        let wrong = |error: &dyn std::fmt::Display| self.failed("its streams", error);
        let jobs = self.jetstream.get_stream(JOBS).await;
        let jobs = jobs.map_err(|error| wrong(&error))?;
        let info = jobs.consumer_info(CONSUMER).await;
        let info = info.map_err(|error| wrong(&error))?;
        let dead = self.jetstream.get_stream(DEAD).await;
        let dead = dead.map_err(|error| wrong(&error))?;
        let state = &jobs.cached_info().state;
        let since = state.first_timestamp.unix_timestamp();
        let now = i64::try_from(crate::now_ms() / 1000).unwrap_or(i64::MAX);
        Ok(Depth {
            waiting: info.num_pending,
            taken: info.num_ack_pending,
            redelivered: info.num_redelivered,
            idle_pulls: info.num_waiting,
            oldest_s: (state.messages > 0).then(|| u64::try_from(now - since).unwrap_or(0)),
            dead: dead.cached_info().state.messages,
        })
    }

    /// Whether the server answers now.
    ///
    /// # Errors
    /// It does not, or refuses.
    pub async fn check(&self) -> Result<(), FleetError> {
        match in_time(self.client.flush()).await {
            Some(()) if self.client.connection_state() == State::Connected => Ok(()),
            _ => Err(self.failed("a look", &"it does not answer")),
        }
    }

    /// What was published is on its way.
    pub async fn flush(&self) {
        if in_time(self.client.flush()).await.is_none() {
            tracing::debug!("the queue does not take what is left");
        }
    }

    fn failed(&self, what: &str, error: &dyn std::fmt::Display) -> FleetError {
        let mut last = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        match last.take() {
            // The request itself has only seen that no answer came.
            Some(refusal) => FleetError::Denied(format!("the queue, {what}: {refusal}")),
            None => FleetError::Unreachable(format!("the queue, {what}: {error}")),
        }
    }
}

/// What a request to the connection itself gives; `None` if it fails or waits too long, as it does while the server is away.
async fn in_time<T, E>(request: impl Future<Output = Result<T, E>>) -> Option<T> {
    timeout(PATIENCE, request).await.ok()?.ok()
}

enum Refused {
    NoStream(FleetError),
    Other(FleetError),
}

impl From<Refused> for FleetError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::NoStream(error) | Refused::Other(error) => error,
        }
    }
}

fn with_credentials(options: ConnectOptions, path: &Path) -> Result<ConnectOptions, FleetError> {
    let bad = |why: String| FleetError::Usage(format!("the credentials {}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
    if text.contains("NATS USER JWT") {
        return (options.credentials(&text)).map_err(|error| bad(error.to_string()));
    }
    let mut lines = text.lines().map(str::trim);
    match lines.find(|line| line.starts_with("SU")) {
        Some(seed) => Ok(options.nkey(seed.to_owned())),
        None => Err(bad(
            "neither credentials of a user (.creds) nor the seed of an nkey (SU…)".to_owned(),
        )),
    }
}

impl Delivery {
    /// Whether the job has been handed out too often, for whatever reasons.
    #[must_use]
    pub fn too_often(&self) -> bool {
        self.delivered > MOST_DELIVERIES
    }

    /// The job advances.
    ///
    /// # Errors
    /// The connection is gone.
    pub async fn advances(&self) -> Result<(), FleetError> {
        self.ack(AckKind::Progress, false).await
    }

    /// The job is over, and the server has confirmed that it knows.
    ///
    /// # Errors
    /// The server does not answer: the job is handed out again.
    pub async fn done(&self) -> Result<(), FleetError> {
        self.ack(AckKind::Ack, true).await
    }

    /// The job has failed for good, and the server has confirmed that it knows.
    ///
    /// # Errors
    /// The server does not answer: the job is handed out again.
    pub async fn term(&self) -> Result<(), FleetError> {
        self.ack(AckKind::Term, true).await
    }

    /// Another host is to take the job after a while.
    ///
    /// # Errors
    /// The server does not answer: the job is handed out after [`ACK_WAIT`].
    pub async fn later(&self, delay: Duration) -> Result<(), FleetError> {
        self.ack(AckKind::Nak(Some(delay)), true).await
    }

    async fn ack(&self, kind: AckKind, confirmed: bool) -> Result<(), FleetError> {
        let sent = async {
            match confirmed {
                true => self.message.double_ack_with(kind).await,
                false => self.message.ack_with(kind).await,
            }
        };
        let failed = |why: &str| Err(FleetError::Unreachable(format!("the queue, an ack: {why}")));
        match timeout(PATIENCE, sent).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => failed(&error.to_string()),
            Err(_) => failed("no answer in time"),
        }
    }
}
