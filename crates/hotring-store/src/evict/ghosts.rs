//! A compact table of recently evicted hashes: 16-bit fingerprints in buckets, each bucket first in, first out.
//!
//! Each bucket covers a range of all hashes, so that a table of any size has a bucket for every hash, and a table can
//! be filled from one of another size. A hash that was never noted is found in 1 of 8,000 cases; then a policy takes a
//! new item for a known one, which does no harm. The caller decides on the consequence of a hit.

/// Fingerprints in a bucket. Eight positions are a sufficient resolution of ages for [`Ghosts::take`].
pub const LANES: usize = 8;

/// The table; see the header.
pub struct Ghosts {
    /// Fingerprints, newest first; 0 is an empty lane.
    buckets: Vec<[u16; LANES]>,
}

impl Ghosts {
    /// An empty table without buckets, which notes nothing.
    pub const fn new() -> Self {
        Ghosts { buckets: Vec::new() }
    }

    /// Resizes the table for about this number of hashes. Does nothing if the current size is close.
    pub fn fit(&mut self, hashes: usize) {
        let (have, want) = (self.buckets.len(), hashes.div_ceil(LANES).max(1));
        if (have / 2..=have + have / 4).contains(&want) {
            return;
        }
        // The first hashes of a bucket come from one old bucket. Some of the others are lost if the sizes are no
        // multiples of each other. This only makes the next decisions less precise.
        let before = |bucket: usize| self.buckets.get(bucket * have / want).copied();
        self.buckets = (0..want).map(|bucket| before(bucket).unwrap_or_default()).collect();
    }

    /// Notes a hash; drops the oldest of its bucket.
    pub fn put(&mut self, hash: u64) {
        let Some((bucket, fingerprint)) = self.locate(hash) else { return };
        let lanes = &mut self.buckets[bucket];
        lanes.copy_within(..LANES - 1, 1);
        lanes[0] = fingerprint;
    }

    /// Removes a hash if it is in the table. Returns the number of younger hashes in its bucket: its age in parts of
    /// the table.
    pub fn take(&mut self, hash: u64) -> Option<usize> {
        let (bucket, fingerprint) = self.locate(hash)?;
        let lanes = &mut self.buckets[bucket];
        let lane = lanes.iter().position(|&lane| lane == fingerprint)?;
        lanes.copy_within(lane + 1.., lane);
        lanes[LANES - 1] = 0;
        Some(lane)
    }

    /// Memory of the table, in bytes.
    pub fn bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<[u16; LANES]>()
    }

    /// The bucket, from the upper 32 of 48 bits, and the fingerprint, from the lower 16; it is never 0.
    fn locate(&self, hash: u64) -> Option<(usize, u16)> {
        let upper = u128::from((hash >> 16) as u32);
        let bucket = (upper * self.buckets.len() as u128) >> 32;
        (!self.buckets.is_empty()).then(|| (bucket as usize, (hash as u16).max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hashes of 48 bits without a pattern.
    fn hash(number: u64) -> u64 {
        number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16
    }

    #[test]
    fn noted_hashes_are_found_once() {
        let mut ghosts = Ghosts::new();
        ghosts.put(7);
        assert_eq!(ghosts.take(7), None, "no space yet");
        ghosts.fit(800);
        (0..300).for_each(|n| ghosts.put(hash(n)));
        let found = (0..300).filter(|&n| ghosts.take(hash(n)).is_some()).count();
        assert!(found >= 295, "{found} of 300");
        assert!((0..300).all(|n| ghosts.take(hash(n)).is_none()));
        assert!((0..300).all(|n| ghosts.take(hash(n + 1000)).is_none()));
    }

    #[test]
    fn the_oldest_hash_of_a_bucket_is_dropped() {
        let mut ghosts = Ghosts::new();
        ghosts.fit(LANES);
        (1..=9).for_each(|n| ghosts.put(n));
        assert_eq!(ghosts.take(1), None, "the ninth took its place");
        assert_eq!(ghosts.take(9), Some(0));
        assert_eq!(ghosts.take(2), Some(6), "one of the seven younger ones was taken");
        assert_eq!(ghosts.take(8), Some(0));
    }

    #[test]
    fn a_doubling_keeps_all_hashes_and_other_sizes_keep_some() {
        for (from, to, least) in [(800, 1600, 300), (800, 1_200, 190), (1600, 704, 60)] {
            let mut ghosts = Ghosts::new();
            ghosts.fit(from);
            (0..300).for_each(|n| ghosts.put(hash(n)));
            ghosts.fit(to);
            assert_eq!(ghosts.bytes(), to * 2);
            let found = (0..300).filter(|&n| ghosts.take(hash(n)).is_some()).count();
            assert!(found >= least, "{found} of 300 from {from} to {to}");
        }
        let mut ghosts = Ghosts::new();
        ghosts.fit(800);
        ghosts.fit(900);
        assert_eq!(ghosts.bytes(), 1600, "close enough");
    }
}
