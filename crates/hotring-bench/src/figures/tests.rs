//! The report of made-up figures: whether it is well formed and has all that a figure has.

use std::collections::HashSet;

use super::figure::{Claim, Figure, Measured, Paper, Source, Subject};
use super::report::{Report, day};
use crate::plots::chart::{Axis, Chart, Mark, Point, Series, Shape};
use anyhow::{Result, bail};

use super::{Bench, Entry, FiguresArgs, Scale, durable_log, entries, html, rhkv_space, servers};
use crate::durability::Testbed;
use crate::machine::Machine;
use crate::measure::fitness::Fitness;
use crate::report::Spread;

fn report(figures: Vec<Figure>) -> Report {
    Report {
        machine: Machine::here(),
        date: day(0),
        command: "hotring-bench figures".into(),
        scale: Scale::Tiny.to_string(),
        scale_line: "for a test".into(),
        seconds: 61.0,
        wanted: figures.len(),
        fitness: Fitness { of_bare: 0.95, of_bare_chain: 0.95, is_fit: true },
        notes: vec!["a note with < and & in it".into()],
        figures,
    }
}

/// A figure with every shape of plot.
fn figure(id: &'static str) -> Figure {
    let spread = Spread::of(&[1.0, 2.0, 3.0]);
    let series = || {
        vec![
            Series::measured(
                "ours \"<&>\"",
                vec![Point::spread(0.0, spread), Point::new(1.0, 9.0)],
            ),
            Series::computed("formula", vec![Point::new(0.0, 4.0)]),
            Series::paper("printed", vec![Point::new(1.0, 0.0), Point::new(0.0, f64::NAN)]),
        ]
    };
    let names = || vec!["first".to_owned(), "second".to_owned()];
    let bars = Chart::bars("bars", "which", Axis::linear("Mops/s"), names(), series());
    let stacked = Chart { shape: Shape::Stacked, ..bars.clone() };
    let mut lines = Chart::lines("lines", Axis::log("keys"), Axis::log("ns"), series());
    lines.marks.push(Mark { x: 1.0, name: "a moment".into() });
    let empty = Chart::lines("empty", Axis::linear("x"), Axis::linear("y"), Vec::new());
    let source = Source { paper: Paper::HotRing, reference: "figure 0" };
    Figure {
        subject: Subject { id, title: "A <title>", source, paper: "that a < b & c" },
        measured: Measured {
            claims: vec![Claim::factor("a & b", "x", 2.0, 2.1), Claim::holds("c", "d", 0, 1)],
            charts: vec![bars, stacked, lines, empty],
            notes: vec!["one".into()],
        },
        seconds: 1.5,
    }
}

/// Goes through all tags: each is closed, in order, no name of an element comes up twice, and every
/// link within the page leads somewhere. Does not look at what attributes mean.
fn check_well_formed(page: &str) {
    let (mut open, mut ids, mut links) = (Vec::new(), HashSet::new(), Vec::new());
    let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("a document type");
    // The text of a style is no tags.
    let unstyled = rest.split_once("<style>").and_then(|(before, after)| {
        after.split_once("</style>").map(|(_, behind)| before.to_owned() + behind)
    });
    rest = unstyled.as_deref().unwrap_or(rest);
    while let Some(start) = rest.find('<') {
        assert!(!rest[..start].contains('>'), "a stray > in {:?}", &rest[..start]);
        let end = start + rest[start..].find('>').expect("a tag that ends");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name.to_owned()), "closed out of order");
            continue;
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "an open quotation mark in <{tag}>");
        let value = |name: &str| tag.split_once(name).map(|(_, v)| v.split('"').next().unwrap());
        if let Some(id) = value(" id=\"") {
            assert!(ids.insert(id.to_owned()), "two elements named {id}");
        }
        links.extend(value(" href=\"#").map(str::to_owned));
        if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap_or_default().to_owned());
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
    for link in links {
        assert!(ids.contains(&link), "a link to {link}, which is not there");
    }
}

#[test]
fn a_page_is_well_formed_and_has_a_plot_and_a_table_for_each_chart() {
    let page = html::page(&report(vec![figure("one"), figure("two")]));
    check_well_formed(&page);
    assert_eq!(page.matches("role=\"img\"").count(), 8);
    assert_eq!(page.matches("<figure>").count(), 8);
    assert_eq!(page.matches("<details").count(), 8);
    assert!(page.contains("A &lt;title&gt;") && page.contains("agrees in part"), "{page}");
    assert!(!page.contains("NaN") && !page.contains("inf"), "a place that is no number");
}

#[test]
#[should_panic(expected = "closed out of order")]
fn the_check_of_a_page_finds_a_wrong_one() {
    check_well_formed("<!DOCTYPE html><p><b>text</p></b>");
}

