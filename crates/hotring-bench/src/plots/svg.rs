//! Draws charts as SVG in the style of the page: colours are CSS classes, so that a plot follows the reader's
//! light or dark mode, and text stays text. The plotting crates write fixed colours and offer neither names for
//! screen readers nor values under the pointer, so this module draws by itself.

use std::fmt::Write;

use super::chart::{Axis, Chart, Origin, Point, Scale, Series, Shape};
use crate::report::short;

/// The drawing's size in its own units; the page scales it.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 340.0;
/// Margin around the plot for the labels of the axes.
const LEFT: f64 = 62.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 18.0;
const BOTTOM: f64 = 50.0;
/// The number of colours in the style. Further series reuse them.
pub const COLOURS: usize = 8;
/// Lines with more points than this have no markers.
const MARKERS_MAX: usize = 40;
/// A range shorter than this in the drawing gets no bar.
const RANGE_MIN: f64 = 1.5;

/// Draws a chart; `id` must be unique on the page.
pub fn draw(chart: &Chart, id: &str) -> String {
    let frame = Frame::new(chart);
    let mut svg = String::new();
    let (title, text) = (escape(&chart.title), escape(&description(chart)));
    let _ = write!(
        svg,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-labelledby=\"{id}-t {id}-d\"><title id=\"{id}-t\">{title}</title>\
         <desc id=\"{id}-d\">{text}</desc>"
    );
    frame.axes(&mut svg);
    frame.marks(&mut svg);
    match chart.shape {
        Shape::Lines => frame.lines(&mut svg),
        Shape::Bars => frame.bars(&mut svg),
        Shape::Stacked => frame.stacks(&mut svg),
    }
    svg.push_str("</svg>");
    svg
}

/// The look of each series, as a number. Series of the same name share one look.
pub fn styles(chart: &Chart) -> Vec<usize> {
    let mut names: Vec<&str> = Vec::new();
    let mut styles = Vec::new();
    for series in &chart.series {
        let known = names.iter().position(|name| *name == series.name);
        styles.push(known.unwrap_or(names.len()));
        if known.is_none() {
            names.push(&series.name);
        }
    }
    styles
}

/// The symbol of a series in a legend.
pub fn sign(style: usize, series: &Series, shape: Shape) -> String {
    let colour = style % COLOURS;
    let mut svg = String::from("<svg class=\"sign\" viewBox=\"0 0 28 14\" aria-hidden=\"true\">");
    if shape == Shape::Lines {
        let _ =
            write!(svg, "<path class=\"line s{colour} {}\" d=\"M1 7H27\"/>", origin(series.origin));
        marker(&mut svg, style, 14.0, 7.0, None);
    } else {
        let class = origin(series.origin);
        let _ = write!(
            svg,
            "<rect class=\"bar s{colour} {class}\" x=\"5\" y=\"1\" width=\"18\" height=\"12\"/>"
        );
    }
    svg.push_str("</svg>");
    svg
}

/// The description for screen readers: the axes, and the names of the series.
fn description(chart: &Chart) -> String {
    let names: Vec<&str> = chart.series.iter().map(|series| series.name.as_str()).collect();
    let (x, y) = (&chart.x.label, &chart.y.label);
    format!("{y} by {x}: {}. The values are in the table below.", names.join(", "))
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Measured => "measured",
        Origin::Computed => "computed",
        Origin::Paper => "paper",
    }
}

/// The mapping of numbers to the drawing.
struct Frame<'c> {
    chart: &'c Chart,
    styles: Vec<usize>,
    x: Span,
    y: Span,
}

