//! The report as one self-contained HTML page: no script, no font, no image.

use std::fmt::Write;

use super::figure::{Figure, Paper, Verdict};
use super::report::Report;
use crate::plots::chart::{Chart, Origin, Point, Series};
use crate::plots::svg::{self, escape};
use crate::report::short;

/// Tables with more rows than this are folded.
const ROWS_OPEN: usize = 12;

/// The page.
pub fn page(report: &Report) -> String {
    let mut page = String::new();
    let _ = write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <meta name=\"color-scheme\" content=\"light dark\"/>\
         <title>HotRing: the papers' figures on this machine</title>\
         <style>{}</style></head><body><main>",
        include_str!("report.css")
    );
    head(&mut page, report);
    contents(&mut page, report);
    for paper in Paper::ALL {
        let mut figures =
            report.figures.iter().filter(|f| f.subject.source.paper == paper).peekable();
        if figures.peek().is_none() {
            continue;
        }
        let _ = write!(
            page,
            "<section><h2>{}</h2><p class=\"cite\">{}</p>",
            escape(paper.name()),
            escape(paper.citation())
        );
        figures.for_each(|figure| section(&mut page, report, figure));
        page.push_str("</section>");
    }
    page.push_str("</main></body></html>\n");
    page
}

/// Writes the machine, and how to read the report.
fn head(page: &mut String, report: &Report) {
    let machine = &report.machine;
    page.push_str("<header><h1>The papers' figures on this machine</h1><dl class=\"facts\">");
    let facts = [
        ("Processor", format!("{}, {} cores", machine.cpu, machine.cores)),
        ("Memory", format!("{} GiB", machine.memory_gib)),
        ("Kernel", machine.kernel.clone()),
        ("Huge pages", machine.huge_pages.clone()),
        ("Compiler", machine.rustc.to_owned()),
        ("Commit", machine.commit.to_owned()),
        ("Build", machine.profile.to_owned()),
        ("Scale", report.scale_line.clone()),
        ("Measured", format!("{} in {}", report.date, duration(report.seconds))),
        ("Command", report.command.clone()),
    ];
    for (name, value) in &facts {
        let _ = write!(page, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(value));
    }
    page.push_str("</dl>");
    if report.figures.len() < report.wanted {
        let _ = write!(
            page,
            "<p class=\"warning\">A part of a report: {} of {} figures.</p>",
            report.figures.len(),
            report.wanted
        );
    }
    let class = if report.fitness.is_fit { "fit" } else { "warning" };
    let _ = write!(page, "<p class=\"{class}\">{}.</p>", escape(&report.fitness.to_string()));
    if machine.profile != "release" {
        page.push_str(
            "<p class=\"warning\">This is not a release build: the speeds in it mean nothing.</p>",
        );
    }
    let _ = write!(
        page,
        "<p>Each figure says what the paper reports and what is seen here. A verdict is computed \
         from the ratios within rounds: <b>agrees</b> means within a tenth of the gain that the paper \
         reports, or more; <b>agrees in part</b> means the same direction by less, or some of its \
         cases; <b>differs</b> means neither; <b>too noisy to tell</b> means that the middle half of \
         the rounds, which stands in brackets, lies on both sides of a bound. A figure says how many \
         of its claims agree without reserve. The machines of the papers had 4 to 64 \
         hardware threads, so what needs many of them can be seen here only as far as {} cores \
         go. Targets take turns within each round; points are medians, with bars from the least \
         to the greatest round. Points show their values under the pointer.</p>",
        machine.cores
    );
    for note in &report.notes {
        let _ = write!(page, "<p>{}</p>", escape(note));
    }
    page.push_str("</header>");
}

fn contents(page: &mut String, report: &Report) {
    page.push_str(
        "<nav aria-label=\"Figures\"><h2>Contents</h2><table class=\"contents\"><thead><tr>\
         <th scope=\"col\">Figure</th><th scope=\"col\">What</th><th scope=\"col\">Verdict</th>\
         </tr></thead><tbody>",
    );
    for figure in &report.figures {
        let _ = write!(
            page,
            "<tr><td>{} {}</td><td><a href=\"#{}\">{}</a></td><td>{}</td></tr>",
            escape(figure.subject.source.paper.name()),
            escape(figure.subject.source.reference),
            figure.subject.id,
            escape(figure.subject.title),
            summary(figure)
        );
    }
    page.push_str("</tbody></table></nav>");
}

/// A badge with the number of claims that agree.
fn summary(figure: &Figure) -> String {
    let outcome = figure.outcome();
    let class = match outcome.agree {
        _ if outcome.claims == 0 => return String::new(),
        agree if agree == outcome.claims => "agrees",
        0 => "differs",
        _ => "partly",
    };
    format!("<span class=\"badge {class}\">{}</span>", outcome.describe())
}

