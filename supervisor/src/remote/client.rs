//! Sends requests, and repeats them while a sidecar that answered before is away, as during a restart.

use std::cell::Cell;
use std::time::Duration;

use axum::http::StatusCode;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use super::error::RemoteError;
use super::http::{Answer, Ask};
use super::place::Place;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The client of one sidecar.
#[derive(Debug)]
pub struct Client {
    /// Where the sidecar is.
    pub place: Place,
    /// How long a sidecar that answered before may be away.
    patience: Duration,
    /// It has answered once.
    met: Cell<bool>,
}

/// What to do if a sidecar says "later".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Later {
    /// Return the answer to the caller.
    Tell,
    /// Ask again, within the client's patience.
    Again,
}

impl Client {
    /// A client of the sidecar at this place.
    pub fn new(place: Place, patience: Duration) -> Self {
        Self {
            place,
            patience,
            met: Cell::new(false),
        }
    }

    /// Pauses between the attempts at one request.
    pub fn pauses(&self) -> Pauses<'_> {
        Pauses {
            client: self,
            pause: FIRST_PAUSE,
            since: None,
        }
    }

    /// Sends a request until it is answered. Returns the answer if it is a success or has the status `also`.
    ///
    /// # Errors
    /// The sidecar refuses, or does not answer.
    pub async fn ask(
        &self,
        ask: &Ask,
        also: Option<StatusCode>,
        later: Later,
    ) -> Result<Answer, RemoteError> {
        let mut pauses = self.pauses();
        loop {
            match self.once(ask, also).await {
                Err(RemoteError::Refused(refused)) if later == Later::Tell => {
                    return Err(RemoteError::Refused(refused));
                }
                Err(error) => pauses.after(error).await?,
                Ok(answer) => return Ok(answer),
            }
        }
    }

    /// As [`Self::ask`], and parses the answer's JSON. If the answer breaks off, the request is repeated.
    ///
    /// # Errors
    /// The sidecar refuses or does not answer, or the JSON does not fit.
    pub async fn json<T: DeserializeOwned>(
        &self,
        ask: &Ask,
        later: Later,
    ) -> Result<T, RemoteError> {
        let mut pauses = self.pauses();
        loop {
            match self.ask(ask, None, later).await?.json().await {
                Err(error) => pauses.after(error).await?,
                Ok(answer) => return Ok(answer),
            }
        }
    }

    /// Sends a request once.
    ///
    /// # Errors
    /// The sidecar refuses, or does not answer.
    pub async fn once(&self, ask: &Ask, also: Option<StatusCode>) -> Result<Answer, RemoteError> {
        let answer = ask.send(&self.place).await?;
        tracing::debug!(method = %ask.method, path = ask.path, status = answer.status.as_u16(), "answered");
        self.met.set(true);
        if also == Some(answer.status) {
            return Ok(answer);
        }
        answer.success().await
    }
}

/// Growing pauses, until patience ends and the last error is returned.
#[derive(Debug)]
pub struct Pauses<'a> {
    client: &'a Client,
    pause: Duration,
    since: Option<Instant>,
}

impl Pauses<'_> {
    /// Progress was made: patience starts anew.
    pub fn reset(&mut self) {
        (self.pause, self.since) = (FIRST_PAUSE, None);
    }

    /// Pauses after an error that may pass.
    ///
    /// # Errors
    /// The error will not pass, or not in time.
    pub async fn after(&mut self, error: RemoteError) -> Result<(), RemoteError> {
        let pause = match &error {
            // No sidecar was ever there, so none is restarting.
            RemoteError::Unreachable { absent: true, .. } if !self.client.met.get() => {
                return Err(error);
            }
            RemoteError::Unreachable { .. } | RemoteError::Damaged(_) => self.pause,
            RemoteError::Refused(refused) if refused.is_for_later() => refused.pause(),
            _ => return Err(error),
        };
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        if now + pause > since + self.client.patience {
            return Err(error);
        }
        tracing::debug!(message = error.report().message, "trying again");
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
        sleep(pause).await;
        Ok(())
    }
}
