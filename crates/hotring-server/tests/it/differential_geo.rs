//! Compares places on earth with a real `redis-server`: random requests in RESP2 and RESP3.
//!
//! Not compared: the order of members that are equally far away, which Redis leaves to `qsort`, and the text of
//! stored distances, which Redis 7.0 writes with more digits than later versions.

use crate::differential::{Raw, Redis, assert_equal_replies, n_seeds};
use crate::requests::{Random, show};
use crate::wire::TestServer;

const N_REQUESTS: usize = 3_000;

/// Requests, in which `K` is a key, `D` one for results, `M` a member, `X` and `Y` a place, `R` a radius, `U` a unit,
/// `N` a count and `O` an option.
const REQUESTS: &[&str] = &[
    "GEOADD K X Y M",
    "GEOADD K 180 Y M",
    "GEOADD K X 85.05112878 M",
    "GEOADD K X Y M X Y M X Y M",
    "GEOADD K X Y M X Y M X Y M X Y M X Y M",
    "GEOADD K NX X Y M",
    "GEOADD K XX CH X Y M",
    "GEOADD K CH X Y M X Y M",
    "GEOADD K NX XX X Y M",
    "GEOADD K X Y",
    "GEOADD K X Y M X",
    "GEOADD K NX CH XX",
    "GEODIST K M M",
    "GEODIST K M M U",
    "GEODIST K M M U U",
    "GEOHASH K M M none",
    "GEOHASH K",
    "GEOPOS K M none M",
    "GEOPOS K",
    "GEORADIUS K X Y R U O O",
    "GEORADIUS K X Y R U O O COUNT N",
    "GEORADIUS K X Y R U WITHDIST WITHCOORD WITHHASH ASC",
    "GEORADIUS K X Y R U COUNT N ANY",
    "GEORADIUS K X Y R U COUNT N ANY ASC WITHDIST",
    "GEORADIUS K X Y R U STORE D",
    "GEORADIUS K X Y R U STOREDIST D O",
    "GEORADIUS K X Y R U STORE D STOREDIST D COUNT N",
    "GEORADIUS K X Y R U STORE",
    "GEORADIUS_RO K X Y R U O O",
    "GEORADIUS_RO K X Y R U STORE D",
    "GEORADIUSBYMEMBER K M R U O O COUNT N",
    "GEORADIUSBYMEMBER K M R U O O",
    "GEORADIUSBYMEMBER K M R U STORE D",
    "GEORADIUSBYMEMBER K M R U STOREDIST D ASC COUNT N",
    "GEORADIUSBYMEMBER_RO K M R U O O",
    "GEOSEARCH K FROMMEMBER M BYRADIUS R U O O",
    "GEOSEARCH K FROMMEMBER M BYBOX R R U O O",
    "GEOSEARCH K FROMLONLAT X Y BYRADIUS R U O O",
    "GEOSEARCH K FROMLONLAT 180 Y BYRADIUS R U O O",
    "GEOSEARCH K FROMLONLAT X Y BYBOX R R U ASC O",
    "GEOSEARCH K FROMLONLAT X Y BYBOX R R U COUNT N ANY",
    "GEOSEARCH K FROMLONLAT X Y FROMMEMBER M BYBOX R R U",
    "GEOSEARCH K FROMLONLAT X Y BYRADIUS R U BYBOX R R U",
    "GEOSEARCH K BYRADIUS R U ASC DESC ANY",
    "GEOSEARCH K FROMMEMBER M ASC COUNT N ANY",
    "GEOSEARCH K FROMMEMBER M BYRADIUS R U ANY",
    "GEOSEARCH K FROMMEMBER M BYRADIUS R U STOREDIST",
    "GEOSEARCHSTORE D K FROMMEMBER M BYRADIUS R U O",
    "GEOSEARCHSTORE D K FROMLONLAT X Y BYBOX R R U STOREDIST",
    "GEOSEARCHSTORE D K FROMLONLAT X Y BYBOX R R U COUNT N",
    "GEOSEARCHSTORE D K FROMLONLAT X Y COUNT N ASC DESC",
    "ZRANGE K 0 -1 WITHSCORES",
    "ZRANGE D 0 -1",
    "GEOPOS D M M M",
    "ZREM K M M",
    // Of one member only: the order of members at one place is open.
    "ZADD K 5 m0",
    "TYPE D",
    "DEL K",
    "SET K x",
    "OBJECT ENCODING D",
    "COMMAND GETKEYS GEORADIUS K X Y R U STORE D",
    "EVAL return{redis.call('GEOADD',KEYS[1],ARGV[1],ARGV[2],ARGV[3]),redis.call('GEOPOS',KEYS[1],ARGV[3])} 1 K X Y M",
];

