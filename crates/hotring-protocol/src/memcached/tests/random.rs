//! Tests with random input: nothing panics, and the split into pieces does not matter.

use super::*;
use fastrand::Rng;

/// Fragments of requests, so that random strings get deep into the decoder.
const PIECES: &[&str] = &[
    "get ",
    "set ",
    "cas ",
    "ms ",
    "mg ",
    "ma ",
    "md ",
    "k ",
    "key ",
    "0 ",
    "1 ",
    "2 ",
    "-1 ",
    "99 ",
    "101 ",
    "noreply",
    "\r\n",
    "\r\n",
    "\n",
    "\r",
    " ",
    "x",
    "hello world!",
    "v ",
    "N30 ",
    "b ",
    "\0",
    "\u{ff}",
    "9999999999 ",
    "set k 0 0 1\r\nx\r\n",
    "ms k 2\r\nhi\r\n",
];

#[test]
fn pieces_of_any_size_give_the_same_requests() {
    let mut random = Rng::with_seed(0x1234_5678_9abc_def1);
    let (mut n_known, mut n_data) = (0, 0);
    for _ in 0..60_000 {
        let mut input = Vec::new();
        for _ in 0..random.usize(..16) {
            match random.usize(..10) {
                0 => input.push(random.u8(..)),
                _ => input.extend_from_slice(PIECES[random.usize(..PIECES.len())].as_bytes()),
            }
        }
        let whole = decode_stream(&input, || input.len());
        n_known += whole.0.iter().filter(|found| !found.starts_with('?')).count();
        n_data += whole.0.iter().filter(|found| found.contains(" = ")).count();
        assert_eq!(decode_stream(&input, || 1), whole, "{}", input.escape_ascii());
        let pieces = decode_stream(&input, || 1 + random.usize(..9));
        assert_eq!(pieces, whole, "{}", input.escape_ascii());
    }
    // The loop is worth its time only if it gets this far.
    assert!(n_known > 10_000 && n_data > 5_000, "{n_known} {n_data}");
}
