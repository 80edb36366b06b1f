//! Sorted sets: every command in both forms of the set, errors, and other types' commands on one.

use crate::exec::dialogue::play;

#[test]
fn members_get_scores() {
    play(
        r#"
        ZADD z 1 a 2 b                  -> :2¶
        ZADD z CH 3 a 2 b 4 c           -> :2¶
        ZADD z NX 9 a                   -> :0¶
        ZADD z XX 9 x                   -> :0¶
        ZADD z GT CH 2 a 8 b            -> :1¶
        ZADD z LT CH 2 a 9 b            -> :1¶
        ZADD z INCR 1.5 a               -> $3¶3.5¶ | ,3.5¶
        ZADD z NX INCR 1 a              -> $-1¶ | _¶
        ZADD z GT INCR -1 a             -> $-1¶ | _¶
        ZINCRBY z -0.5 a                -> $1¶3¶ | ,3¶
        ZSCORE z a                      -> $1¶3¶ | ,3¶
        ZSCORE z x                      -> $-1¶ | _¶
        ZMSCORE z a x                   -> *2¶$1¶3¶$-1¶ | *2¶,3¶_¶
        ZMSCORE no x                    -> *1¶$-1¶ | *1¶_¶
        ZCARD z                         -> :3¶
        ZRANK z b                       -> :2¶
        ZREVRANK z b WITHSCORE          -> *2¶:0¶$1¶8¶ | *2¶:0¶,8¶
        ZRANK z x WITHSCORE             -> *-1¶ | _¶
        ZRANK z x                       -> $-1¶ | _¶
        ZREM z a x                      -> :1¶
        ZREM z b c                      -> :2¶
        EXISTS z                        -> :0¶
        "#,
    );
}

