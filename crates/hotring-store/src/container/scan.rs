//! Steps of a scan over the leaves of a large container.

/// Bytes after which a step of a scan ends, so that few long parts cost no more than many short ones.
const SCAN_BYTES: usize = 1 << 20;

/// The amount of parts that a step of a scan has visited.
#[derive(Default)]
pub(crate) struct Visited {
    parts: usize,
    bytes: usize,
}

impl Visited {
    pub(crate) fn add(&mut self, bytes: usize) {
        self.parts += 1;
        self.bytes += bytes;
    }
}

/// A step of a scan from a cursor on, over at least `count` parts. `leaf` shows the parts of a leaf, counts them, and
/// returns the begin of the next leaf. Returns the next cursor, 0 at the end.
pub(crate) fn scan(
    cursor: u64,
    count: usize,
    mut leaf: impl FnMut(u32, &mut Visited) -> Option<u32>,
) -> u64 {
    let Ok(mut from) = u32::try_from(cursor) else { return 0 };
    let mut visited = Visited::default();
    loop {
        match leaf(from, &mut visited) {
            None => return 0,
            Some(next) if visited.parts >= count || visited.bytes >= SCAN_BYTES => {
                return next.into();
            }
            Some(next) => from = next,
        }
    }
}