fn word(random: &mut Random, word: &str) -> Vec<u8> {
    let pick = |random: &mut Random, from: &[&str]| {
        from[random.below(from.len() as u64) as usize].as_bytes().to_vec()
    };
    let degrees = |random: &mut Random, max: u64| {
        let thousandths = random.below(2_000 * max) as f64 - 1_000.0 * max as f64;
        format!("{}", thousandths / 1_000.0).into_bytes()
    };
    let wrong = random.below(25) == 0;
    match word {
        "K" => pick(random, &["g1", "g2"]),
        "D" => pick(random, &["d1", "d2"]),
        "M" => format!("m{}", random.below(30)).into_bytes(),
        "X" if wrong => pick(random, &["x", "181", "-180", "180", "nan", "inf", "1e400"]),
        "Y" if wrong => pick(random, &["", "86", "-85.05112878", "85.05112878", "-90"]),
        // Near each other half of the time, so that small areas have members.
        "X" if random.below(2) == 0 => {
            format!("{}", 13.0 + random.below(1000) as f64 / 500.0).into()
        }
        "Y" if random.below(2) == 0 => {
            format!("{}", 37.0 + random.below(1000) as f64 / 500.0).into()
        }
        "X" => degrees(random, 180),
        "Y" => degrees(random, 85),
        "R" if wrong => pick(random, &["x", "-1", "0", "inf"]),
        "R" => {
            let scale = 10_u64.pow(1 + random.below(7) as u32);
            format!("{}", random.below(scale * 10) as f64 / 10.0).into()
        }
        "U" if wrong => pick(random, &["yd", "KM", "Ft"]),
        "U" => pick(random, &["m", "km", "km", "ft", "mi"]),
        "N" if wrong => pick(random, &["0", "-1", "x"]),
        "N" => pick(random, &["1", "2", "3", "5", "100"]),
        "O" => {
            pick(random, &["ASC", "DESC", "WITHDIST", "WITHCOORD", "WITHHASH", "asc", "withdist"])
        }
        other => other.as_bytes().to_vec(),
    }
}

fn compare(seed: u64, hello: &[u8]) {
    let Some(redis) = Redis::start() else { return };
    let server = TestServer::new();
    let (mut ours, mut theirs) = (Raw::connect(server.address), Raw::connect(redis.address));
    let mut random = Random::new(seed);
    for raw in [&mut ours, &mut theirs] {
        raw.ask(&[b"HELLO", hello]);
        raw.ask(&[b"CONFIG", b"SET", b"zset-max-listpack-entries", b"6"]);
    }
    for i in 0..N_REQUESTS {
        let request = REQUESTS[random.below(REQUESTS.len() as u64) as usize];
        let args: Vec<_> = request.split(' ').map(|text| word(&mut random, text)).collect();
        let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let (a, b) = (ours.ask(&words), theirs.ask(&words));
        assert_equal_replies(&a, &b, || format!("seed {seed}, request {i}: {}", show(&args)));
    }
}

#[test]
fn places_get_the_replies_of_redis_in_resp2() {
    (0..n_seeds()).for_each(|seed| compare(seed, b"2"));
}

#[test]
fn places_get_the_replies_of_redis_in_resp3() {
    (0..n_seeds()).for_each(|seed| compare(100 + seed, b"3"));
}
