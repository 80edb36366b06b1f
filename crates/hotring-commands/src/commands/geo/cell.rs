//! Geohash cells: the bits of longitude and latitude interleaved into one number, which is the score of a member in a
//! sorted set.
//!
//! A cell of step n halves each axis n times. A member's score is a cell of step 26: 52 bits, which a double holds
//! exactly. All arithmetic must be in Redis's order, so that the last bits of the replies agree.

/// The step of the cell that is a member's score.
pub(super) const STEP_MAX: u32 = 26;
/// Range of valid longitudes, in degrees.
pub(super) const LONGITUDES: (f64, f64) = (-180.0, 180.0);
/// Range of valid latitudes, in degrees: that of a square Mercator map.
pub(super) const LATITUDES: (f64, f64) = (-85.051_128_78, 85.051_128_78);
/// Range of latitudes in a geohash string, in degrees.
const ALL_LATITUDES: (f64, f64) = (-90.0, 90.0);
/// The earth's mean radius in meters.
pub(super) const EARTH_RADIUS: f64 = 6_372_797.560856;
/// The even bits of a cell, which encode the latitude.
const EVEN: u64 = 0x5555_5555_5555_5555;
const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";

/// A point on the earth, in degrees.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Point {
    pub(super) longitude: f64,
    pub(super) latitude: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) bits: u64,
    pub(super) step: u32,
}

/// The sides of a cell, in degrees.
pub(super) struct Sides {
    pub(super) west: f64,
    pub(super) east: f64,
    pub(super) south: f64,
    pub(super) north: f64,
}

/// Spreads the 32 bits of a number over the even bits of the result.
fn spread(number: u32) -> u64 {
    let mut x = u64::from(number);
    x = (x | (x << 16)) & 0x0000_ffff_0000_ffff;
    x = (x | (x << 8)) & 0x00ff_00ff_00ff_00ff;
    x = (x | (x << 4)) & 0x0f0f_0f0f_0f0f_0f0f;
    x = (x | (x << 2)) & 0x3333_3333_3333_3333;
    (x | (x << 1)) & EVEN
}

/// Gathers the even bits into one number; the inverse of `spread`.
fn gathered(bits: u64) -> u32 {
    let mut x = bits & EVEN;
    x = (x | (x >> 1)) & 0x3333_3333_3333_3333;
    x = (x | (x >> 2)) & 0x0f0f_0f0f_0f0f_0f0f;
    x = (x | (x >> 4)) & 0x00ff_00ff_00ff_00ff;
    x = (x | (x >> 8)) & 0x0000_ffff_0000_ffff;
    ((x | (x >> 16)) & 0xffff_ffff) as u32
}

impl Cell {
    /// The cell that contains a point with valid coordinates.
    pub(super) fn around(point: Point, step: u32) -> Cell {
        Cell::within(point, step, LATITUDES)
    }

    fn within(point: Point, step: u32, latitudes: (f64, f64)) -> Cell {
        let share = |at: f64, (min, max): (f64, f64)| {
            ((at - min) / (max - min) * (1_u64 << step) as f64) as u32
        };
        let (x, y) = (share(point.longitude, LONGITUDES), share(point.latitude, latitudes));
        Cell { bits: spread(y) | (spread(x) << 1), step }
    }

    /// The cell of a member's score. Accepts any score, as sorted sets may hold others.
    pub(super) fn of_score(score: f64) -> Cell {
        let bits = if score < 0.0 { score as i64 as u64 } else { score as u64 };
        Cell { bits, step: STEP_MAX }
    }

    /// The lowest score within the cell.
    pub(super) fn score(self) -> f64 {
        (self.bits << (2 * (STEP_MAX - self.step))) as f64
    }

    /// The lowest score above those of the cell.
    pub(super) fn score_behind(self) -> f64 {
        Cell { bits: self.bits + 1, step: self.step }.score()
    }

    pub(super) fn sides(self) -> Sides {
        let parts = (1_u64 << self.step) as f64;
        let at = |n: u32, (min, max): (f64, f64)| min + f64::from(n) / parts * (max - min);
        let (x, y) = (gathered(self.bits >> 1), gathered(self.bits));
        Sides {
            west: at(x, LONGITUDES),
            east: at(x.wrapping_add(1), LONGITUDES),
            south: at(y, LATITUDES),
            north: at(y.wrapping_add(1), LATITUDES),
        }
    }