/// An interval of numbers, and the interval of the drawing that shows it.
struct Span {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Span {
    fn position(&self, value: f64) -> f64 {
        let (low, high, value) = match self.scale {
            Scale::Linear => (self.low, self.high, value),
            Scale::Log => (self.low.ln(), self.high.ln(), value.max(self.low).ln()),
        };
        let part = if high > low { (value - low) / (high - low) } else { 0.5 };
        self.from + part * (self.to - self.from)
    }
}

impl<'c> Frame<'c> {
    fn new(chart: &'c Chart) -> Self {
        let (x_low, x_high) = if chart.categories.is_empty() {
            bounds(chart.xs().into_iter(), &chart.x, false)
        } else {
            (-0.5, chart.categories.len() as f64 - 0.5)
        };
        let (y_low, y_high) = bounds(heights(chart).into_iter(), &chart.y, true);
        let x =
            Span { scale: chart.x.scale, low: x_low, high: x_high, from: LEFT, to: WIDTH - RIGHT };
        let y =
            Span { scale: chart.y.scale, low: y_low, high: y_high, from: HEIGHT - BOTTOM, to: TOP };
        Frame { chart, styles: styles(chart), x, y }
    }

    fn axes(&self, svg: &mut String) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for tick in ticks(&self.y) {
            let y = self.y.position(tick);
            let (text, label_y) = (tick_text(tick), y + 4.0);
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/>\
                 <text class=\"tick\" x=\"{}\" y=\"{label_y:.1}\" text-anchor=\"end\">{text}</text>",
                LEFT - 7.0
            );
        }
        self.x_ticks(svg);
        let _ = write!(svg, "<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>");
        let (middle_x, middle_y) = (f64::midpoint(LEFT, right), f64::midpoint(TOP, bottom));
        let _ = write!(
            svg,
            "<text class=\"label\" x=\"{middle_x}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <text class=\"label\" transform=\"translate(14 {middle_y}) rotate(-90)\" \
             text-anchor=\"middle\">{}</text>",
            HEIGHT - 8.0,
            escape(&self.chart.x.label),
            escape(&self.chart.y.label)
        );
    }

    fn x_ticks(&self, svg: &mut String) {
        let y = HEIGHT - BOTTOM + 17.0;
        let mut tick = |at: f64, text: &str| {
            let x = self.x.position(at);
            let text = escape(text);
            let _ = write!(
                svg,
                "<text class=\"tick\" x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{text}</text>"
            );
        };
        if self.chart.categories.is_empty() {
            let xs = self.chart.xs();
            // If there are few values, such as key-bucket ratios, each gets a tick.
            let few = xs.len() <= 8 && self.chart.x.scale == Scale::Log;
            let values = if few { xs } else { ticks(&self.x) };
            values.iter().for_each(|&value| tick(value, &tick_text(value)));
        } else {
            for (at, name) in self.chart.categories.iter().enumerate() {
                tick(at as f64, name);
            }
        }
    }

    fn marks(&self, svg: &mut String) {
        for (number, mark) in self.chart.marks.iter().enumerate() {
            let x = self.x.position(mark.x);
            // Adjacent names would overlap on one line.
            let name_y = TOP + 10.0 + 13.0 * (number % 3) as f64;
            let _ = write!(
                svg,
                "<path class=\"mark\" d=\"M{x:.1} {TOP}V{}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{name_y}\">{}</text>",
                HEIGHT - BOTTOM,
                x + 4.0,
                escape(&mark.name)
            );
        }
    }

    fn lines(&self, svg: &mut String) {
        for (series, &style) in self.chart.series.iter().zip(&self.styles) {
            let (colour, class) = (style % COLOURS, origin(series.origin));
            let mut path = String::new();
            for (at, point) in drawn(series).enumerate() {
                let (x, y) = (self.x.position(point.x), self.y.position(point.y));
                let _ = write!(path, "{}{x:.1} {y:.1}", if at == 0 { "M" } else { "L" });
            }
            let _ = write!(svg, "<path class=\"line s{colour} {class}\" d=\"{path}\"/>");
            let few = series.points.len() <= MARKERS_MAX;
            for point in drawn(series).filter(|_| few) {
                let (x, y) = (self.x.position(point.x), self.y.position(point.y));
                self.range(svg, colour, x, point);
                marker(svg, style, x, y, Some(&self.tip(series, point)));
            }
        }
    }

    fn bars(&self, svg: &mut String) {
        let count = self.chart.series.len().max(1) as f64;
        let step = self.x.position(1.0) - self.x.position(0.0);
        let width = (step * 0.82 / count).min(48.0);
        for (number, series) in self.chart.series.iter().enumerate() {
            for point in drawn(series) {
                let middle =
                    self.x.position(point.x) + (number as f64 - (count - 1.0) / 2.0) * width;
                self.bar(svg, self.styles[number], series, point, (middle, width), self.y.low);
            }
        }
    }

    fn stacks(&self, svg: &mut String) {
        let step = self.x.position(1.0) - self.x.position(0.0);
        let width = (step * 0.6).min(72.0);
        let mut reached = vec![0.0; self.chart.categories.len()];
        for (number, series) in self.chart.series.iter().enumerate() {
            for point in drawn(series) {
                let base = &mut reached[point.x as usize];
                let top = Point { y: *base + point.y, range: None, ..*point };
                let tip = self.tip(series, point);
                self.rect(
                    svg,
                    number,
                    series,
                    (self.x.position(point.x), width),
                    (*base, top.y),
                    &tip,
                );
                *base = top.y;
            }
        }
    }

    fn bar(
        &self,
        svg: &mut String,
        style: usize,
        series: &Series,
        point: &Point,
        (middle, width): (f64, f64),
        base: f64,
    ) {
        let tip = self.tip(series, point);
        self.rect(svg, style, series, (middle, width), (base, point.y), &tip);
        self.range(svg, style % COLOURS, middle, point);
    }

    fn rect(
        &self,
        svg: &mut String,
        style: usize,
        series: &Series,
        (middle, width): (f64, f64),
        (from, to): (f64, f64),
        tip: &str,
    ) {
        let (bottom, top) = (self.y.position(from), self.y.position(to));
        let (x, inner) = (middle - width / 2.0 + 0.75, (width - 1.5).max(1.0));
        let _ = write!(
            svg,
            "<rect class=\"bar s{} {}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{inner:.1}\" \
             height=\"{:.1}\"><title>{}</title></rect>",
            style % COLOURS,
            origin(series.origin),
            top.min(bottom),
            (bottom - top).abs(),
            escape(tip)
        );
    }

    /// Draws the bar from the least to the greatest measurement.
    fn range(&self, svg: &mut String, colour: usize, x: f64, point: &Point) {
        let Some((low, high)) = point.range else { return };
        let (bottom, top) = (self.y.position(low), self.y.position(high));
        if (bottom - top).abs() < RANGE_MIN {
            return;
        }
        let _ = write!(
            svg,
            "<path class=\"range s{colour}\" d=\"M{x:.1} {bottom:.1}V{top:.1}\
             M{:.1} {bottom:.1}h6M{:.1} {top:.1}h6\"/>",
            x - 3.0,
            x - 3.0
        );
    }

    /// The text shown under the pointer.
    fn tip(&self, series: &Series, point: &Point) -> String {
        let column = self.chart.category(point.x).map_or_else(|| short(point.x), str::to_owned);
        let mut tip = format!("{}, {column}: {}", series.name, short(point.y));
        if let Some((low, high)) = point.range {
            let _ = write!(tip, " ({} to {})", short(low), short(high));
        }
        tip
    }
}

