//! Requests → answers, repeated while a sidecar that was there is away, as when it is restarted.

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

/// See the head of this file.
#[derive(Debug)]
pub struct Client {
    /// Where the sidecar is.
    pub place: Place,
    /// How long one that was there may be away.
    patience: Duration,
    /// It has answered once.
    met: Cell<bool>,
}

/// Whether a sidecar that says "later" is asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Later {
    /// The caller decides.
    Tell,
    /// Within the client's patience.
    Again,
}

impl Client {
    /// Of the sidecar at this place.
    #[must_use]
    pub fn new(place: Place, patience: Duration) -> Self {
        Self {
            place,
            patience,
            met: Cell::new(false),
        }
    }

    /// Pauses between the attempts at one thing.
    #[must_use]
    pub fn pauses(&self) -> Pauses<'_> {
        Pauses {
            client: self,
            pause: FIRST_PAUSE,
            since: None,
        }
    }

    /// Sends a request until it is answered, and gives the answer if it is a success or has the status `also`.
    ///
    /// # Errors
    /// The sidecar refuses, or nobody answers.
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

    /// [`Self::ask`], and the answer's JSON: one that breaks off is asked for again, too.
    ///
    /// # Errors
    /// The sidecar refuses, nobody answers, or it is no such JSON.
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
    /// The sidecar refuses, or nobody answers.
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

/// Longer and longer, until patience ends and the last error is told.
#[derive(Debug)]
pub struct Pauses<'a> {
    client: &'a Client,
    pause: Duration,
    since: Option<Instant>,
}

impl Pauses<'_> {
    /// Something was learnt: patience begins anew.
    pub fn reset(&mut self) {
        (self.pause, self.since) = (FIRST_PAUSE, None);
    }

    /// Pauses after an error that may pass.
    ///
    /// # Errors
    /// It will not, or not in time.
    pub async fn after(&mut self, error: RemoteError) -> Result<(), RemoteError> {
        let pause = match &error {
            // Nobody was ever there: nobody is restarted.
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
        tracing::debug!(message = error.told().message, "trying again");
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
        sleep(pause).await;
        Ok(())
    }
}