fn badge(verdict: Verdict) -> String {
    let class = match verdict {
        Verdict::Agrees => "agrees",
        Verdict::Partly => "partly",
        Verdict::Differs => "differs",
        Verdict::Noisy => "noisy",
        Verdict::Unseen => "unseen",
    };
    let sign = match verdict {
        Verdict::Agrees => "\u{2713}",
        Verdict::Partly => "\u{2248}",
        Verdict::Differs => "\u{2717}",
        Verdict::Noisy => "?",
        Verdict::Unseen => "\u{2013}",
    };
    format!("<span class=\"badge {class}\">{sign} {}</span>", verdict.label())
}

fn section(page: &mut String, report: &Report, figure: &Figure) {
    let _ = write!(
        page,
        "<article id=\"{}\"><h3>{} <span class=\"reference\">{} {}</span> {}</h3>",
        figure.subject.id,
        escape(figure.subject.title),
        escape(figure.subject.source.paper.name()),
        escape(figure.subject.source.reference),
        summary(figure)
    );
    let _ = write!(page, "<p><b>The paper reports:</b> {}</p>", escape(figure.subject.paper));
    claims(page, figure);
    page.push_str("<div class=\"charts\">");
    for (number, chart) in figure.measured.charts.iter().enumerate() {
        draw(page, chart, &format!("{}-{number}", figure.subject.id));
    }
    page.push_str("</div>");
    if !figure.measured.notes.is_empty() {
        page.push_str("<ul class=\"notes\">");
        for note in &figure.measured.notes {
            let _ = write!(page, "<li>{}</li>", escape(note));
        }
        page.push_str("</ul>");
    }
    let _ = write!(
        page,
        "<p class=\"command\"><code>{}</code> took {}; <a href=\"{}.csv\">CSV</a></p></article>",
        escape(&report.command_of(figure)),
        duration(figure.seconds),
        figure.subject.id
    );
}

fn claims(page: &mut String, figure: &Figure) {
    if figure.measured.claims.is_empty() {
        return;
    }
    page.push_str(
        "<div class=\"scroll\"><table class=\"claims\"><thead><tr>\
         <th scope=\"col\">The paper says</th><th scope=\"col\">We see</th>\
         <th scope=\"col\">Verdict</th></tr></thead><tbody>",
    );
    for claim in &figure.measured.claims {
        let _ = write!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&claim.paper),
            escape(&claim.seen),
            badge(claim.verdict)
        );
    }
    page.push_str("</tbody></table></div>");
}

fn draw(page: &mut String, chart: &Chart, id: &str) {
    let _ = write!(
        page,
        "<figure><figcaption>{}</figcaption><ul class=\"legend\">",
        escape(&chart.title)
    );
    for (series, style) in chart.series.iter().zip(svg::styles(chart)) {
        let sign = svg::sign(style, series, chart.shape);
        let _ = write!(page, "<li>{sign}{}</li>", escape(&name(series)));
    }
    let _ = write!(page, "</ul><div class=\"scroll\">{}</div>", svg::draw(chart, id));
    table(page, chart);
    page.push_str("</figure>");
}

/// Writes the numbers of a chart: a row for each position, a column for each series.
fn table(page: &mut String, chart: &Chart) {
    let xs = chart.xs();
    let open = if xs.len() <= ROWS_OPEN { " open=\"open\"" } else { "" };
    let _ = write!(
        page,
        "<details{open}><summary>{}</summary><div class=\"scroll\"><table><thead><tr>\
         <th scope=\"col\">{}</th>",
        escape(&chart.y.label),
        escape(&chart.x.label)
    );
    for series in &chart.series {
        let _ = write!(page, "<th scope=\"col\">{}</th>", escape(&name(series)));
    }
    page.push_str("</tr></thead><tbody>");
    for x in xs {
        let name = chart.category(x).map_or_else(|| short(x), str::to_owned);
        let _ = write!(page, "<tr><th scope=\"row\">{}</th>", escape(&name));
        for series in &chart.series {
            let _ = write!(page, "<td>{}</td>", series.at(x).map_or_else(String::new, cell));
        }
        page.push_str("</tr>");
    }
    page.push_str("</tbody></table></div></details>");
}

/// The name of a series, with the origin of its numbers unless they were measured.
fn name(series: &Series) -> String {
    let from = match series.origin {
        Origin::Measured => "",
        Origin::Computed => " (formula)",
        Origin::Paper => " (paper)",
    };
    format!("{}{from}", series.name)
}

fn cell(point: &Point) -> String {
    let value = short(point.y);
    match point.range {
        Some((low, high)) if low < high => {
            format!("{value} <small>{}\u{2013}{}</small>", short(low), short(high))
        }
        _ => value,
    }
}

fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0..60 => format!("{} s", short(seconds)),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}
