//! Tests with random input: nothing panics, and the split into pieces does not matter.

use super::*;

/// Fragments of requests, so that random strings get deep into the decoder.
const PIECES: &[&str] = &[
    "*1\r\n",
    "*2\r\n",
    "*3\r\n",
    "*0\r\n",
    "*-1\r\n",
    "*",
    "$",
    "$0\r\n\r\n",
    "$1\r\nx\r\n",
    "$3\r\nGET\r\n",
    "$-1\r\n",
    "$12\r\n",
    "hello world!\r\n",
    "PING\r\n",
    "\"",
    "'",
    "\\",
    "\\x4",
    " ",
    "\r",
    "\n",
    "\r\n",
    "\0",
    "1",
    "9",
    "-",
    "+",
    "\u{ff}",
];

fn random_input(random: &mut Rng) -> Vec<u8> {
    let mut input = Vec::new();
    for _ in 0..random.usize(..12) {
        match random.usize(..8) {
            0 => input.push(random.u8(..)),
            _ => input.extend_from_slice(PIECES[random.usize(..PIECES.len())].as_bytes()),
        }
    }
    input
}

/// All requests of a stream that arrives in pieces, up to an error or the end.
fn decode_stream(
    stream: &[u8],
    mut next_piece: impl FnMut() -> usize,
) -> (Vec<Found>, Option<ProtocolError>) {
    let limits = Limits { args_max: 4, bulk_len_max: 64, inline_len_max: 32, authenticated: true };
    let (mut decoder, mut args) = (Decoder::new(), Args::new());
    let (mut start, mut end, mut requests) = (0, 0, Vec::new());
    loop {
        let input = &stream[start..end];
        match decoder.decode(input, &limits, &mut args) {
            Err(error) => return (requests, Some(error)),
            Ok(Decoded::Incomplete) if end == stream.len() => return (requests, None),
            Ok(Decoded::Incomplete) => {
                assert!(decoder.input_len_wanted() > input.len());
                end = (end + next_piece()).min(stream.len());
            }
            Ok(decoded @ Decoded::Request { consumed }) => {
                assert!(consumed > 0 && consumed <= input.len());
                requests.extend(found(decoded, &args, input));
                start += consumed;
            }
        }
    }
}

#[test]
fn pieces_of_any_size_give_the_same_requests() {
    let mut random = Rng::with_seed(0x1234_5678_9abc_def1);
    let (mut bytes, mut n_requests, mut n_errors) = (0, 0, 0);
    while bytes < 4_000_000 {
        let input = random_input(&mut random);
        bytes += input.len().max(1);
        let whole = decode_stream(&input, || input.len());
        n_requests += whole.0.len();
        n_errors += usize::from(whole.1.is_some());
        assert_eq!(decode_stream(&input, || 1), whole, "{}", input.escape_ascii());
        let pieces = decode_stream(&input, || 1 + random.usize(..9));
        assert_eq!(pieces, whole, "{}", input.escape_ascii());
    }
    // The loop is worth its time only if it reaches both ends.
    assert!(n_requests > 50_000 && n_errors > 50_000, "{n_requests} {n_errors}");
}

#[test]
fn plain_noise_never_panics() {
    let mut random = Rng::with_seed(0xfeed_beef_dead_cafe);
    for _ in 0..40_000 {
        let mut noise: Vec<u8> = (0..random.usize(..100)).map(|_| random.u8(..)).collect();
        if let Some(first) = noise.first_mut().filter(|_| random.usize(..2) == 0) {
            *first = b'*';
        }
        decode_stream(&noise, || 1 + random.usize(..20));
    }
}

#[test]
fn encoding_round_trips() {
    let mut random = Rng::with_seed(42);
    for _ in 0..5_000 {
        let args: Vec<Vec<u8>> = (0..1 + random.usize(..6))
            .map(|_| (0..random.usize(..300)).map(|_| random.u8(..)).collect())
            .collect();
        let mut input = Vec::new();
        let mut writer = super::super::Writer::new(&mut input, super::super::Version::Resp2);
        writer.array(args.len());
        args.iter().for_each(|arg| writer.bulk(arg));
        let consumed = input.len();
        let decoded = decode_once(&input, &Limits::default());
        assert_eq!(decoded, Ok(Some(Found { args, consumed })));
    }
}