/// The points that can be drawn: those with a finite value.
fn drawn(series: &Series) -> impl Iterator<Item = &Point> {
    series.points.iter().filter(|point| point.y.is_finite())
}

/// Draws a marker whose shape belongs to the series, for readers who cannot tell the colours apart.
fn marker(svg: &mut String, style: usize, x: f64, y: f64, tip: Option<&str>) {
    let tip = tip.map_or_else(String::new, |tip| format!("<title>{}</title>", escape(tip)));
    let path = match style % 5 {
        0 => "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
        1 => "m-3.6-3.6h7.2v7.2h-7.2z",
        2 => "m0-4.8l4.6 8.2h-9.2z",
        3 => "m0-5l5 5l-5 5l-5-5z",
        _ => "m0 4.8l4.6-8.2h-9.2z",
    };
    let colour = style % COLOURS;
    let _ = write!(svg, "<path class=\"dot s{colour}\" d=\"M{x:.1} {y:.1}{path}\">{tip}</path>");
}

/// The values that the y axis must cover.
fn heights(chart: &Chart) -> Vec<f64> {
    if chart.shape == Shape::Stacked {
        let sum = |column: usize| {
            let parts = chart.series.iter().filter_map(|series| series.at(column as f64));
            parts.map(|point| point.y).sum()
        };
        return (0..chart.categories.len()).map(sum).collect();
    }
    let points = chart.series.iter().flat_map(|series| &series.points);
    points.flat_map(|point| [point.y, point.range.map_or(point.y, |range| range.1)]).collect()
}