#[test]
fn ranges_are_by_rank_score_and_member() {
    play(
        r#"
        ZADD z 1 a 2 b 2 c 3 d                    -> :4¶
        ZRANGE z 0 -1 WITHSCORES                  -> *8¶$1¶a¶$1¶1¶$1¶b¶$1¶2¶$1¶c¶$1¶2¶$1¶d¶$1¶3¶ | *4¶*2¶$1¶a¶,1¶*2¶$1¶b¶,2¶*2¶$1¶c¶,2¶*2¶$1¶d¶,3¶
        ZRANGE z 0 1 REV                          -> *2¶$1¶d¶$1¶c¶
        ZREVRANGE z -2 -1                         -> *2¶$1¶b¶$1¶a¶
        ZRANGE z (1 +inf BYSCORE LIMIT 1 1        -> *1¶$1¶c¶
        ZRANGE z 2 1 BYSCORE REV                  -> *3¶$1¶c¶$1¶b¶$1¶a¶
        ZREVRANGEBYSCORE z +inf 2 LIMIT 1 -1      -> *2¶$1¶c¶$1¶b¶
        ZRANGEBYSCORE z -inf (2                   -> *1¶$1¶a¶
        ZRANGEBYSCORE z 1 3 LIMIT -1 2            -> *0¶
        ZCOUNT z (1 2                             -> :2¶
        ZRANGE z 9 12                             -> *0¶
        ZRANGE no 0 -1                            -> *0¶
        ZADD l 0 a 0 b 0 c                        -> :3¶
        ZRANGEBYLEX l [a (c                       -> *2¶$1¶a¶$1¶b¶
        ZREVRANGEBYLEX l + - LIMIT 0 1            -> *1¶$1¶c¶
        ZLEXCOUNT l - [b                          -> :2¶
        ZRANGESTORE d z 1 2                       -> :2¶
        ZRANGE d 0 -1                             -> *2¶$1¶b¶$1¶c¶
        ZRANGESTORE d z 9 9                       -> :0¶
        EXISTS d                                  -> :0¶
        ZREMRANGEBYLEX l - (b                     -> :1¶
        ZREMRANGEBYSCORE z (1 2                   -> :2¶
        ZREMRANGEBYRANK z 0 -1                    -> :2¶
        EXISTS z                                  -> :0¶
        "#,
    );
}

#[test]
fn members_are_taken_and_combined() {
    play(
        r#"
        ZADD a 1 x 2 y 3 z              -> :3¶
        ZADD b 10 y inf z 5 w           -> :3¶
        ZUNION 2 a b                    -> *4¶$1¶x¶$1¶w¶$1¶y¶$1¶z¶
        ZINTER 2 a b WITHSCORES         -> *4¶$1¶y¶$2¶12¶$1¶z¶$3¶inf¶ | *2¶*2¶$1¶y¶,12¶*2¶$1¶z¶,inf¶
        ZINTER 2 a b WEIGHTS 2 1 AGGREGATE MIN WITHSCORES -> *4¶$1¶y¶$1¶4¶$1¶z¶$1¶6¶ | *2¶*2¶$1¶y¶,4¶*2¶$1¶z¶,6¶
        ZDIFF 2 a b                     -> *1¶$1¶x¶
        ZINTERCARD 2 a b LIMIT 1        -> :1¶
        ZUNIONSTORE a 2 a b             -> :4¶
        ZINTERSTORE d 2 a no            -> :0¶
        ZDIFFSTORE d 1 b                -> :3¶
        ZPOPMIN d                       -> *2¶$1¶w¶$1¶5¶ | *2¶$1¶w¶,5¶
        ZPOPMAX d 5                     -> *4¶$1¶z¶$3¶inf¶$1¶y¶$2¶10¶ | *2¶*2¶$1¶z¶,inf¶*2¶$1¶y¶,10¶
        ZPOPMIN d                       -> *0¶
        ZMPOP 2 d b MAX COUNT 2         -> *2¶$1¶b¶*2¶*2¶$1¶z¶$3¶inf¶*2¶$1¶y¶$2¶10¶ | *2¶$1¶b¶*2¶*2¶$1¶z¶,inf¶*2¶$1¶y¶,10¶
        ZMPOP 1 d MIN                   -> *-1¶ | _¶
        ZRANDMEMBER b                   -> $1¶w¶
        ZRANDMEMBER b -2 WITHSCORES     -> *4¶$1¶w¶$1¶5¶$1¶w¶$1¶5¶ | *2¶*2¶$1¶w¶,5¶*2¶$1¶w¶,5¶
        ZRANDMEMBER b 9                 -> *1¶$1¶w¶
        ZSCAN b 0 MATCH w*              -> *2¶$1¶0¶*2¶$1¶w¶$1¶5¶
        "#,
    );
}

#[test]
fn errors_are_those_of_redis() {
    play(
        r#"
        SET s x                         -> +OK¶
        ZADD z 1 a inf b                -> :2¶
        ZADD z NX XX 1 a                -> -ERR XX and NX options at the same time are not compatible¶
        ZADD z GT NX 1 a                -> -ERR GT, LT, and/or NX options at the same time are not compatible¶
        ZADD z INCR 1 a 2 b             -> -ERR INCR option supports a single increment-element pair¶
        ZADD z nan a                    -> -ERR value is not a valid float¶
        ZINCRBY z -inf b                -> -ERR resulting score is not a number (NaN)¶
        ZCOUNT z x 1                    -> -ERR min or max is not a float¶
        ZLEXCOUNT z x y                 -> -ERR min or max not valid string range item¶
        ZRANGE z 0 1 LIMIT 0 1          -> -ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX¶
        ZPOPMIN z -1                    -> -ERR value is out of range, must be positive¶
        ZMPOP 0 z MIN                   -> -ERR numkeys should be greater than 0¶
        ZUNION 0 z                      -> -ERR at least 1 input key is needed for 'zunion' command¶
        ZUNION 3 z                      -> -ERR syntax error¶
        ZUNION 1 z WEIGHTS x            -> -ERR weight value is not a float¶
        ZINTERCARD 1 z LIMIT -1         -> -ERR LIMIT can't be negative¶
        ZADD s 1 a                      -> -WRONGTYPE Operation against a key holding the wrong kind of value¶
        ZUNION 1 s FOO                  -> -WRONGTYPE Operation against a key holding the wrong kind of value¶
        GET z                           -> -WRONGTYPE Operation against a key holding the wrong kind of value¶
        TYPE z                          -> +zset¶
        "#,
    );
}

#[test]
fn long_sets_are_skiplists() {
    play(
        r#"
        CONFIG SET zset-max-listpack-entries 2  -> +OK¶
        ZADD z 1 a 2 b                  -> :2¶
        OBJECT ENCODING z               -> $8¶listpack¶
        ZADD z 3 c                      -> :1¶
        OBJECT ENCODING z               -> $8¶skiplist¶
        ZRANGE z 0 0 REV                -> *1¶$1¶c¶
        ZRANK z c                       -> :2¶
        ZPOPMIN z 2                     -> *4¶$1¶a¶$1¶1¶$1¶b¶$1¶2¶ | *2¶*2¶$1¶a¶,1¶*2¶$1¶b¶,2¶
        ZREMRANGEBYRANK z 0 -1          -> :1¶
        EXISTS z                        -> :0¶
        CONFIG SET zset-max-ziplist-entries 128 zset-max-ziplist-value 64 -> +OK¶
        "#,
    );
}

#[test]
fn a_dumped_set_is_restored() {
    play(
        r#"
        RESTORE z 0 "\x11\x14\x14\x00\x00\x00\x04\x00\x81a\x02\x01\x01\x81b\x02\x832.5\x04\xff\n\x00\x00\x00\x00\x00\x00\x00\x00\x00" -> +OK¶
        ZRANGE z 0 -1 WITHSCORES        -> *4¶$1¶a¶$1¶1¶$1¶b¶$3¶2.5¶ | *2¶*2¶$1¶a¶,1¶*2¶$1¶b¶,2.5¶
        "#,
    );
}

/// They had the form of the client's version, and not of the script's.
#[test]
fn pairs_have_the_form_of_the_scripts_version() {
    play(
        r#"
        ZADD z 1 a 2 b 3 c                                                          -> :3¶
        HSET h f v g w                                                              -> :2¶
        EVAL "return #redis.call('ZRANGE','z',0,-1,'WITHSCORES')" 0                 -> :6¶
        EVAL "return #redis.call('ZUNION',1,'z','WITHSCORES')" 0                    -> :6¶
        EVAL "return #redis.call('ZRANDMEMBER','z',2,'WITHSCORES')" 0               -> :4¶
        EVAL "return #redis.call('HRANDFIELD','h',2,'WITHVALUES')" 0                -> :4¶
        EVAL "redis.setresp(3) return #redis.call('ZRANGE','z',0,-1,'WITHSCORES')" 0 -> :3¶
        EVAL "redis.setresp(3) return #redis.call('HRANDFIELD','h',2,'WITHVALUES')" 0 -> :2¶
        EVAL "return #redis.call('ZPOPMIN','z',2)" 0                                -> :4¶
        EVAL "redis.setresp(3) return #redis.call('ZPOPMIN','z',1)" 0               -> :1¶
        ZADD z 1 a 2 b 3 c                                                          -> :3¶
        EVAL "return type(redis.call('BZPOPMIN','z',0)[3])" 0                       -> $6¶string¶
        EVAL "return type(redis.call('BZPOPMIN','y','z',0)[3])" 0                   -> $6¶string¶
        EVAL "redis.setresp(3) return type(redis.call('BZPOPMIN','y','z',0)[3])" 0  -> $5¶table¶
        "#,
    );
}
