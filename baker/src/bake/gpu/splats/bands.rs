//! Pairs of each row of tiles → bands of rows whose pairs fit the buffer.

use std::ops::Range;

/// Most tiles of a band: one invocation may visit all of them.
pub(super) const MOST_TILES: u32 = 1 << 15;

/// Rows of tiles that are drawn together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Band {
    pub(super) rows: Range<u32>,
    /// Upper bound of its pairs.
    pub(super) pairs: u64,
}

/// Cuts rows of `across` tiles with so many pairs each; bands have up to `most` pairs. The bytes that a row needs if it
/// has more.
pub(super) fn cut(rows: &[u64], across: u32, most: u64) -> Result<Vec<Band>, u64> {
    let mut bands: Vec<Band> = Vec::new();
    for (row, &pairs) in (0..).zip(rows) {
        if pairs > most || across > MOST_TILES {
            return Err(pairs);
        }
        match bands.last_mut() {
            Some(band)
                if band.pairs + pairs <= most
                    && (row + 1 - band.rows.start) * across <= MOST_TILES =>
            {
                band.rows.end = row + 1;
                band.pairs += pairs;
            }
            _ => bands.push(Band {
                rows: row..row + 1,
                pairs,
            }),
        }
    }
    Ok(bands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_hold_as_many_rows_as_fit() {
        let ends = |rows: &[u64], across, most| -> Option<Vec<(u32, u64)>> {
            let bands = cut(rows, across, most).ok()?;
            let mut next = 0;
            for band in &bands {
                assert_eq!(band.rows.start, next);
                next = band.rows.end;
            }
            Some(
                bands
                    .iter()
                    .map(|band| (band.rows.end, band.pairs))
                    .collect(),
            )
        };
        let rows = [3, 4, 0, 9, 1];
        assert_eq!(ends(&rows, 4, 100), Some(vec![(5, 17)]));
        assert_eq!(ends(&rows, 4, 9), Some(vec![(3, 7), (4, 9), (5, 1)]));
        assert_eq!(ends(&rows, 4, 8), None);
        assert_eq!(
            ends(&rows, MOST_TILES / 2, 100),
            Some(vec![(2, 7), (4, 9), (5, 1)])
        );
        assert_eq!(ends(&[], 4, 8), Some(vec![]));
    }
}
