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
    /// The axis along the bottom.
    pub x: Axis,
    /// The axis along the left.
    pub y: Axis,
    /// Names of the positions 0, 1, ... on an x axis that has no numbers.
    pub categories: Vec<String>,
    /// The data.
    pub series: Vec<Series>,
    /// Named positions on the x axis.
    pub marks: Vec<Mark>,
}

/// How series are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// Points joined by lines.
    Lines,
    /// Bars next to each other at each position.
    Bars,
    /// Bars on top of each other at each position.
    Stacked,
}

/// An axis.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    /// The quantity with its unit.
    pub label: String,
    /// The scale of the numbers.
    pub scale: Scale,
}

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Linear; a y axis begins at 0.
    Linear,
    /// Logarithmic.
    Log,
}

/// A row of points.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The source: series of other authors are drawn dashed.
    pub origin: Origin,
    /// The points, in the order in which they are joined.
    pub points: Vec<Point>,
}

/// The origin of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Measured or counted in this run.
    Measured,
    /// Computed by a formula.
    Computed,
    /// Printed in the paper.
    Paper,
}

/// A value with the range of its measurements.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Point {
    /// The position on the x axis.
    pub x: f64,
    /// The value, or the median of several.
    pub y: f64,
    /// The least and the greatest measured value.
    pub range: Option<(f64, f64)>,
}

/// A named position on the x axis.
#[derive(Clone, Debug, Serialize)]
pub struct Mark {
    /// The position.
    pub x: f64,
    /// The name of the position.
    pub name: String,
}

impl Axis {
    /// A linear axis.
    pub fn linear(label: impl Into<String>) -> Self {
        Axis { label: label.into(), scale: Scale::Linear }
    }

    /// A logarithmic axis.
    pub fn log(label: impl Into<String>) -> Self {
        Axis { label: label.into(), scale: Scale::Log }
    }
}

impl Chart {
    /// A chart of lines over numbers.
    pub fn lines(title: impl Into<String>, x: Axis, y: Axis, series: Vec<Series>) -> Self {
        let (shape, title) = (Shape::Lines, title.into());
        Chart { title, shape, x, y, categories: Vec::new(), series, marks: Vec::new() }
    }

    /// A chart of bars over names.
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

    /// The distinct positions on the x axis, in ascending order.
    pub fn xs(&self) -> Vec<f64> {
        let points = self.series.iter().flat_map(|series| &series.points);
        let mut xs: Vec<f64> = points.map(|point| point.x).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        xs
    }

    /// The name of a position, if it has one.
    pub fn category(&self, x: f64) -> Option<&str> {
        self.categories.get(x as usize).map(String::as_str)
    }
}

impl Series {
    /// A series of measured values.
    pub fn measured(name: impl Into<String>, points: Vec<Point>) -> Self {
        Series { name: name.into(), origin: Origin::Measured, points }
    }

    /// A series of values computed by a formula.
    pub fn computed(name: impl Into<String>, points: Vec<Point>) -> Self {
        Series { name: name.into(), origin: Origin::Computed, points }
    }

    /// A series of values from the paper.
    pub fn paper(name: impl Into<String>, points: Vec<Point>) -> Self {
        Series { name: name.into(), origin: Origin::Paper, points }
    }

    /// The point at a position.
    pub fn at(&self, x: f64) -> Option<&Point> {
        self.points.iter().find(|point| point.x == x)
    }
}

impl Point {
    /// A point with an exact value, or one that was measured once.
    pub fn new(x: f64, y: f64) -> Self {
        Point { x, y, range: None }
    }

    /// A point with the median of several measurements and their range.
    pub fn spread(x: f64, spread: Spread) -> Self {
        Point { x, y: spread.median, range: Some((spread.min, spread.max)) }
    }
}
