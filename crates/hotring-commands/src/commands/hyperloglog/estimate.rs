//! Estimates the number of distinct elements from a histogram of register values. The estimator is Otmar Ertl's, "New
//! cardinality estimation algorithms for HyperLogLog sketches" (2017), which Redis uses, too.

use super::sketch::{N_REGISTERS, VALUE_MAX};

/// Number of registers with each value.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// No client can fill half of the registers. The numbers are those of Redis's formula, reckoned apart.
    #[test]
    fn the_highest_registers_count() {
        let half = N_REGISTERS as u32 / 2;
        let cases: [(&[(u8, u32)], f64); 4] = [
            (&[(0, half), (1, half)], 10_360.0),
            (&[(VALUE_MAX - 2, 2 * half)], 6.653_256_548_922_161e18),
            (&[(VALUE_MAX - 1, 2 * half)], 1.330_651_309_784_432e19),
            (&[(VALUE_MAX - 2, half), (VALUE_MAX, half)], 1.157159039e+19),
        ];
        for (registers, expected) in cases {
            let mut histogram = [0; 64];
            for (value, n) in registers {
                histogram[usize::from(*value)] = *n;
            }
            let ratio = estimate(&histogram) as f64 / expected;
            assert!((0.999_999..1.000_001).contains(&ratio), "{registers:?}: {ratio}");
        }
        assert!((tau(0.5) - 0.149_929).abs() < 1e-6, "{}", tau(0.5));
        assert_eq!((tau(0.0), tau(1.0)), (0.0, 0.0));
    }
}
