//! Columns of rows → ids, states and counts, checked.

use rusqlite::Row;
use rusqlite::types::Type;

use super::id::JobId;
use super::job::State;

/// What `SQLite` answers.
pub(super) type Sql<T> = rusqlite::Result<T>;

/// An id.
pub(super) fn read_id(row: &Row<'_>, place: usize) -> Sql<JobId> {
    let text: String = row.get(place)?;
    text.parse().map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(place, Type::Text, Box::new(error))
    })
}

/// A job's state, by its word.
pub(super) fn read_state(row: &Row<'_>, place: usize) -> Sql<State> {
    let word: String = row.get(place)?;
    let state = State::ALL.into_iter().find(|state| state.name() == word);
    state.ok_or_else(|| rusqlite::Error::InvalidColumnType(place, word, Type::Text))
}

/// Sizes and counts: never negative as they were written.
pub(super) fn read_count(row: &Row<'_>, place: usize) -> Sql<u64> {
    let number: i64 = row.get(place)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(place, number))
}

/// `SQLite` has no larger numbers; no disk has them either.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
