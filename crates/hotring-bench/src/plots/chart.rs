//! The data of a plot: axes, series, marks. `svg.rs` draws it.

use serde::Serialize;

use crate::report::Spread;

/// A plot.
#[derive(Clone, Debug, Serialize)]
pub struct Chart {
    /// The title.
    pub title: String,
    /// How series are drawn.
    pub shape: Shape,
    /// Along the bottom.
    pub x: Axis,
    /// Along the left.
    pub y: Axis,
    /// Names of the places on the x axis, where these are not numbers: place 0, place 1, ...
    pub categories: Vec<String>,
    /// The marks.
    pub series: Vec<Series>,
    /// Moments or places on the x axis that have a name.
    pub marks: Vec<Mark>,
}

/// How series are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// Points joined by lines.
    Lines,
    /// Bars side by side at each place.
    Bars,
    /// Bars on top of each other at each place.
    Stacked,
}

/// An axis.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    /// The quantity with its unit.
    pub label: String,
    /// How numbers lie on it.
    pub scale: Scale,
}

/// How numbers lie on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Evenly; a y axis begins at 0.
    Linear,
    /// By their logarithm.
    Log,
}

/// A row of points.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// As the legend has it.
    pub name: String,
    /// The source: series of other authors are drawn dashed.
    pub origin: Origin,
    /// In the order in which they are joined.
    pub points: Vec<Point>,
}

/// Where numbers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Measured or counted in this run.
    Measured,
    /// By a formula.
    Computed,
    /// Printed in the paper.
    Paper,
}

/// A value, with how far its measurements lie apart.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Point {
    /// Where.
    pub x: f64,
    /// The value: of several, the median.
    pub y: f64,
    /// The least and the greatest that were measured.
    pub range: Option<(f64, f64)>,
}

/// A place on the x axis that has a name.
#[derive(Clone, Debug, Serialize)]
pub struct Mark {
    /// Where.
    pub x: f64,
    /// The points.
    pub name: String,
}

impl Axis {
    /// Evenly spaced.
    pub fn linear(label: impl Into<String>) -> Self {
        Axis { label: label.into(), scale: Scale::Linear }
    }

    /// By the logarithm.
    pub fn log(label: impl Into<String>) -> Self {
        Axis { label: label.into(), scale: Scale::Log }
    }
}

impl Chart {
    /// Lines over numbers.
    pub fn lines(title: impl Into<String>, x: Axis, y: Axis, series: Vec<Series>) -> Self {
        let (shape, title) = (Shape::Lines, title.into());
        Chart { title, shape, x, y, categories: Vec::new(), series, marks: Vec::new() }
    }

    /// Bars over names.
    pub fn bars(
        title: impl Into<String>,
        x: impl Into<String>,
        y: Axis,
        categories: Vec<String>,
        series: Vec<Series>,
    ) -> Self {
        let x = Axis::linear(x);
        Chart { title: title.into(), shape: Shape::Bars, x, y, categories, series, marks: vec![] }
    }

    /// The values of the x axis, each once, in the order of the places.
    pub fn places(&self) -> Vec<f64> {
        let points = self.series.iter().flat_map(|series| &series.points);
        let mut places: Vec<f64> = points.map(|point| point.x).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        places
    }

    /// The name of a place, where it has one.
    pub fn category(&self, x: f64) -> Option<&str> {
        self.categories.get(x as usize).map(String::as_str)
    }
}

impl Series {
    /// Measured values.
    pub fn measured(name: impl Into<String>, points: Vec<Point>) -> Self {
        Series { name: name.into(), origin: Origin::Measured, points }
    }

    /// Values by a formula.
    pub fn computed(name: impl Into<String>, points: Vec<Point>) -> Self {
        Series { name: name.into(), origin: Origin::Computed, points }
    }

    /// Values from the paper.
    pub fn paper(name: impl Into<String>, points: Vec<Point>) -> Self {
        Series { name: name.into(), origin: Origin::Paper, points }
    }

    /// The point at this place.
    pub fn at(&self, x: f64) -> Option<&Point> {
        self.points.iter().find(|point| point.x == x)
    }
}

impl Point {
    /// A value that is exact, or was taken once.
    pub fn new(x: f64, y: f64) -> Self {
        Point { x, y, range: None }
    }

    /// The median of several measurements, with their range.
    pub fn spread(x: f64, spread: Spread) -> Self {
        Point { x, y: spread.median, range: Some((spread.min, spread.max)) }
    }
}