    pub(super) fn center(self) -> Point {
        let sides = self.sides();
        Point {
            longitude: ((sides.west + sides.east) / 2.0).clamp(LONGITUDES.0, LONGITUDES.1),
            latitude: ((sides.south + sides.north) / 2.0).clamp(LATITUDES.0, LATITUDES.1),
        }
    }

    /// The cell this many cells to the east and to the north, wrapping around the edges of the map. A point on the
    /// eastern or northern edge lies in a cell beyond the last one, as in Redis: only movement wraps around.
    pub(super) fn moved(self, east: i32, north: i32) -> Cell {
        let around = u32::MAX >> (32 - self.step);
        let step = |from: u32, by: i32| match by {
            0 => from,
            by => from.wrapping_add_signed(by) & around,
        };
        let (x, y) = (step(gathered(self.bits >> 1), east), step(gathered(self.bits), north));
        Cell { bits: spread(y) | (spread(x) << 1), step: self.step }
    }
}

impl Point {
    /// The standard geohash string of the point: eleven letters. No bits remain for the last one.
    pub(super) fn geohash(self) -> [u8; 11] {
        let bits = Cell::within(self, STEP_MAX, ALL_LATITUDES).bits;
        std::array::from_fn(|i| match i {
            10 => ALPHABET[0],
            _ => ALPHABET[(bits >> (52 - 5 * (i + 1))) as usize & 31],
        })
    }

    /// Great-circle distance between two points, in meters.
    pub(super) fn distance(self, other: Point) -> f64 {
        let half = |a: f64, b: f64| ((radians(b) - radians(a)) / 2.0).sin();
        let u = half(self.latitude, other.latitude);
        let v = half(self.longitude, other.longitude);
        let cosines = radians(self.latitude).cos() * radians(other.latitude).cos();
        2.0 * EARTH_RADIUS * (u * u + cosines * v * v).sqrt().asin()
    }
}

pub(super) fn radians(degrees: f64) -> f64 {
    degrees * (std::f64::consts::PI / 180.0)
}

pub(super) fn degrees(radians: f64) -> f64 {
    radians / (std::f64::consts::PI / 180.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_the_scores_and_texts_of_redis() {
        let palermo = Point { longitude: 13.361389, latitude: 38.115556 };
        let cell = Cell::around(palermo, STEP_MAX);
        assert_eq!(cell.score(), 3_479_099_956_230_698.0);
        assert_eq!(&cell.center().geohash(), b"sqc8b49rny0");
        let catania = Cell::of_score(3_479_447_370_796_909.0).center();
        assert_eq!(format!("{:.4}", cell.center().distance(catania)), "166274.1516");
    }

    #[test]
    fn neighbours_go_around_the_edges() {
        let west = Cell::around(Point { longitude: -180.0, latitude: 0.0 }, 3);
        assert_eq!(west.moved(-1, 0).sides().east, 180.0);
        assert_eq!(west.moved(-1, 0).moved(1, 0), west);
        assert_eq!(west.moved(0, 8), west);
        assert_eq!(west.moved(2, -1).moved(-2, 1), west);
    }

    /// Regression test: points on an edge were searched on the other side of the map.
    #[test]
    fn places_on_the_edges_are_in_the_middle_cell() {
        let east = Cell::around(Point { longitude: 180.0, latitude: 10.0 }, STEP_MAX);
        assert_eq!((east.score(), east.moved(0, 0)), (10_138_940_401_276_180.0, east));
        assert_eq!(east.moved(-1, 0).sides().east, 180.0);
        assert_eq!(east.moved(1, 0).sides().west, -180.0 + 360.0 / (1_u64 << STEP_MAX) as f64);
        let north = Cell::around(Point { longitude: 10.0, latitude: LATITUDES.1 }, STEP_MAX);
        assert_eq!(north.moved(0, 0), north);
        assert_eq!(north.moved(0, -1).sides().north, LATITUDES.1);
    }
}
