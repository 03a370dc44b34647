//! Rows in plots against the same rows as they came.

use crate::bake::fixture::Random;
use crate::bake::model::plots::*;

/// Texels across and down: three plots by two, of which the last are cut.
const ACROSS: usize = 2 * EDGE + 3;
const DOWN: usize = EDGE + 9;

/// Bands of rows over boxes of texels, over lines wider than a box may be, and over texels that lie apart.
fn bands(random: &mut Random) -> Vec<Rows> {
    let mut pixel = 0;
    let mut band = |count: usize, random: &mut Random| {
        let mut rows = Rows::of_view(3);
        for _ in 0..count {
            let of = |edge: usize, random: &mut Random| random.next() as usize % edge;
            let (wide, high) = [(3, 3), (1, 1), (7, 2), (5, 5), (20, 1), (40, 30)][of(6, random)];
            let [x, y] = [of(ACROSS - wide, random), of(DOWN - high, random)];
            let mut entries: Vec<Entry> = Vec::new();
            for _ in 0..(wide * high).min(30) {
                let [column, line] = [x + of(wide, random), y + of(high, random)];
                let texel = (line * ACROSS + column) as u32;
                if entries.iter().all(|entry| entry.texel != texel) {
                    let weight = random.within(0.1, 1.0) as f32;
                    entries.push(Entry { texel, weight });
                }
            }
            let sum: f32 = entries.iter().map(|entry| entry.weight).sum();
            entries.iter_mut().for_each(|entry| entry.weight /= sum);
            rows.push(&entries, (random.next() as u32).to_le_bytes(), pixel);
            pixel += 1;
        }
        rows
    };
    (0..5).map(|_| band(200, random)).collect()
}

fn texels(random: &mut Random) -> Vec<[f32; 4]> {
    (0..ACROSS * DOWN)
        .map(|_| std::array::from_fn(|_| random.within(0.0, 1.0) as f32))
        .collect()
}

fn near(one: [f32; 4], other: [f32; 4], by: f32) -> bool {
    one.iter().zip(other).all(|(a, b)| (a - b).abs() <= by)
}

#[test]
fn every_row_shows_what_it_showed_and_is_itself_once() {
    let random = &mut Random(5);
    let (bands, texels, plots) = (bands(random), texels(random), Plots::new(ACROSS));
    let rows = ViewRows::new(&bands, plots, &Window::whole(ACROSS as u32));
    let mut times = [0; 1000];
    let (mut boxes, mut lists) = (0, 0);
    for of_plot in &rows.plots {
        let mut read = bytemuck::zeroed_box();
        plots.gather(of_plot.plot, &texels, &mut read);
        for row in of_plot.iter() {
            let nth = row.pixel() as usize;
            let band = &bands[nth / 200];
            let wanted = band.predict(nth % 200, &texels);
            let by = 30.0 * STEP;
            assert!(near(row.predict(of_plot.read(plots, &texels)), wanted, by));
            assert!(near(
                row.predict(TexelsRead::Near(&read, &texels)),
                wanted,
                by
            ));
            assert_eq!(row.colour, band.colours[nth % 200]);
            times[nth] += u32::from(row.is_itself());
            let met = band
                .row(nth % 200)
                .iter()
                .map(|entry| plots.place(entry.texel).0);
            assert!(
                met.clone().any(|plot| plot == of_plot.plot),
                "a plot that it does not meet"
            );
            let (one, apart) = (met.clone().min() == met.max(), row.is_listed());
            assert!(apart || one, "a box within one plot");
            (boxes, lists) = (
                boxes + usize::from(!apart),
                lists + usize::from(apart && one),
            );
        }
    }
    assert!(times.iter().all(|&count| count == 1));
    assert!(
        boxes > 300 && lists > 20,
        "{boxes} boxes, {lists} lists within a plot"
    );
    assert!(rows.len() > 1050, "{} with copies", rows.len());
}

#[test]
fn sums_of_plots_are_those_of_the_rows() {
    let random = &mut Random(6);
    let (bands, texels, plots) = (bands(random), texels(random), Plots::new(ACROSS));
    let rows = ViewRows::new(&bands, plots, &Window::whole(ACROSS as u32));
    for squared in [false, true] {
        let mut wanted = vec![[0.0; 4]; texels.len()];
        for band in &bands {
            for row in 0..band.len() {
                let value = band.predict(row, &texels);
                for entry in band.row(row) {
                    let share = if squared {
                        entry.weight.powi(2)
                    } else {
                        entry.weight
                    };
                    let sum: &mut [f32; 4] = &mut wanted[entry.texel as usize];
                    (0..4).for_each(|c| sum[c] += share * value[c]);
                }
            }
        }
        let mut sums = vec![[0.0; 4]; texels.len()];
        plots.each(&mut sums, |plot, lines| {
            let Some(rows) = rows.in_plot(plot) else {
                return;
            };
            let mut here = PlotSums::new(plots, plot, lines, &texels);
            let weights = None;
            here.add(WeighedRows { rows, weights }, squared, &texels, |row| {
                row.predicted
            });
            here.into_lines(lines);
        });
        let worst = sums
            .iter()
            .zip(&wanted)
            .position(|(one, other)| !near(*one, *other, 3e-4));
        assert_eq!(worst, None, "squared: {squared}");
        assert!(wanted.iter().filter(|sum| sum[0] > 0.01).count() > 1000);
    }
}

#[test]
fn constraints_keep_their_signs_and_bits() {
    let mut rows = Rows::of_view(0);
    let entries = [(5, 0.3), (EDGE as u32 + 1, -0.7), (6, 0.400_000_1)];
    let entries = entries.map(|(texel, weight)| Entry { texel, weight });
    rows.push(&entries[..1], [0; 4], 0);
    rows.push(&entries, [0; 4], 0);
    let plots = Plots::new(ACROSS);
    let sorted = ViewRows::of_constraints(&rows, plots);
    let texels = texels(&mut Random(7));
    for of_plot in &sorted.plots {
        for row in of_plot.iter() {
            let wanted = rows.predict(row.pixel() as usize, &texels);
            assert_eq!(row.predict(of_plot.read(plots, &texels)), wanted);
        }
    }
    assert_eq!(sorted.len(), 3, "the second is in two plots");
}