/// The range of an axis: linear from 0 if `grounded`, with some margin above.
fn bounds(values: impl Iterator<Item = f64>, axis: &Axis, grounded: bool) -> (f64, f64) {
    let log = axis.scale == Scale::Log;
    let fit = values.filter(|value| value.is_finite() && (!log || *value > 0.0));
    let (low, high) = fit.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    match (low <= high, log, grounded) {
        (false, _, _) => (if log { 1.0 } else { 0.0 }, 10.0),
        (_, true, true) => (low / 1.5, high * 1.5),
        (_, true, false) => (low / 1.1, high * 1.1),
        (_, false, true) => (low.min(0.0), if high > 0.0 { high * 1.08 } else { 1.0 }),
        (_, false, false) if low < high => (low, high),
        (_, false, false) => (low - 1.0, high + 1.0),
    }
}

/// Round numbers within a span.
fn ticks(span: &Span) -> Vec<f64> {
    match span.scale {
        Scale::Linear => {
            let raw = (span.high - span.low) / 6.0;
            let unit = 10_f64.powf(raw.log10().floor());
            let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|step| step * unit);
            let step = steps.into_iter().find(|step| *step >= raw).unwrap_or(raw);
            let first = (span.low / step).ceil() as i64;
            let last = (span.high / step + 1e-9).floor() as i64;
            (first..=last).map(|n| n as f64 * step).collect()
        }
        Scale::Log => {
            let decades = (span.high / span.low).log10();
            let within: &[f64] = if decades > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
            let exponents = span.low.log10().floor() as i32..=span.high.log10().ceil() as i32;
            let all = exponents.flat_map(|e| within.iter().map(move |m| m * 10_f64.powi(e)));
            all.filter(|tick| (span.low..=span.high).contains(tick)).collect()
        }
    }
}

/// A value as the label of a tick, where space is scarce: in thousands or millions from 10,000 on.
fn tick_text(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{}M", short(value / 1e6)),
        size if size >= 1e4 => format!("{}k", short(value / 1e3)),
        _ => short(value),
    }
}

/// Escapes text for HTML, attributes included.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(scale: Scale, low: f64, high: f64) -> Span {
        Span { scale, low, high, from: 0.0, to: 100.0 }
    }

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(ticks(&span(Scale::Linear, 0.0, 6.5)), [0.0, 2.0, 4.0, 6.0]);
        assert_eq!(ticks(&span(Scale::Log, 0.9, 30.0)), [1.0, 2.0, 5.0, 10.0, 20.0]);
        assert_eq!(ticks(&span(Scale::Log, 0.5, 20_000.0)), [1.0, 10.0, 100.0, 1e3, 1e4]);
    }

    #[test]
    fn numbers_lie_where_the_scale_says() {
        assert_eq!(span(Scale::Linear, 0.0, 10.0).position(5.0), 50.0);
        assert!((span(Scale::Log, 1.0, 100.0).position(10.0) - 50.0).abs() < 1e-9);
        assert_eq!(span(Scale::Log, 1.0, 100.0).position(0.0), 0.0, "no logarithm, so the end");
    }

    #[test]
    fn large_values_are_short_at_an_axis() {
        assert_eq!(tick_text(1000.0), "1,000");
        assert_eq!(tick_text(10_000.0), "10k");
        assert_eq!(tick_text(2_500_000.0), "2.5M");
        assert_eq!(tick_text(0.5), "0.5");
    }
}
