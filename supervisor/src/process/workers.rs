//! Worker threads for calls that may block. One thread lives as long as this process; others join it while it
//! is busy.
//!
//! A file system that does not answer blocks a thread, not the supervisor, and the next caller gets another thread.
//! Unlike tokio's `spawn_blocking`, nothing here panics if the host cannot create a thread. The work then waits for an
//! existing thread. If there is none at all, it runs on the caller's thread, which may block signals but gives a
//! result.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use tokio::sync::oneshot;

/// Maximum number of threads; further work waits. All but a few are blocked by file systems that do not answer.
const MOST: usize = 64;
/// An additional thread exits after this time without work.
const IDLE: Duration = Duration::from_secs(1);

type Work = Box<dyn FnOnce() + Send>;

static WORKERS: Workers = Workers::new();

/// Runs `work` on another thread. If it panics, no answer arrives.
pub fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> oneshot::Receiver<T> {
    WORKERS.run(work)
}

#[derive(Debug)]
struct Workers {
    desk: Mutex<Desk>,
    called: Condvar,
}

struct Desk {
    waiting: VecDeque<Work>,
    /// Threads that wait for work.
    idle: usize,
    threads: usize,
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            waiting,
            idle,
            threads,
        } = self;
        let waiting = waiting.len();
        write!(
            formatter,
            "{waiting} waiting, {idle} of {threads} threads idle"
        )
    }
}

impl Workers {
    const fn new() -> Self {
        Self {
            desk: Mutex::new(Desk {
                waiting: VecDeque::new(),
                idle: 0,
                threads: 0,
            }),
            called: Condvar::new(),
        }
    }

    fn run<T: Send + 'static>(
        &'static self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (sender, receiver) = oneshot::channel();
        // The caller may have stopped waiting: then the answer is dropped here.
        let here = self.put(Box::new(move || drop(sender.send(work()))));
        if let Some(work) = here {
            done(work);
        }
        receiver
    }

    /// Queues work; returns it if no thread can do it.
    fn put(&'static self, work: Work) -> Option<Work> {
        let mut desk = self.desk();
        desk.waiting.push_back(work);
        if desk.waiting.len() > desk.idle && desk.threads < MOST {
            let thread = Builder::new().name("files".to_owned());
            match thread.spawn(|| self.serve()) {
                Ok(_detached) => desk.threads += 1,
                Err(error) => {
                    tracing::debug!(%error, "no thread for files: {:?}", *desk);
                    if desk.threads == 0 {
                        return desk.waiting.pop_back();
                    }
                }
            }
        }
        drop(desk);
        self.called.notify_one();
        None
    }

    fn serve(&self) {
        while let Some(work) = self.next() {
            done(work);
        }
    }

    /// Waits for work; `None` tells the thread to exit.
    fn next(&self) -> Option<Work> {
        let mut desk = self.desk();
        loop {
            if let Some(work) = desk.waiting.pop_front() {
                return Some(work);
            }
            desk.idle += 1;
            let woken = self.called.wait_timeout(desk, IDLE);
            let (woken, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
            desk = woken;
            desk.idle -= 1;
            if timeout.timed_out() && desk.waiting.is_empty() && desk.threads > 1 {
                desk.threads -= 1;
                return None;
            }
        }
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the work. A panic ends the work but not the thread; the receiver of the answer learns of it.
fn done(work: Work) {
    drop(catch_unwind(AssertUnwindSafe(work)));
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn fresh() -> &'static Workers {
        Box::leak(Box::new(Workers::new()))
    }

    #[test]
    fn work_that_blocks_holds_up_nobody_else() {
        let workers = fresh();
        let (release, blocked) = mpsc::channel::<()>();
        let held = workers.run(move || blocked.recv().is_ok());
        for number in 0..100 {
            assert_eq!(workers.run(move || number).blocking_recv(), Ok(number));
        }
        release.send(()).expect("it waits");
        assert_eq!(held.blocking_recv(), Ok(true));
        assert!(workers.desk().threads <= MOST, "{:?}", workers.desk());
    }

    #[test]
    fn a_panic_ends_the_work_alone() {
        let workers = fresh();
        for _ in 0..MOST / 2 {
            let panics = workers.run(|| -> u32 { panic!("planned") });
            assert!(panics.blocking_recv().is_err());
        }
        assert_eq!(workers.run(|| 7).blocking_recv(), Ok(7));
        assert!(workers.desk().threads <= MOST, "{:?}", workers.desk());
    }

    #[test]
    fn all_work_is_done_though_most_of_it_waits() {
        let workers = fresh();
        let answers: Vec<_> = (0..1000).map(|k| workers.run(move || k)).collect();
        for (k, answer) in answers.into_iter().enumerate() {
            assert_eq!(answer.blocking_recv(), Ok(k));
        }
        assert!(workers.desk().threads <= MOST);
    }
}
