//! Estimated counts: replies, the form of the value, damaged ones. The replies, lengths and bits are those of Redis
//! 7.0.15.

use hotring_protocol::Version;

use crate::exec::dialogue::{Dialogue, play};

#[test]
fn elements_are_counted() {
    play(
        r#"
        PFADD k -> :1¶
        PFADD k -> :0¶
        STRLEN k -> :18¶
        PFCOUNT k -> :0¶
        GETBIT k 120 -> :0¶
        PFADD k a b c -> :1¶
        PFADD k a c -> :0¶
        GETBIT k 120 -> :1¶
        PFCOUNT k -> :3¶
        GETBIT k 120 -> :0¶
        PFADD k a -> :0¶
        GETBIT k 120 -> :0¶
        STRLEN k -> :27¶
        BITCOUNT k -> :50¶
        EXPIRE k 100 -> :1¶
        PFADD k d -> :1¶
        TTL k -> :100¶
        PFCOUNT k none -> :4¶
        PFCOUNT none -> :0¶
        PFCOUNT none k k -> :4¶
        PFADD l d e f -> :1¶
        PFMERGE k l -> +OK¶
        PFCOUNT k -> :6¶
        PFMERGE new none -> +OK¶
        PFCOUNT new -> :0¶
        STRLEN new -> :18¶
        TTL k -> :100¶
        PFADD none2 -> :1¶
        SET string v -> +OK¶
        PFADD string a -> -WRONGTYPE Key is not a valid HyperLogLog string value.¶
        PFCOUNT string -> -WRONGTYPE Key is not a valid HyperLogLog string value.¶
        PFCOUNT k string -> -WRONGTYPE Key is not a valid HyperLogLog string value.¶
        PFMERGE k string -> -WRONGTYPE Key is not a valid HyperLogLog string value.¶
        PFMERGE string k -> -WRONGTYPE Key is not a valid HyperLogLog string value.¶
        RPUSH list v -> :1¶
        PFADD list a -> -WRONGTYPE Operation against a key holding the wrong kind of value¶
        PFCOUNT list -> -WRONGTYPE Operation against a key holding the wrong kind of value¶
        PFCOUNT k list -> -WRONGTYPE Operation against a key holding the wrong kind of value¶
        PFMERGE k list -> -WRONGTYPE Operation against a key holding the wrong kind of value¶
        EVAL "local t={} for i=1,900 do t[i]=i end return redis.call('PFADD',KEYS[1],unpack(t))" 1 many -> :1¶
        STRLEN many -> :1749¶
        BITCOUNT many -> :3367¶
        PFCOUNT many -> :902¶
        PFMERGE copy many -> +OK¶
        GETBIT copy 120 -> :1¶
        PFCOUNT copy -> :902¶
        BITCOUNT copy -> :3371¶
        CONFIG SET hll-sparse-max-bytes 40 -> +OK¶
        PFADD short 1 2 3 4 5 6 7 8 -> :1¶
        STRLEN short -> :12304¶
        PFADD short 9 -> :1¶
        STRLEN short -> :12304¶
        PFADD short 10 11 -> :1¶
        STRLEN short -> :12304¶
        BITCOUNT short -> :25¶
        PFCOUNT short -> :11¶
        CONFIG SET hll-sparse-max-bytes 3000 -> +OK¶
        EVAL "for j=0,5 do local t={} for i=1,5000 do t[i]=j*5000+i end redis.call('PFADD',KEYS[1],unpack(t)) end return redis.call('STRLEN',KEYS[1])" 1 dense -> :12304¶
        PFCOUNT dense -> :29850¶
        BITCOUNT dense -> :18353¶
        PFADD dense 1 2 3 -> :0¶
        GETBIT dense 120 -> :0¶
        PFMERGE k dense -> +OK¶
        STRLEN k -> :12304¶
        PFCOUNT k -> :29855¶
        PFMERGE short dense -> +OK¶
        BITCOUNT short -> :18349¶
        PFCOUNT short dense k -> :29855¶
        "#,
    );
}

