//! The keys that a complete line covers, and those that it does not.

use crate::colliding::u64_key;
use hotring_index::{Config, Growth, HotRing, U64};

/// The key at a position of the ring, 0 to 255: its bucket is that of the position's upper bits.
fn at(position: u8) -> u64 {
    u64_key(u64::from(position.reverse_bits()) | (u64::from(position) + 1) << 32)
}

/// After two doublings a bucket's grandparent, and its parent as well if that has another half split
/// off, serve an arc that ends before the bucket's keys. A line that answered for any descendant
/// denied keys that are there, without any second thread.
#[test]
fn a_line_answers_for_no_arc_behind_another_anchor() {
    // A lookup may split the bucket that it comes to instead; not in all of the runs.
    for _ in 0..20 {
        let config = Config {
            seed: [3, 4],
            slots_initial: 1,
            slots_max: 4,
            growth: Some(Growth::Fixed),
            complete_lines: Some(true),
            period: Some(u32::MAX),
            ..Config::default()
        };
        let index = HotRing::<U64, 3>::new(config).expect("a valid configuration");
        let mut session = index.session();
        // Of buckets 0, 2 and 2, which fill the line; one of bucket 3 that crowds in; and of buckets 1
        // and 3, for which the line has no word.
        let keys = [10, 70, 90, 250, 130, 200].map(at);
        keys.iter().for_each(|&key| assert!(session.insert(key, key)));
        assert!(session.grow() && session.grow());
        // Splits bucket 2 off, whose anchor now ends the arc of line 0.
        session.put(keys[1], keys[1]);
        // A candidate since the split; three epochs later complete, by a miss that walks.
        for _ in 0..8 {
            assert!(session.insert(at(80), 1) && session.remove(at(80)));
            session.collect();
            assert_eq!(session.get(at(20)), None);
        }
        for key in keys {
            assert_eq!(session.get(key), Some(key), "a false miss of {key:x}");
        }
    }
}