#[test]
fn a_page_needs_nothing_beside_itself() {
    let page = html::page(&report(vec![figure("one")]));
    for outside in ["http", "src=", "@import", "url(", "<script", "<link"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn a_report_is_written_as_page_json_csv_and_plots() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("new/folder");
    report(vec![figure("one")]).write(&out).unwrap();
    let json = std::fs::read_to_string(out.join("report.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["figures"][0]["id"], "one");
    assert_eq!(json["figures"][0]["charts"][0]["series"][0]["points"][0]["y"], 2.0);
    let csv = std::fs::read_to_string(out.join("one.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 3 * 5, "{csv}");
    assert!(
        csv.contains("bars,\"ours \"\"<&>\"\"\",measured,which,first,Mops/s,2.0,1.0,3.0"),
        "{csv}"
    );
    assert!(out.join("report.html").exists());
    let svg = std::fs::read_to_string(out.join("one-3.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains(">lines</text>"), "{svg}");
    assert!(svg.contains("ours &quot;&lt;&amp;&gt;&quot;</text>"), "{svg}");
    assert!(!out.join("one-5.svg").exists());
}

#[test]
fn figures_have_names_of_their_own_that_suit_files() {
    let mut seen = HashSet::new();
    for entry in entries() {
        let id = entry.subject.id;
        assert!(seen.insert(id), "two figures named {id}");
        assert!(
            id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'),
            "{id}"
        );
    }
}

#[test]
fn days_are_those_of_the_calendar() {
    assert_eq!(day(0), "1970-01-01");
    assert_eq!(day(951_782_400), "2000-02-29");
    assert_eq!(day(951_868_800), "2000-03-01");
    assert_eq!(day(1_767_225_599), "2025-12-31");
    assert_eq!(day(1_767_225_600), "2026-01-01");
}

/// Servers are programs of their own: the tests of the command line start them.
fn is_in_process(entry: &Entry) -> bool {
    let mut served =
        servers::ENTRIES.iter().chain(&durable_log::ENTRIES).chain(&rhkv_space::ENTRIES);
    served.all(|server| server.subject.id != entry.subject.id)
}

fn args() -> FiguresArgs {
    let testbed = Testbed::default();
    FiguresArgs {
        scale: Scale::Tiny,
        out: None,
        only: Vec::new(),
        list: false,
        traces: None,
        testbed,
    }
}

fn nothing(_: &Bench) -> Result<Measured> {
    Ok(figure("one").measured)
}

fn failing(_: &Bench) -> Result<Measured> {
    bail!("no memory, after hours")
}

/// The report of a run of hours was written at its end, and so not at all when its last figure failed.
#[test]
fn a_figure_is_in_the_report_as_soon_as_it_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("report");
    let entries = [("first", nothing as fn(&Bench) -> _), ("second", failing)]
        .map(|(id, measure)| Entry { subject: Subject { id, ..figure(id).subject }, measure });
    let error = super::measure(&args(), &entries, |report| report.write(&out)).unwrap_err();
    assert!(format!("{error:#}").contains("figure second: no memory"), "{error:#}");
    let page = std::fs::read_to_string(out.join("report.html")).expect("a part of the report");
    check_well_formed(&page);
    assert!(page.contains("id=\"first\"") && !page.contains("id=\"second\""), "{page}");
    assert!(page.contains("1 of 2 figures"), "that it is a part: {page}");
    assert!(out.join("first.csv").exists());
}

#[test]
fn a_report_of_an_unfit_run_says_so() {
    let mut unfit = report(vec![figure("one")]);
    assert!(!html::page(&unfit).contains("UNFIT"));
    unfit.fitness = Fitness { of_bare: 0.3, of_bare_chain: 0.95, is_fit: false };
    assert!(html::page(&unfit).contains("UNFIT RUN"), "no warning");
}

#[test]
fn every_figure_is_measured_at_a_tiny_scale_and_has_charts_with_points() {
    let mut entries = entries();
    entries.retain(is_in_process);
    let report = super::measure(&args(), &entries, |_| Ok(())).unwrap();
    assert_eq!(report.figures.len(), entries.len());
    for figure in &report.figures {
        let (id, measured) = (figure.subject.id, &figure.measured);
        assert!(!measured.charts.is_empty() && !measured.claims.is_empty(), "{id}");
        // On a busy machine, no window of time may be full at this scale.
        let (timed, other): (Vec<&Chart>, Vec<&Chart>) =
            measured.charts.iter().partition(|chart| chart.x.label == "seconds");
        assert!(timed.iter().all(|chart| !chart.series.is_empty()), "{id}");
        for series in other.iter().flat_map(|chart| &chart.series) {
            assert!(!series.points.is_empty(), "{id}: {} has no points", series.name);
            let all = series.points.iter().all(|point| point.x.is_finite() && point.y.is_finite());
            assert!(all, "{id}: {:?}", series.points);
        }
        let seen: String = measured.claims.iter().map(|claim| claim.seen.as_str()).collect();
        assert!(!seen.contains("NaN"), "{id}: {seen}");
    }
    check_well_formed(&html::page(&report));
}
