//! Collects results round by round, and shows them as rows and as a table.

use serde::Serialize;

use super::SERVERS;
use crate::durability::server_name;
use crate::report::{Spread, Table, short};
use crate::servers::Kind;

/// The unit of a rate as a multiple of another one.
const GAIN: &str = "of one thread";

/// The figures of one setting.
pub struct Figures {
    setting: String,
    cells: Vec<Cell>,
}

struct Cell {
    case: String,
    unit: &'static str,
    /// The figures of each server, in the order of [`SERVERS`].
    rounds: [Vec<f64>; 2],
}

/// One figure of one case for both servers, as a row of CSV and JSON.
#[derive(Debug, Serialize)]
pub struct Row {
    setting: String,
    case: String,
    unit: &'static str,
    rounds: usize,
    redis: f64,
    redis_min: f64,
    redis_max: f64,
    hotring: f64,
    hotring_min: f64,
    hotring_max: f64,
    ratio: f64,
    ratio_min: f64,
    ratio_max: f64,
}

impl Figures {
    pub fn new(setting: &str) -> Figures {
        Figures { setting: setting.to_owned(), cells: Vec::new() }
    }

    /// Adds the result of a server in a round. Each round has the same figures.
    pub fn add(&mut self, case: &str, unit: &'static str, server: &str, value: f64) {
        let is_it = |cell: &Cell| cell.case == case && cell.unit == unit;
        let at = self.cells.iter().position(is_it).unwrap_or_else(|| {
            self.cells.push(Cell { case: case.to_owned(), unit, rounds: Default::default() });
            self.cells.len() - 1
        });
        let column = SERVERS.iter().position(|kind| server_name(*kind) == server);
        self.cells[at].rounds[column.expect("one of the two servers")].push(value);
    }

    /// The rates that hotring's threads allow as multiples of those in `base`, by the CPU time of a request, which is
    /// in this unit. hotring has the first number of threads in `base` and the second one here, Redis the same in both.
    pub fn gain(&self, setting: &str, base: &Figures, unit: &str, threads: [u32; 2]) -> Figures {
        let more = f64::from(threads[1]) / f64::from(threads[0]);
        let mut gain = Figures::new(setting);
        for cell in self.cells.iter().filter(|cell| cell.unit == unit) {
            let is_same = |other: &&Cell| other.case == cell.case && other.unit == unit;
            let Some(before) = base.cells.iter().find(is_same) else { continue };
            for (column, kind) in SERVERS.into_iter().enumerate() {
                let factor = if kind == Kind::Hotring { more } else { 1.0 };
                for (now, before) in cell.rounds[column].iter().zip(&before.rounds[column]) {
                    gain.add(&cell.case, GAIN, server_name(kind), factor * before / now);
                }
            }
        }
        gain
    }

    pub fn rows(&self) -> Vec<Row> {
        self.cells.iter().map(|cell| self.row(cell)).collect()
    }

    fn row(&self, cell: &Cell) -> Row {
        let [theirs, ours] = &cell.rounds;
        let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(our, their)| our / their).collect();
        let [redis, hotring, ratio] = [theirs, ours, &ratios].map(|values| Spread::of(values));
        Row {
            setting: self.setting.clone(),
            case: cell.case.clone(),
            unit: cell.unit,
            rounds: ratios.len(),
            redis: redis.median,
            redis_min: redis.min,
            redis_max: redis.max,
            hotring: hotring.median,
            hotring_min: hotring.min,
            hotring_max: hotring.max,
            ratio: ratio.median,
            ratio_min: ratio.min,
            ratio_max: ratio.max,
        }
    }
}

/// The table, with one figure per line.
pub fn table(rows: &[Row]) -> String {
    let mut table = Table::new(&["setting", "case", "unit", "redis", "hotring", "of redis"]);
    for row in rows {
        table.row(vec![
            row.setting.clone(),
            row.case.clone(),
            row.unit.to_owned(),
            short(row.redis),
            short(row.hotring),
            format!("{:.2} ({:.2}..{:.2})", row.ratio, row.ratio_min, row.ratio_max),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_of_rounds() {
        let mut figures = Figures::new("here");
        for (ours, theirs) in [(10.0, 5.0), (9.0, 6.0), (40.0, 10.0)] {
            figures.add("LPUSH", "ns of CPU", "hotring", ours);
            figures.add("LPUSH", "ns of CPU", "redis", theirs);
        }
        let rows = figures.rows();
        let expected = "\
            | setting | case  | unit      | redis | hotring |          of redis |\n\
            |---------|-------|-----------|------:|--------:|------------------:|\n\
            | here    | LPUSH | ns of CPU |     6 |      10 | 2.00 (1.50..4.00) |\n";
        assert_eq!(table(&rows), expected);
        assert_eq!((rows.len(), rows[0].rounds, rows[0].ratio_min), (1, 3, 1.5));
    }

    #[test]
    fn twice_the_threads_at_the_same_cost_allow_twice_the_rate() {
        let [mut one, mut two] = ["1", "2"].map(Figures::new);
        for (figures, times) in [(&mut one, [10.0, 9.0]), (&mut two, [10.0, 12.0])] {
            for ours in times {
                figures.add("ZRANK", "ns of CPU", "hotring", ours);
                figures.add("ZRANK", "ns of CPU", "redis", 2.0 * ours);
                figures.add("ZRANK", "bytes logged", "hotring", ours * ours);
            }
        }
        let rows = two.gain("both", &one, "ns of CPU", [1, 2]).rows();
        let [row] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((row.hotring_min, row.hotring_max), (1.5, 2.0));
        assert_eq!((row.redis_min, row.redis_max, row.ratio), (0.75, 1.0, 2.0));
    }
}
