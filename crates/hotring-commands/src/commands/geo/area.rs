//! The area of a search: a circle or a box around a point, and up to nine cells that cover it.

use super::cell::{Cell, EARTH_RADIUS, Point, STEP_MAX, degrees, radians};

/// Half of the map's side in meters.
const MAP_HALF: f64 = 20_037_726.37;

/// The shape of the area, in meters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Form {
    Circle { radius: f64 },
    Box { width: f64, height: f64 },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub(super) center: Point,
    pub(super) form: Form,
}

/// The bounding box of an area, in degrees of longitude and latitude.
struct Bounds {
    west: f64,
    east: f64,
    south: f64,
    north: f64,
}

impl Area {
    /// The distance of a point from the center in meters, if the point is in the area.
    pub(super) fn distance_within(&self, point: Point) -> Option<f64> {
        let is_within = match self.form {
            Form::Circle { radius } => self.center.distance(point) <= radius,
            Form::Box { width, height } => {
                let same_meridian = Point { longitude: self.center.longitude, ..point };
                let below = Point { latitude: self.center.latitude, ..point };
                point.distance(same_meridian) <= width / 2.0
                    && point.distance(below) <= height / 2.0
            }
        };
        is_within.then(|| self.center.distance(point))
    }

    /// The distance in meters from the center to the farthest point of the area.
    fn reach(&self) -> f64 {
        match self.form {
            Form::Circle { radius } => radius,
            Form::Box { width, height } => {
                ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt()
            }
        }
    }

    fn bounds(&self) -> Bounds {
        let (width, height) = match self.form {
            Form::Circle { radius } => (radius, radius),
            Form::Box { width, height } => (width / 2.0, height / 2.0),
        };
        let Point { longitude, latitude } = self.center;
        let up = degrees(height / EARTH_RADIUS);
        // A degree of longitude is shortest on the side nearer to the pole.
        let pole_side = if latitude < 0.0 { latitude - up } else { latitude + up };
        let aside = degrees(width / EARTH_RADIUS / radians(pole_side).cos());
        Bounds {
            west: longitude - aside,
            east: longitude + aside,
            south: latitude - up,
            north: latitude + up,
        }
    }

    /// The step of the smallest cells of which nine cover the area.
    fn step(&self) -> u32 {
        let mut reach = self.reach();
        if reach == 0.0 {
            return STEP_MAX;
        }
        let mut step: i32 = -1;
        while reach < MAP_HALF {
            reach *= 2.0;
            step += 1;
        }
        // Cells are narrower near the poles, so larger ones are needed.
        let latitude = self.center.latitude.abs();
        step -= i32::from(latitude > 66.0) + i32::from(latitude > 80.0);
        step.clamp(1, STEP_MAX as i32) as u32
    }

    /// The cells that cover the area, in Redis's order. Large cells may occur twice.
    pub(super) fn cells(&self) -> Vec<Cell> {
        let bounds = self.bounds();
        let mut step = self.step();
        let mut cell = Cell::around(self.center, step);
        if step > 1 && !bounds.are_around(cell) {
            step -= 1;
            cell = Cell::around(self.center, step);
        }
        let sides = cell.sides();
        let is_needed = |(east, north): &(i32, i32)| {
            step < 2
                || !((*north < 0 && sides.south < bounds.south)
                    || (*north > 0 && sides.north > bounds.north)
                    || (*east < 0 && sides.west < bounds.west)
                    || (*east > 0 && sides.east > bounds.east))
        };
        let around = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        around.iter().filter(|way| is_needed(way)).map(|&(x, y)| cell.moved(x, y)).collect()
    }
}

impl Bounds {
    /// Whether the cell and its neighbours cover the bounds.
    fn are_around(&self, cell: Cell) -> bool {
        cell.moved(0, 1).sides().north >= self.north
            && cell.moved(0, -1).sides().south <= self.south
            && cell.moved(1, 0).sides().east >= self.east
            && cell.moved(-1, 0).sides().west <= self.west
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// South of the equator the southern side of an area is the wider one in degrees.
    #[test]
    fn bounds_are_alike_on_both_sides_of_the_equator() {
        let forms = [
            Form::Circle { radius: 1_500_000.0 },
            Form::Box { width: 2_000_000.0, height: 3_000_000.0 },
        ];
        for (form, latitude) in forms.into_iter().zip([60.0, 30.0]) {
            let area = |latitude| Area { center: Point { longitude: 20.0, latitude }, form };
            let (north, south) = (area(latitude).bounds(), area(-latitude).bounds());
            assert_eq!((north.west, north.east), (south.west, south.east), "{form:?}");
            assert_eq!((north.north, north.south), (-south.south, -south.north), "{form:?}");
            // The farthest point to the east lies nearer to the pole than the center does.
            let own = degrees(1_000_000.0 / EARTH_RADIUS / radians(latitude).cos());
            assert!(north.east - 20.0 > own, "{form:?}");
        }
    }
}
