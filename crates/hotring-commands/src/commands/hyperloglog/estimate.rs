//! How many different elements there are, by how many registers have which value: the estimator of Otmar Ertl, "New
//! cardinality estimation algorithms for HyperLogLog sketches" (2017), which Redis has, too.

use super::sketch::{N_REGISTERS, VALUE_MAX};

/// How many registers have each value.
pub(super) type Histogram = [u32; 64];

/// 1 / (2 ln 2).
const ALPHA: f64 = 0.721_347_520_444_481_7;

pub(super) fn estimate(histogram: &Histogram) -> u64 {
    let m = N_REGISTERS as f64;
    let share = |value: u8| f64::from(histogram[usize::from(value)]) / m;
    let mut z = m * tau((m - f64::from(histogram[usize::from(VALUE_MAX)])) / m);
    for value in (1..VALUE_MAX).rev() {
        z += f64::from(histogram[usize::from(value)]);
        z *= 0.5;
    }
    z += m * sigma(share(0));
    (ALPHA * m * m / z).round() as u64
}

/// Corrects for registers that are full.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

/// Corrects for registers that are empty.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}
