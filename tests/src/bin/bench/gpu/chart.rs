//! Draws one SVG: for each axis the time of a job, of its bake and of the GPU, on logarithmic scales.

use super::measure::Measured;
use super::{Axis, Point};

/// Size of a panel and of its margins, in pixels.
const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 260.0;
const MARGIN: f64 = 60.0;

/// A curve of a panel.
struct Line {
    name: &'static str,
    colour: &'static str,
    of: fn(&Measured) -> Option<f64>,
}

const LINES: [Line; 3] = [
    Line {
        name: "job",
        colour: "#444",
        of: |measured| Some(measured.whole_s),
    },
    Line {
        name: "bake",
        colour: "#1668b8",
        of: |measured| Some(measured.bake_s),
    },
    Line {
        name: "GPU",
        colour: "#c25400",
        of: |measured| measured.gpu_s,
    },
];

const PANELS: [(Axis, &str); 4] = [
    (Axis::Views, "views of 512²"),
    (Axis::Size, "edge of 40 views, pixels"),
    (Axis::Texture, "edge of the texture, texels"),
    (Axis::Faces, "triangles"),
];

/// A logarithmic scale from values to pixels.
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Option<Self> {
        let values = values.filter(|value| *value > 0.0 && value.is_finite());
        let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        (high > 0.0).then_some(Self {
            low: low / 1.1,
            high: high * 1.1,
            from,
            to,
        })
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value / self.low).ln() / (self.high / self.low).ln();
        self.from + share * (self.to - self.from)
    }

    /// Multiples 1, 2 and 5 of powers of ten within the scale.
    fn ticks(&self) -> Vec<f64> {
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        decades
            .flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(decade)))
            .filter(|tick| (self.low..=self.high).contains(tick))
            .collect()
    }
}

/// Draws all panels; those without a successful row stay empty.
pub(super) fn draw(rows: &[(Point, Result<Measured, String>)]) -> String {
    let (across, down) = (WIDTH + 2.0 * MARGIN, HEIGHT + 2.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        2.0 * across,
        2.0 * down
    );
    for (number, (axis, title)) in PANELS.into_iter().enumerate() {
        let (left, top) = (
            (number % 2) as f64 * across + MARGIN,
            (number / 2) as f64 * down + MARGIN,
        );
        let own: Vec<(f64, &Measured)> = rows
            .iter()
            .filter(|(point, _)| point.axis == axis)
            .filter_map(|(point, measured)| Some((point.x(), measured.as_ref().ok()?)))
            .collect();
        panel(&mut svg, left, top, title, &own);
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(svg: &mut String, left: f64, top: f64, title: &str, rows: &[(f64, &Measured)]) {
    let mut put = |text: std::fmt::Arguments<'_>| {
        svg.push_str(&text.to_string());
    };
    let (right, bottom) = (left + WIDTH, top + HEIGHT);
    put(format_args!(
        "<text x=\"{left}\" y=\"{}\" font-size=\"14\">seconds against {title}</text>\n\
         <rect x=\"{left}\" y=\"{top}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"none\" stroke=\"#999\"/>\n",
        top - 12.0
    ));
    let times = rows
        .iter()
        .flat_map(|(_, measured)| LINES.iter().filter_map(|line| (line.of)(measured)));
    let scales = (
        Scale::over(rows.iter().map(|(x, _)| *x), left, right),
        Scale::over(times, bottom, top),
    );
    let (Some(across), Some(up)) = scales else {
        return;
    };
    for tick in across.ticks() {
        let x = across.at(tick);
        put(format_args!(
            "<path d=\"M{x:.1} {top}V{bottom}\" stroke=\"#eee\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{tick}</text>\n",
            bottom + 16.0
        ));
    }
    for tick in up.ticks() {
        let y = up.at(tick);
        put(format_args!(
            "<path d=\"M{left} {y:.1}H{right}\" stroke=\"#eee\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{tick}</text>\n",
            left - 6.0,
            y + 4.0
        ));
    }
    for line in &LINES {
        let places: Vec<(f64, f64)> = rows
            .iter()
            .filter_map(|(x, measured)| Some((across.at(*x), up.at((line.of)(measured)?))))
            .collect();
        let Some(&(end, height)) = places.last() else {
            continue;
        };
        let path: Vec<String> = places
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        put(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n",
            path.join(" "),
            line.colour
        ));
        for (x, y) in &places {
            put(format_args!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{}\"/>\n",
                line.colour
            ));
        }
        put(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{}\" text-anchor=\"end\">{}</text>\n",
            end - 6.0,
            height - 7.0,
            line.colour,
            line.name
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_is_logarithmic_and_ticks_lie_on_it() {
        let scale = Scale::over([1.1, 0.0, 1000.0 / 1.1].into_iter(), 0.0, 300.0).expect("values");
        for (value, wanted) in [(1.0, 0.0), (10.0, 100.0), (100.0, 200.0), (1000.0, 300.0)] {
            assert!((scale.at(value) - wanted).abs() < 1e-9, "{value}");
        }
        assert_eq!(scale.ticks()[..4], [1.0, 2.0, 5.0, 10.0]);
        assert!(Scale::over([0.0].into_iter(), 0.0, 1.0).is_none());
    }

    #[test]
    fn without_rows_there_are_empty_panels() {
        let svg = draw(&[]);
        assert_eq!(svg.matches("seconds against").count(), 4);
        assert!(!svg.contains("polyline") && svg.ends_with("</svg>\n"));
    }
}
