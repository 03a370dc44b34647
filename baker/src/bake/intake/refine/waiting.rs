//! Task queue of the refinement. Threads examine what views show of the texture before they compare silhouettes, since
//! an adapter waits for all of the former.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use proto::table::View;

#[derive(Debug)]
pub(super) enum Task {
    /// Examine what it shows of the texture.
    Look(Arc<View>),
    /// Compare its silhouette; the number is the view's.
    Compare(usize, Arc<View>),
}

/// Waiting and running tasks.
#[derive(Debug)]
pub(super) struct Waiting {
    queues: Mutex<Queues>,
    looked: Condvar,
}

#[derive(Debug)]
struct Queues {
    looks: VecDeque<Arc<View>>,
    silhouettes: VecDeque<(usize, Arc<View>)>,
    /// Examinations in progress.
    looking: usize,
    /// Threads that were requested and have not yet run out of tasks.
    threads: usize,
    /// The most of those.
    most: usize,
}

/// An examination in progress; dropping it ends it, whatever the result.
#[derive(Debug)]
pub(super) struct Looking<'a>(&'a Waiting);

impl Default for Waiting {
    fn default() -> Self {
        Self::for_few(usize::MAX)
    }
}

impl Waiting {
    /// For at most `most` threads at once.
    pub(super) fn for_few(most: usize) -> Self {
        Self {
            queues: Mutex::new(Queues {
                looks: VecDeque::new(),
                silhouettes: VecDeque::new(),
                looking: 0,
                threads: 0,
                most,
            }),
            looked: Condvar::new(),
        }
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a task. Returns whether another thread shall call [`Self::next`] until it has none.
    pub(super) fn add(&self, task: Task) -> bool {
        let mut queues = self.queues();
        match task {
            Task::Look(view) => queues.looks.push_back(view),
            Task::Compare(number, view) => queues.silhouettes.push_back((number, view)),
        }
        let more = queues.threads < queues.most;
        queues.threads += usize::from(more);
        more
    }

    /// Lifts the limit of threads; returns how many more there is work for.
    pub(super) fn for_all(&self) -> usize {
        let mut queues = self.queues();
        queues.most = usize::MAX;
        let more = queues.looks.len() + queues.silhouettes.len();
        queues.threads += more;
        more
    }

    /// The next task of a thread. An examination ends when its second value is dropped.
    pub(super) fn next(&self) -> Option<(Task, Option<Looking<'_>>)> {
        let mut queues = self.queues();
        if let Some(view) = queues.looks.pop_front() {
            queues.looking += 1;
            return Some((Task::Look(view), Some(Looking(self))));
        }
        let Some((number, view)) = queues.silhouettes.pop_front() else {
            queues.threads = queues.threads.saturating_sub(1);
            return None;
        };
        Some((Task::Compare(number, view), None))
    }

    /// Waits until every examination that was added has ended.
    pub(super) fn await_looks(&self) {
        let mut queues = self.queues();
        while queues.looking > 0 || !queues.looks.is_empty() {
            let woken = self.looked.wait(queues);
            queues = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        self.0.queues().looking -= 1;
        self.0.looked.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;
    use crate::bake::fixture::{blank_view, camera};

    fn view() -> Arc<View> {
        let size = [4, 4];
        let camera = camera([0.0, 0.0, 3.0], 4.0, size, [0.0; 2]);
        Arc::new(blank_view(0, camera, size, vec![[0; 4]; 16]))
    }

    #[test]
    fn looks_come_before_silhouettes_each_in_their_order() {
        let waiting = Waiting::default();
        for number in 0..3 {
            waiting.add(Task::Compare(number, view()));
        }
        let first = waiting.next();
        assert!(matches!(first, Some((Task::Compare(0, _), None))));
        waiting.add(Task::Look(view()));
        waiting.add(Task::Look(view()));
        for _ in 0..2 {
            assert!(matches!(waiting.next(), Some((Task::Look(_), Some(_)))));
        }
        assert!(matches!(waiting.next(), Some((Task::Compare(1, _), None))));
        assert!(matches!(waiting.next(), Some((Task::Compare(2, _), None))));
        assert!(waiting.next().is_none());
    }

    #[test]
    fn few_threads_are_asked_for_until_all_may_be() {
        let waiting = Waiting::for_few(2);
        let asked = |number| waiting.add(Task::Compare(number, view()));
        assert_eq!([0, 1, 2, 3].map(asked), [true, true, false, false]);
        // One thread does all but the last, and ends when there is nothing left.
        let done = (0..4).map(|_| waiting.next().is_some());
        assert_eq!(done.filter(|&some| some).count(), 4);
        assert!(waiting.next().is_none());
        assert_eq!([4, 5, 6].map(asked), [true, false, false]);
        assert_eq!(waiting.for_all(), 3);
        assert!(asked(7));
    }

    #[test]
    fn whoever_waits_for_looks_waits_for_those_that_were_begun_and_for_those_that_fail() {
        let waiting = Waiting::default();
        waiting.await_looks();
        waiting.add(Task::Look(view()));
        let done = AtomicBool::new(false);
        thread::scope(|threads| {
            let waiter = threads.spawn(|| {
                waiting.await_looks();
                done.load(Ordering::Relaxed)
            });
            let failed = threads.spawn(|| {
                let _task = waiting.next().expect("a look");
                done.store(true, Ordering::Relaxed);
                std::panic::resume_unwind(Box::new("it failed"));
            });
            assert!(failed.join().is_err());
            assert!(waiter.join().expect("no panic"), "not before it ended");
        });
    }
}