#[test]
fn damaged_values_are_refused() {
    play(
        r#"
        PFADD k a b c -> :1¶
        SETRANGE k 4 "\x02" -> :27¶
        PFCOUNT k -> -WRONGTYPE Key is not a valid HyperLogLog string value.¶
        PFADD k d -> -WRONGTYPE Key is not a valid HyperLogLog string value.¶
        SETRANGE k 4 "\x00" -> :27¶
        PFCOUNT k -> -WRONGTYPE Key is not a valid HyperLogLog string value.¶
        SETRANGE k 4 "\x01" -> :27¶
        PFCOUNT k -> :3¶
        SETRANGE k 0 X -> :27¶
        PFCOUNT k -> -WRONGTYPE Key is not a valid HyperLogLog string value.¶
        SETRANGE k 0 H -> :27¶
        SETRANGE k 16 "\x7f\xff" -> :27¶
        PFADD k z -> :1¶
        PFCOUNT k l -> -INVALIDOBJ Corrupted HLL object detected¶
        PFMERGE l k -> -INVALIDOBJ Corrupted HLL object detected¶
        DEL k -> :1¶
        PFADD k -> :1¶
        APPEND k "\x00" -> :19¶
        PFADD k a -> :1¶
        PFCOUNT k -> -INVALIDOBJ Corrupted HLL object detected¶
        PFMERGE l k -> -INVALIDOBJ Corrupted HLL object detected¶
        PFCOUNT k l -> -INVALIDOBJ Corrupted HLL object detected¶
        DEL k -> :1¶
        PFADD k -> :1¶
        SETRANGE k 16 "\x00\x00" -> :18¶
        PFADD k e f -> -INVALIDOBJ Corrupted HLL object detected¶
        PFADD k a -> -INVALIDOBJ Corrupted HLL object detected¶
        PFCOUNT k -> -INVALIDOBJ Corrupted HLL object detected¶
        STRLEN k -> :18¶
        SET short HYLL -> +OK¶
        PFCOUNT short -> -WRONGTYPE Key is not a valid HyperLogLog string value.¶
        PFADD short a -> -WRONGTYPE Key is not a valid HyperLogLog string value.¶
        "#,
    );
}

#[test]
fn input_before_a_damaged_part_stays() {
    play(
        r#"
        PFADD k -> :1¶
        SETRANGE k 16 "\x5f\xff" -> :18¶
        PFADD k d f a i -> -INVALIDOBJ Corrupted HLL object detected¶
        PFADD k f d -> :0¶
        GETBIT k 120 -> :1¶
        STRLEN k -> :24¶
        BITCOUNT k -> :35¶
        PFADD l -> :1¶
        PFCOUNT l -> :0¶
        SETRANGE l 16 "\x5f\xff" -> :18¶
        GETBIT l 120 -> :0¶
        PFADD l d f a i -> -INVALIDOBJ Corrupted HLL object detected¶
        GETBIT l 120 -> :1¶
        "#,
    );
}

#[test]
fn long_ones_are_dense() {
    play(
        r#"
        CONFIG SET hll-sparse-max-bytes 26 -> +OK¶
        PFADD a a b c -> :1¶
        STRLEN a -> :12304¶
        CONFIG SET hll-sparse-max-bytes 27 -> +OK¶
        PFADD b a b c -> :1¶
        STRLEN b -> :27¶
        PFMERGE c b a -> +OK¶
        STRLEN c -> :12304¶
        PFCOUNT c a b -> :3¶
        CONFIG SET hll-sparse-max-bytes 3000 -> +OK¶
        PFMERGE d b a -> +OK¶
        STRLEN d -> :12304¶
        EVAL "local t={} for i=1,1400 do t[i]=i end return redis.call('PFADD',KEYS[1],unpack(t))" 1 e -> :1¶
        STRLEN e -> :2602¶
        BITCOUNT e -> :4672¶
        EVAL "local t={} for i=1,4000 do t[i]=i end return redis.call('PFADD',KEYS[1],unpack(t))" 1 f -> :1¶
        EVAL "local t={} for i=1,4000 do t[i]=-i end return redis.call('PFADD',KEYS[1],unpack(t))" 1 g -> :1¶
        STRLEN g -> :12304¶
        PFCOUNT f g -> :8066¶
        PFCOUNT g f -> :8066¶
        PFMERGE h g f -> +OK¶
        BITCOUNT h -> :7829¶
        "#,
    );
}

#[test]
fn counted_keys_are_hits_or_misses() {
    for (request, expected) in [
        ("PFCOUNT k", ["keyspace_hits:1¶", "keyspace_misses:0¶"]),
        ("PFCOUNT none", ["keyspace_hits:0¶", "keyspace_misses:1¶"]),
        ("PFCOUNT k none k", ["keyspace_hits:2¶", "keyspace_misses:1¶"]),
    ] {
        let mut dialogue = Dialogue::new(Version::Resp2);
        dialogue.say("PFADD k a");
        dialogue.say("CONFIG RESETSTAT");
        dialogue.say(request);
        let stats = dialogue.say("INFO stats");
        assert!(expected.iter().all(|line| stats.contains(line)), "{request}: {stats}");
    }
}
