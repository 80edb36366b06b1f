//! `hotring scrub`: has a running server check all its items, and shows the progress.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgMatches, Command, value_parser};
use indicatif::{ProgressBar, ProgressStyle};

use crate::client::{Answer, Client, Error, address_args, connect};

/// Time between two status requests.
const PAUSE: Duration = Duration::from_millis(200);
/// Steps of the progress bar: tenths of a percent.
const PARTS: u64 = 1000;

const NOTES: &str = "\
The server must have been started with the setting checksum at write or verify. It checks the items in \
the background, and continues if this program is interrupted; SCRUB STOP ends the check.

Exit codes: 0 if all items are intact, 1 if some are damaged, 2 if the check failed";

/// The subcommand and its flags.
pub(crate) fn cli() -> Command {
    let rate = Arg::new("rate")
        .long("rate")
        .value_name("N")
        .value_parser(value_parser!(u64).range(1..))
        .help("Check at most this many items per second");
    Command::new("scrub")
        .about("Check the items of a running server against their checksums")
        .after_help(NOTES)
        .args(address_args())
        .arg(rate)
}

/// Runs the check to its end and prints the result.
pub(crate) fn run(flags: &ArgMatches) -> ExitCode {
    let rate = flags.get_one::<u64>("rate").copied();
    let report = connect(flags).and_then(|mut client| check(&mut client, rate));
    let report = match report {
        Ok(report) => report,
        Err(error) => {
            eprintln!("hotring scrub: {error}");
            return ExitCode::from(2);
        }
    };
    print!("{}", report.text());
    match (report.state.as_str(), report.number("damaged")) {
        ("done", 0) => ExitCode::SUCCESS,
        ("done", _) => ExitCode::FAILURE,
        _ => ExitCode::from(2),
    }
}

fn check(client: &mut Client, rate: Option<u64>) -> Result<Report, Error> {
    if Report::of(client)?.state == "running" {
        eprintln!("a check is already running; its progress:");
    } else {
        let rate = rate.map_or(String::new(), |rate| format!(" RATE {rate}"));
        client.ask(&format!("SCRUB START{rate}"))?;
    }
    let bar = ProgressBar::new(PARTS);
    let style = ProgressStyle::with_template("{wide_bar} {percent:>3} %  {msg}");
    bar.set_style(style.expect("the template is one of indicatif's language"));
    loop {
        let report = Report::of(client)?;
        bar.set_position((report.progress * PARTS as f64 / 100.0) as u64);
        let (items, damaged) = (report.number("items"), report.number("damaged"));
        bar.set_message(format!("{items} items, {damaged} damaged"));
        if report.state != "running" {
            bar.finish_and_clear();
            return Ok(report);
        }
        std::thread::sleep(PAUSE);
    }
}

/// The reply of SCRUB STATUS.
#[derive(Debug, Default)]
struct Report {
    state: String,
    progress: f64,
    numbers: Vec<(String, i64)>,
    keys: Vec<String>,
}

impl Report {
    fn of(client: &mut Client) -> Result<Self, Error> {
        Ok(Self::read(client.ask("SCRUB STATUS")?))
    }

    /// Reads the reply. Unknown fields are ignored: a later server may send more.
    fn read(reply: Answer) -> Self {
        let Answer::List(parts) = reply else { return Report::default() };
        let mut report = Report::default();
        let mut parts = parts.into_iter();
        while let (Some(Answer::Text(name)), Some(value)) = (parts.next(), parts.next()) {
            match (name.as_str(), value) {
                ("state", Answer::Text(state)) => report.state = state,
                ("progress_percent", Answer::Text(text)) => {
                    report.progress = text.parse().unwrap_or(0.0);
                }
                ("damaged_keys", Answer::List(keys)) => {
                    let text = |key| if let Answer::Text(key) = key { Some(key) } else { None };
                    report.keys = keys.into_iter().filter_map(text).collect();
                }
                (_, Answer::Number(number)) => report.numbers.push((name, number)),
                _ => {}
            }
        }
        report
    }

    fn number(&self, name: &str) -> i64 {
        self.numbers.iter().find(|(n, _)| n == name).map_or(0, |(_, number)| *number)
    }

    fn text(&self) -> String {
        let ms = self.number("ended_at_ms") - self.number("started_at_ms");
        let mut text = format!(
            "{}: {:.1} % in {:.1} s: {} items of {} bytes, {} damaged\n",
            self.state,
            self.progress,
            ms.max(0) as f64 / 1000.0,
            self.number("items"),
            self.number("bytes"),
            self.number("damaged"),
        );
        for key in &self.keys {
            text.push_str(&format!("damaged: {key}\n"));
        }
        let unnamed = self.number("damaged") - self.keys.len() as i64;
        if unnamed > 0 {
            text.push_str(&format!("and {unnamed} more\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server, and the result of checking it.
    fn checked(checksum: &str, rate: Option<u64>) -> Result<Report, Error> {
        let mut config = hotring_server::Config { port: 0, threads: 1, ..Default::default() };
        config.set("checksum", checksum, "a test").unwrap();
        let running = hotring_server::start(config).unwrap();
        let mut client = Client::tcp(&running.addresses()[0].to_string()).unwrap();
        for i in 0..1_000 {
            client.ask(&format!("SET key:{i} {i}")).unwrap();
        }
        let result = check(&mut client, rate);
        running.stop();
        running.wait().unwrap();
        result
    }

    #[test]
    fn a_server_is_checked_to_the_end() {
        for rate in [None, Some(100_000)] {
            let report = checked("write", rate).unwrap();
            assert_eq!((report.state.as_str(), report.number("items")), ("done", 1_000));
            assert_eq!((report.number("damaged"), report.number("items_without_checksum")), (0, 0));
        }
    }

    #[test]
    fn a_server_without_checksums_names_the_setting() {
        let error = checked("off", None).unwrap_err().to_string();
        assert!(error.contains("start the server with the setting 'checksum'"), "{error}");
        let flags = cli().get_matches_from(["scrub", "--unixsocket", "/no/such/socket"]);
        let error = connect(&flags).err().expect("no server listens there").to_string();
        assert!(error.starts_with("cannot connect to /no/such/socket: "), "{error}");
    }

    #[test]
    fn a_report_is_read_by_its_names() {
        let text = |text: &str| Answer::Text(text.to_string());
        let list = vec![
            text("state"),
            text("done"),
            text("progress_percent"),
            text("100.0"),
            text("items"),
            Answer::Number(12),
            text("bytes"),
            Answer::Number(480),
            text("damaged"),
            Answer::Number(3),
            text("started_at_ms"),
            Answer::Number(1_000),
            text("ended_at_ms"),
            Answer::Number(2_500),
            text("something_new"),
            Answer::Nothing,
            text("damaged_keys"),
            Answer::List(vec![text("k\\x01"), text("?")]),
        ];
        let report = Report::read(Answer::List(list));
        assert_eq!(
            report.text(),
            "done: 100.0 % in 1.5 s: 12 items of 480 bytes, 3 damaged\n\
             damaged: k\\x01\ndamaged: ?\nand 1 more\n"
        );
        assert_eq!(Report::read(Answer::Nothing).state, "");
    }
}
