//! Threads prepare items ahead of one consumer, which takes them in order.

use std::sync::mpsc;
use std::thread;

/// Most threads. They are not from the pool: its threads are busy with silhouettes, each of which takes longer than
/// what an adapter waits for.
const THREADS: usize = 4;
/// Finished items that wait for the consumer, of each thread.
const READY: usize = 2;

/// Calls `take`, in order, with what `make` returns for each item of `from`, while threads make the next ones.
pub(crate) fn ahead<T: Sync, U: Send, E>(
    from: &[T],
    make: impl Fn(&T) -> U + Sync,
    mut take: impl FnMut(U) -> Result<(), E>,
) -> Result<(), E> {
    let threads = THREADS
        .min(rayon::current_num_threads())
        .min(from.len().saturating_sub(1));
    let make = &make;
    thread::scope(|scope| {
        let made: Vec<_> = (0..threads)
            .map(|first| {
                let (sender, receiver) = mpsc::sync_channel(READY);
                let work = move || {
                    for thing in from.iter().skip(first).step_by(threads) {
                        // After an error nobody takes any more.
                        if sender.send(make(thing)).is_err() {
                            return;
                        }
                    }
                };
                let builder = thread::Builder::new().name("ahead".to_owned());
                builder.spawn_scoped(scope, work).ok().map(|_| receiver)
            })
            .collect();
        for (nth, thing) in from.iter().enumerate() {
            let receiver = made.get(nth % threads.max(1)).and_then(Option::as_ref);
            // Without a thread, or after its panic, which the scope passes on.
            let next = receiver.and_then(|receiver| receiver.recv().ok());
            take(next.unwrap_or_else(|| make(thing)))?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_taken_in_their_order_whatever_is_made_first() {
        for count in [0, 1, 2, 9, 100] {
            let (from, mut taken): (Vec<u32>, _) = ((0..count).collect(), Vec::new());
            let make = |&of: &u32| {
                (0..of % 7).for_each(|_| thread::yield_now());
                2 * of
            };
            let done: Result<(), ()> = ahead(&from, make, |made| {
                taken.push(made);
                Ok(())
            });
            assert_eq!(done, Ok(()));
            assert!(taken.iter().copied().eq((0..count).map(|of| 2 * of)));
        }
    }

    #[test]
    fn after_an_error_nothing_is_taken_and_nobody_waits() {
        let from: Vec<u32> = (0..50).collect();
        let mut taken = 0;
        let done = ahead(
            &from,
            |&of| of,
            |of| {
                taken += 1;
                if of == 13 { Err(of) } else { Ok(()) }
            },
        );
        assert_eq!((done, taken), (Err(13), 14));
    }
}
