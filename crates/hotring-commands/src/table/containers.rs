//! The list of commands on hashes, lists, sets and sorted sets, in the form of `list.rs`.

/// Passes the commands that it is given, and those on containers, to the list of GEO and HyperLogLog.
macro_rules! with_containers {
    ($make:ident commands { $($commands:tt)* }) => { $crate::table::with_geo! { $make
    commands { $($commands)*
        HSet = "hset" -4 Hash => hash::hset .flags(GROW_FAST).keys(&one(Access::Adjust)).quick().since("2.0.0")
            .args("key field value [field value ...]").cost(EACH_FIELD)
            .about("Sets fields of a hash; answers how many are new.");
        HSetNx = "hsetnx" 4 Hash => hash::hsetnx .flags(GROW_FAST).keys(&one(Access::Extend)).quick().since("2.0.0")
            .args("key field value").cost(EACH_FIELD)
            .about("Sets a field of a hash if it is missing.");
        HMSet = "hmset" -4 Hash => hash::hmset .flags(GROW_FAST).keys(&one(Access::Adjust)).quick().since("2.0.0")
            .args("key field value [field value ...]").cost(EACH_FIELD)
            .about("Sets fields of a hash; the old name of HSET.");
        HGet = "hget" 3 Hash => hash::hget .flags(READ_FAST).keys(&one(Access::Read)).quick().since("2.0.0")
            .args("key field").cost(EACH_FIELD)
            .about("Reads a field of a hash.");
        HMGet = "hmget" -3 Hash => hash::hmget .flags(READ_FAST).keys(&one(Access::Read)).quick().since("2.0.0")
            .args("key field [field ...]").cost(EACH_FIELD)
            .about("Reads several fields of a hash.");
        HGetAll = "hgetall" 2 Hash => hash::hgetall .flags(READ).keys(&one(Access::Read)).since("2.0.0")
            .args("key").cost(EACH_FIELD).tips(&[ORDER_VARIES])
            .about("Reads all fields of a hash with their values.");
        HKeys = "hkeys" 2 Hash => hash::hkeys .flags(READ).keys(&one(Access::Read)).since("2.0.0")
            .args("key").cost(EACH_FIELD).tips(&[ORDER_VARIES])
            .about("Lists the fields of a hash.");
        HVals = "hvals" 2 Hash => hash::hvals .flags(READ).keys(&one(Access::Read)).since("2.0.0")
            .args("key").cost(EACH_FIELD).tips(&[ORDER_VARIES])
            .about("Lists the values of a hash's fields.");
        HLen = "hlen" 2 Hash => hash::hlen .flags(READ_FAST).keys(&one(Access::Look)).quick().since("2.0.0")
            .args("key")
            .about("Counts the fields of a hash.");
        HExists = "hexists" 3 Hash => hash::hexists
            .flags(READ_FAST).keys(&one(Access::Look)).quick().since("2.0.0")
            .args("key field").cost(EACH_FIELD)
            .about("Tells whether a hash has a field.");
        HStrLen = "hstrlen" 3 Hash => hash::hstrlen
            .flags(READ_FAST).keys(&one(Access::Look)).quick().since("3.2.0")
            .args("key field").cost(EACH_FIELD)
            .about("Answers the length of a field's value, 0 if the field is missing.");
        HDel = "hdel" -3 Hash => hash::hdel .flags(WRITE_FAST).keys(&one(Access::Reduce)).quick().since("2.0.0")
            .args("key field [field ...]").cost(EACH_FIELD)
            .about("Removes fields of a hash and answers how many there were.");
        HIncrBy = "hincrby" 4 Hash => hash::hincrby
            .flags(GROW_FAST).keys(&one(Access::Modify)).quick().since("2.0.0")
            .args("key field increment").cost(EACH_FIELD)
            .about("Adds to the integer that a field has; a missing field counts as 0.");
        HIncrByFloat = "hincrbyfloat" 4 Hash => hash::hincrbyfloat
            .flags(GROW_FAST).keys(&one(Access::Modify)).quick()
            .since("2.6.0").args("key field increment").cost(EACH_FIELD)
            .about("Adds to the decimal fraction that a field has; a missing field counts as 0.");
        HRandField = "hrandfield" -2 Hash => hash::hrandfield
            .flags(READ).keys(&one(Access::Read)).since("6.2.0")
            .args("key [count [WITHVALUES]]")
            .cost("O(n) in the length of a short hash, O(log n) and what it answers else").tips(&[VARIES])
            .about("Answers fields of a hash at random.");
        HScan = "hscan" -3 Hash => hash::hscan .flags(READ).keys(&one(Access::Read)).since("2.8.0")
            .args("key cursor [MATCH pattern] [COUNT count] [NOVALUES]").cost(EACH_FIELD)
            .tips(&[VARIES])
            .about("Walks over the fields of a hash, here all of them in one call.");
        HExpire = "hexpire" -6 Hash => fields::hexpire
            .flags(WRITE_FAST).keys(&one(Access::Adjust)).since("7.4.0")
            .args("key seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]").cost(EACH_FIELD)
            .about("Lets fields of a hash expire after a number of seconds.");
        HPExpire = "hpexpire" -6 Hash => fields::hpexpire
            .flags(WRITE_FAST).keys(&one(Access::Adjust)).since("7.4.0")
            .args("key milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]").cost(EACH_FIELD)
            .about("Lets fields of a hash expire after a number of milliseconds.");
        HExpireAt = "hexpireat" -6 Hash => fields::hexpireat
            .flags(WRITE_FAST).keys(&one(Access::Adjust)).since("7.4.0")
            .args("key unix-time-seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]")
            .cost(EACH_FIELD)
            .about("Lets fields of a hash expire at a Unix second.");
        HPExpireAt = "hpexpireat" -6 Hash => fields::hpexpireat
            .flags(WRITE_FAST).keys(&one(Access::Adjust)).since("7.4.0")
            .args("key unix-time-milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]")
            .cost(EACH_FIELD)
            .about("Lets fields of a hash expire at a Unix millisecond.");
        HTtl = "httl" -5 Hash => fields::httl
            .flags(READ_FAST).keys(&one(Access::Read)).since("7.4.0")
            .args("key FIELDS numfields field [field ...]").cost(EACH_FIELD).tips(&[VARIES])
            .about("Seconds until fields of a hash expire; -1 for never, -2 for no such field.");
        HPTtl = "hpttl" -5 Hash => fields::hpttl
            .flags(READ_FAST).keys(&one(Access::Read)).since("7.4.0")
            .args("key FIELDS numfields field [field ...]").cost(EACH_FIELD).tips(&[VARIES])
            .about("Milliseconds until fields of a hash expire; -1 for never, -2 for no such field.");
        HExpireTime = "hexpiretime" -5 Hash => fields::hexpiretime
            .flags(READ_FAST).keys(&one(Access::Read)).since("7.4.0")
            .args("key FIELDS numfields field [field ...]").cost(EACH_FIELD)
            .about("The Unix second at which fields of a hash expire; -1 for never, -2 for no such field.");
        HPExpireTime = "hpexpiretime" -5 Hash => fields::hpexpiretime
            .flags(READ_FAST).keys(&one(Access::Read)).since("7.4.0")
            .args("key FIELDS numfields field [field ...]").cost(EACH_FIELD)
            .about("The Unix millisecond at which fields of a hash expire; -1 for never, -2 for no such field.");
        HPersist = "hpersist" -5 Hash => fields::hpersist
            .flags(WRITE_FAST).keys(&one(Access::Adjust)).since("7.4.0")
            .args("key FIELDS numfields field [field ...]").cost(EACH_FIELD)
            .about("Takes the expiry of fields of a hash away.");
        HGetEx = "hgetex" -5 Hash => fields::hgetex
            .flags(WRITE_FAST).keys(&one(Access::Modify)).since("8.0.0")
            .args("key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT \
                unix-time-milliseconds | PERSIST] FIELDS numfields field [field ...]")
            .cost(EACH_FIELD)
            .about("Reads fields of a hash and changes their expiry.");
        HSetEx = "hsetex" -6 Hash => fields::hsetex
            .flags(GROW_FAST).keys(&one(Access::Adjust)).since("8.0.0")
            .args("key [FNX | FXX] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT \
                unix-time-milliseconds | KEEPTTL] FIELDS numfields field value [field value ...]")
            .cost(EACH_FIELD)
            .about("Sets fields of a hash with their expiry; answers 1 if it did.");
        HGetDel = "hgetdel" -5 Hash => fields::hgetdel
            .flags(WRITE_FAST).keys(&one(Access::Take)).since("8.0.0")
            .args("key FIELDS numfields field [field ...]").cost(EACH_FIELD)
            .about("Reads fields of a hash and removes them.");

        BLPop = "blpop" -3 List => blocking::blpop .flags(WAITING)
            .keys(&all_but_last(Access::Take)).since("2.0.0").args("key [key ...] timeout").cost(EACH_KEY)
            .about("Takes the first element of the first list that has one, or waits for one.");
        BRPop = "brpop" -3 List => blocking::brpop .flags(WAITING)
            .keys(&all_but_last(Access::Take)).since("2.0.0").args("key [key ...] timeout").cost(EACH_KEY)
            .about("Takes the last element of the first list that has one, or waits for one.");
        BRPopLPush = "brpoplpush" 4 List => blocking::brpoplpush .flags(WAITING.with(Flags::DENYOOM))
            .keys(&pair(Access::Take, Access::Extend)).since("2.2.0")
            .args("source destination timeout")
            .about("Moves the last element of a list to the head of another, or waits for one.");
        BLMove = "blmove" 6 List => blocking::blmove .flags(WAITING.with(Flags::DENYOOM))
            .keys(&pair(Access::Take, Access::Extend)).since("6.2.0")
            .args("source destination wherefrom whereto timeout")
            .about("Moves an element from an end of a list to an end of another, or waits for one.");
        BLMPop = "blmpop" -5 List => blocking::blmpop .flags(WAITING.with(Flags::MOVABLE_KEYS))
            .keys(&counted(Access::Take)).since("7.0.0").cost(EACH_KEY)
            .args("timeout numkeys key [key ...] where [COUNT count]")
            .about("Takes elements of the first list that has some, or waits for one.");
        LPush = "lpush" -3 List => list::lpush .flags(GROW_FAST).keys(&one(Access::Extend)).quick()
            .args("key element [element ...]").cost(EACH_ELEMENT)
            .about("Puts elements before the first one of a list, one after the other.");
        RPush = "rpush" -3 List => list::rpush .flags(GROW_FAST).keys(&one(Access::Extend)).quick()
            .args("key element [element ...]").cost(EACH_ELEMENT)
            .about("Puts elements behind the last one of a list.");
        LPushX = "lpushx" -3 List => list::lpushx .flags(GROW_FAST).keys(&one(Access::Extend)).quick().since("2.2.0")
            .args("key element [element ...]").cost(EACH_ELEMENT)
            .about("Puts elements before the first one of a list, if there is the list.");
        RPushX = "rpushx" -3 List => list::rpushx .flags(GROW_FAST).keys(&one(Access::Extend)).quick().since("2.2.0")
            .args("key element [element ...]").cost(EACH_ELEMENT)
            .about("Puts elements behind the last one of a list, if there is the list.");
        LPop = "lpop" -2 List => list::lpop .flags(WRITE_FAST).keys(&one(Access::Take)).quick_below(3)
            .args("key [count]").cost(EACH_ELEMENT)
            .about("Removes and answers the first element of a list, or some from the first on.");
        RPop = "rpop" -2 List => list::rpop .flags(WRITE_FAST).keys(&one(Access::Take)).quick_below(3)
            .args("key [count]").cost(EACH_ELEMENT)
            .about("Removes and answers the last element of a list, or some from the last on.");
        LLen = "llen" 2 List => list::llen .flags(READ_FAST).keys(&one(Access::Look)).quick()
            .args("key")
            .about("Counts the elements of a list.");
        LIndex = "lindex" 3 List => list::lindex .flags(READ).keys(&one(Access::Read))
            .args("key index").cost(IN_LIST)
            .about("Answers an element of a list by its index; -1 is the last.");
        LRange = "lrange" 4 List => list::lrange .flags(READ).keys(&one(Access::Read))
            .args("key start stop").cost(EACH_ELEMENT)
            .about("Lists the elements of a list from one index to another, both included.");
        LSet = "lset" 4 List => list::lset .flags(GROW).keys(&one(Access::Adjust))
            .args("key index element").cost(IN_LIST)
            .about("Puts an element in the place of the one with this index.");
        LInsert = "linsert" 5 List => list::linsert .flags(GROW).keys(&one(Access::Extend)).since("2.2.0")
            .args("key where pivot element").cost(EACH_ELEMENT)
            .about("Puts an element BEFORE the first one that equals another, or AFTER it.");
        LRem = "lrem" 4 List => list::lrem .flags(WRITE).keys(&one(Access::Reduce))
            .args("key count element").cost(EACH_ELEMENT)
            .about("Removes elements of this value: all by 0, the last ones by a number below 0.");
        LTrim = "ltrim" 4 List => list::ltrim .flags(WRITE).keys(&one(Access::Reduce))
            .args("key start stop").cost(IN_LIST)
            .about("Removes all elements but those from one index to another.");
        LPos = "lpos" -3 List => list::lpos .flags(READ).keys(&one(Access::Read)).since("6.0.6")
            .args("key element [RANK rank] [COUNT num-matches] [MAXLEN len]").cost(EACH_ELEMENT)
            .about("Answers the indexes of elements of this value.");
        LMove = "lmove" 5 List => list::lmove
            .flags(GROW).keys(&pair(Access::Take, Access::Extend)).since("6.2.0")
            .args("source destination wherefrom whereto")
            .about("Moves an element from an end of a list, LEFT or RIGHT, to an end of another.");
        RPopLPush = "rpoplpush" 3 List => list::rpoplpush
            .flags(GROW).keys(&pair(Access::Take, Access::Extend)).since("1.2.0")
            .args("source destination")
            .about("Moves the last element of a list to the front of another.");
        LMPop = "lmpop" -4 List => list::lmpop
            .flags(WRITE.with(Flags::MOVABLE_KEYS)).keys(&counted_first(Access::Take)).since("7.0.0")
            .args("numkeys key [key ...] where [COUNT count]").cost(EACH_ELEMENT)
            .about("Takes elements from the LEFT or the RIGHT of the first of several lists that is there.");

        SAdd = "sadd" -3 Set => set::sadd .flags(GROW_FAST).keys(&one(Access::Extend)).quick()
            .args("key member [member ...]").cost(EACH_MEMBER)
            .about("Adds members to a set; answers how many are new.");
        SRem = "srem" -3 Set => set::srem .flags(WRITE_FAST).keys(&one(Access::Reduce)).quick()
            .args("key member [member ...]").cost(EACH_MEMBER)
            .about("Removes members of a set; answers how many there were.");
        SIsMember = "sismember" 3 Set => set::sismember .flags(READ_FAST).keys(&one(Access::Look)).quick()
            .args("key member")
            .about("Answers whether a set has a member.");
        SMIsMember = "smismember" -3 Set => set::smismember .flags(READ_FAST).keys(&one(Access::Read)).quick()
            .since("6.2.0").args("key member [member ...]").cost(EACH_MEMBER)
            .about("Answers for several members whether a set has them.");
        SCard = "scard" 2 Set => set::scard .flags(READ_FAST).keys(&one(Access::Look)).quick()
            .args("key")
            .about("Counts the members of a set.");
        SMembers = "smembers" 2 Set => set::smembers .flags(READ).keys(&one(Access::Read))
            .args("key").cost(WHOLE_SET).tips(&[ORDER_VARIES])
            .about("Lists the members of a set.");
        SPop = "spop" -2 Set => set::spop .flags(WRITE_FAST).keys(&one(Access::Take))
            .args("key [count]").cost("O(n log m): n members removed of m").tips(&[VARIES])
            .about("Removes random members of a set and answers them.");
        SRandMember = "srandmember" -2 Set => set::srandmember .flags(READ).keys(&one(Access::Read))
            .args("key [count]").cost("O(n log m): n members answered of m").tips(&[VARIES])
            .about("Answers random members of a set; with a negative count they may repeat.");
        SMove = "smove" 4 Set => set::smove .flags(WRITE_FAST)
            .keys(&pair(Access::Take, Access::Extend)).args("source destination member")
            .about("Moves a member from one set to another at one moment.");
        SInter = "sinter" -2 Set => set::sinter .flags(READ).keys(&every(1, Access::Read))
            .args("key [key ...]").cost(SMALLEST_SET).tips(&[ORDER_VARIES])
            .about("Lists the members that all of several sets have.");
        SInterCard = "sintercard" -3 Set => set::sintercard .flags(READ.with(Flags::MOVABLE_KEYS))
            .keys(&counted_first(Access::Read)).since("7.0.0").args("numkeys key [key ...] [LIMIT limit]")
            .cost(SMALLEST_SET)
            .about("Counts the members that all of several sets have, up to a limit.");
        SInterStore = "sinterstore" -3 Set => set::sinterstore .flags(GROW).keys(&into(Access::Adjust))
            .args("destination key [key ...]").cost(SMALLEST_SET)
            .about("Stores the members that all of several sets have; answers how many.");
        SUnion = "sunion" -2 Set => set::sunion .flags(READ).keys(&every(1, Access::Read))
            .args("key [key ...]").cost(ALL_SETS).tips(&[ORDER_VARIES])
            .about("Lists the members that any of several sets has.");
        SUnionStore = "sunionstore" -3 Set => set::sunionstore .flags(GROW).keys(&into(Access::Overwrite))
            .args("destination key [key ...]").cost(ALL_SETS)
            .about("Stores the members that any of several sets has; answers how many.");
        SDiff = "sdiff" -2 Set => set::sdiff .flags(READ).keys(&every(1, Access::Read))
            .args("key [key ...]").cost(ALL_SETS).tips(&[ORDER_VARIES])
            .about("Lists the members of a set that several others lack.");
        SDiffStore = "sdiffstore" -3 Set => set::sdiffstore .flags(GROW).keys(&into(Access::Overwrite))
            .args("destination key [key ...]").cost(ALL_SETS)
            .about("Stores the members of a set that several others lack; answers how many.");
        SScan = "sscan" -3 Set => set::sscan .flags(READ).keys(&one(Access::Read)).since("2.8.0")
            .args("key cursor [MATCH pattern] [COUNT count]").cost(WHOLE_SET).tips(&[VARIES])
            .about("Walks over the members of a set, a part at a time if it is long.");

        BZPopMin = "bzpopmin" -3 SortedSet => blocking::bzpopmin .flags(WAITING.with(FAST))
            .keys(&all_but_last(Access::Take)).since("5.0.0").args("key [key ...] timeout").cost(EACH_KEY)
            .about("Takes the member of least score from the first sorted set that has one, or waits for one.");
        BZPopMax = "bzpopmax" -3 SortedSet => blocking::bzpopmax .flags(WAITING.with(FAST))
            .keys(&all_but_last(Access::Take)).since("5.0.0").args("key [key ...] timeout").cost(EACH_KEY)
            .about("Takes the member of greatest score from the first sorted set that has one, or waits for one.");
        BZMPop = "bzmpop" -5 SortedSet => blocking::bzmpop .flags(WAITING.with(Flags::MOVABLE_KEYS))
            .keys(&counted(Access::Take)).since("7.0.0").cost(EACH_KEY)
            .args("timeout numkeys key [key ...] where [COUNT count]")
            .about("Takes members of the first sorted set that has some, or waits for one.");
        ZAdd = "zadd" -4 SortedSet => zset::zadd
            .flags(GROW_FAST).keys(&one(Access::Adjust)).quick().since("1.2.0")
            .args("key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]")
            .cost("O(log n) in the number of members")
            .about("Gives members of a sorted set scores; answers how many are new.");
        ZIncrBy = "zincrby" 4 SortedSet => zset::zincrby
            .flags(GROW_FAST).keys(&one(Access::Modify)).quick().since("1.2.0")
            .args("key increment member").cost("O(log n) in the number of members")
            .about("Adds to a member's score; a missing member counts as 0.");
        ZRem = "zrem" -3 SortedSet => zset::zrem
            .flags(WRITE_FAST).keys(&one(Access::Reduce)).quick().since("1.2.0")
            .args("key member [member ...]").cost("O(log n) in the number of members")
            .about("Removes members of a sorted set and answers how many there were.");
        ZScore = "zscore" 3 SortedSet => zset::zscore
            .flags(READ_FAST).keys(&one(Access::Read)).quick().since("1.2.0")
            .args("key member").cost("O(log n) in the number of members")
            .about("Answers a member's score.");
        ZMScore = "zmscore" -3 SortedSet => zset::zmscore
            .flags(READ_FAST).keys(&one(Access::Read)).quick().since("6.2.0")
            .args("key member [member ...]").cost("O(log n) in the number of members")
            .about("Answers the scores of several members.");
        ZCard = "zcard" 2 SortedSet => zset::zcard
            .flags(READ_FAST).keys(&one(Access::Look)).quick().since("1.2.0")
            .args("key").cost("O(1)")
            .about("Counts the members of a sorted set.");
        ZCount = "zcount" 4 SortedSet => zset::zcount
            .flags(READ_FAST).keys(&one(Access::Read)).since("2.0.0")
            .args("key min max").cost("O(log n) in the number of members")
            .about("Counts the members with scores in a range.");
        ZLexCount = "zlexcount" 4 SortedSet => zset::zlexcount
            .flags(READ_FAST).keys(&one(Access::Read)).since("2.8.9")
            .args("key min max").cost("O(log n) in the number of members")
            .about("Counts the members in a range, where all scores are equal.");
        ZRank = "zrank" -3 SortedSet => zset::zrank
            .flags(READ_FAST).keys(&one(Access::Read)).quick().since("2.0.0")
            .args("key member [WITHSCORE]").cost("O(log n) in the number of members")
            .about("Answers a member's rank, from the lowest score on.");
        ZRevRank = "zrevrank" -3 SortedSet => zset::zrevrank
            .flags(READ_FAST).keys(&one(Access::Read)).quick().since("2.0.0")
            .args("key member [WITHSCORE]").cost("O(log n) in the number of members")
            .about("Answers a member's rank, from the highest score on.");
        ZRange = "zrange" -4 SortedSet => zset::zrange
            .flags(READ).keys(&one(Access::Read)).since("1.2.0")
            .args("key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]")
            .cost("O(log n) and what it answers")
            .about("Lists the members in a range of ranks, scores or members.");
        ZRangeStore = "zrangestore" -5 SortedSet => zset::zrangestore
            .flags(GROW).keys(&pair(Access::Overwrite, Access::Read)).since("6.2.0")
            .args("destination source min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]")
            .cost("O(log n) and what it answers")
            .about("Stores a range of a sorted set under another key; answers how many members it has.");
        ZRangeByScore = "zrangebyscore" -4 SortedSet => zset::zrangebyscore
            .flags(READ).keys(&one(Access::Read)).since("1.0.5")
            .args("key min max [WITHSCORES] [LIMIT offset count]").cost("O(log n) and what it answers")
            .about("Lists the members with scores in a range.");
        ZRevRange = "zrevrange" -4 SortedSet => zset::zrevrange
            .flags(READ).keys(&one(Access::Read)).since("1.2.0")
            .args("key start stop [WITHSCORES]").cost("O(log n) and what it answers")
            .about("Lists the members in a range of ranks, the highest score first.");
        ZRevRangeByScore = "zrevrangebyscore" -4 SortedSet => zset::zrevrangebyscore
            .flags(READ).keys(&one(Access::Read)).since("2.2.0")
            .args("key max min [WITHSCORES] [LIMIT offset count]").cost("O(log n) and what it answers")
            .about("Lists the members with scores in a range, the highest first.");
        ZRangeByLex = "zrangebylex" -4 SortedSet => zset::zrangebylex
            .flags(READ).keys(&one(Access::Read)).since("2.8.9")
            .args("key min max [LIMIT offset count]").cost("O(log n) and what it answers")
            .about("Lists the members in a range, where all scores are equal.");
        ZRevRangeByLex = "zrevrangebylex" -4 SortedSet => zset::zrevrangebylex
            .flags(READ).keys(&one(Access::Read)).since("2.8.9")
            .args("key max min [LIMIT offset count]").cost("O(log n) and what it answers")
            .about("Lists the members in a range backwards, where all scores are equal.");
        ZRemRangeByRank = "zremrangebyrank" 4 SortedSet => zset::zremrangebyrank
            .flags(WRITE).keys(&one(Access::Reduce)).since("2.0.0")
            .args("key start stop").cost("O(log n) and what it removes")
            .about("Removes the members in a range of ranks.");
        ZRemRangeByScore = "zremrangebyscore" 4 SortedSet => zset::zremrangebyscore
            .flags(WRITE).keys(&one(Access::Reduce)).since("1.2.0")
            .args("key min max").cost("O(log n) and what it removes")
            .about("Removes the members with scores in a range.");
        ZRemRangeByLex = "zremrangebylex" 4 SortedSet => zset::zremrangebylex
            .flags(WRITE).keys(&one(Access::Reduce)).since("2.8.9")
            .args("key min max").cost("O(log n) and what it removes")
            .about("Removes the members in a range, where all scores are equal.");
        ZPopMin = "zpopmin" -2 SortedSet => zset::zpopmin
            .flags(WRITE_FAST).keys(&one(Access::Take)).since("5.0.0")
            .args("key [count]").cost("O(log n) and what it removes")
            .about("Takes the members with the lowest scores.");
        ZPopMax = "zpopmax" -2 SortedSet => zset::zpopmax
            .flags(WRITE_FAST).keys(&one(Access::Take)).since("5.0.0")
            .args("key [count]").cost("O(log n) and what it removes")
            .about("Takes the members with the highest scores.");
        ZMPop = "zmpop" -4 SortedSet => zset::zmpop
            .flags(WRITE.with(Flags::MOVABLE_KEYS))
            .keys(&counted_first(Access::Take)).since("7.0.0")
            .args("numkeys key [key ...] where [COUNT count]").cost("O(log n) and what it removes")
            .about("Takes members of the first of several sorted sets that is not empty.");
        ZRandMember = "zrandmember" -2 SortedSet => zset::zrandmember
            .flags(READ).keys(&one(Access::Read)).since("6.2.0")
            .args("key [count [WITHSCORES]]").cost("O(log n) and what it answers").tips(&[VARIES])
            .about("Answers members at random.");
        ZUnion = "zunion" -3 SortedSet => zset::zunion
            .flags(READ.with(Flags::MOVABLE_KEYS))
            .keys(&counted_first(Access::Read)).since("6.2.0")
            .args("numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | AGGREGATE MIN | \
                AGGREGATE MAX] [WITHSCORES]")
            .cost("O(n log n) in the number of all members")
            .about("Answers all members of several sorted sets.");
        ZInter = "zinter" -3 SortedSet => zset::zinter
            .flags(READ.with(Flags::MOVABLE_KEYS))
            .keys(&counted_first(Access::Read)).since("6.2.0")
            .args("numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | AGGREGATE MIN | \
                AGGREGATE MAX] [WITHSCORES]")
            .cost("O(n log n) in the number of all members")
            .about("Answers the members that all of several sorted sets have.");
        ZDiff = "zdiff" -3 SortedSet => zset::zdiff
            .flags(READ.with(Flags::MOVABLE_KEYS))
            .keys(&counted_first(Access::Read)).since("6.2.0")
            .args("numkeys key [key ...] [WITHSCORES]").cost("O(n log n) in the number of all members")
            .about("Answers the members of the first sorted set that the others lack.");
        ZUnionStore = "zunionstore" -4 SortedSet => zset::zunionstore
            .flags(GROW.with(Flags::MOVABLE_KEYS)).keys(&into_from_counted()).since("2.0.0")
            .args("destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | \
                AGGREGATE MIN | AGGREGATE MAX]")
            .cost("O(n log n) in the number of all members")
            .about("Stores what ZUNION answers; answers how many members that is.");
        ZInterStore = "zinterstore" -4 SortedSet => zset::zinterstore
            .flags(GROW.with(Flags::MOVABLE_KEYS)).keys(&into_from_counted()).since("2.0.0")
            .args("destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | \
                AGGREGATE MIN | AGGREGATE MAX]")
            .cost("O(n log n) in the number of all members")
            .about("Stores what ZINTER answers; answers how many members that is.");
        ZDiffStore = "zdiffstore" -4 SortedSet => zset::zdiffstore
            .flags(GROW.with(Flags::MOVABLE_KEYS)).keys(&into_from_counted()).since("6.2.0")
            .args("destination numkeys key [key ...]").cost("O(n log n) in the number of all members")
            .about("Stores what ZDIFF answers; answers how many members that is.");
        ZInterCard = "zintercard" -3 SortedSet => zset::zintercard
            .flags(READ.with(Flags::MOVABLE_KEYS))
            .keys(&counted_first(Access::Read)).since("7.0.0")
            .args("numkeys key [key ...] [LIMIT limit]").cost("O(n log n) in the number of all members")
            .about("Counts the members that all of several sorted sets have.");
        ZScan = "zscan" -3 SortedSet => zset::zscan
            .flags(READ).keys(&one(Access::Read)).since("2.8.0")
            .args("key cursor [MATCH pattern] [COUNT count]").cost("O(1) for each member").tips(&[VARIES])
            .about("Walks over the members of a sorted set, a part at a time.");
    }

    } };
}
pub(crate) use with_containers;
