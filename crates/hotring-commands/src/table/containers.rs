//! The list of commands on hashes, lists, sets and sorted sets, in the format of `list.rs`.

/// Passes the given commands, and the commands on containers, to the list of GEO and HyperLogLog.
macro_rules! with_containers {
    ($make:ident commands { $($commands:tt)* }) => { $crate::table::with_geo! { $make
    commands { $($commands)*
        HSet = "hset" -4 Hash => hash::hset .flags(GROW_FAST).keys(&one(Access::Adjust)).quick().since("2.0.0")
            .args("key field value [field value ...]").cost(EACH_FIELD)
            .about("Sets fields of a hash; answers how many are new.");
        HSetNx = "hsetnx" 4 Hash => hash::hsetnx .flags(GROW_FAST).keys(&one(Access::Extend)).quick().since("2.0.0")
            .args("key field value")
            .about("Sets a field of a hash if it is missing.");
        HMSet = "hmset" -4 Hash => hash::hmset .flags(GROW_FAST).keys(&one(Access::Adjust)).quick().since("2.0.0")
            .args("key field value [field value ...]").cost(EACH_FIELD)
            .about("Sets fields of a hash; the old name of HSET.");
        HGet = "hget" 3 Hash => hash::hget .flags(READ_FAST).keys(&one(Access::Read)).quick().since("2.0.0")
            .args("key field")
            .about("Reads a field of a hash.");
        HMGet = "hmget" -3 Hash => hash::hmget .flags(READ_FAST).keys(&one(Access::Read)).quick().since("2.0.0")
            .args("key field [field ...]").cost(EACH_FIELD)
            .about("Reads several fields of a hash.");
        HGetAll = "hgetall" 2 Hash => hash::hgetall .flags(READ).keys(&one(Access::Read)).since("2.0.0")
            .args("key").cost(WHOLE_HASH).tips(&[ORDER_VARIES])
            .about("Reads all fields of a hash with their values.");
        HKeys = "hkeys" 2 Hash => hash::hkeys .flags(READ).keys(&one(Access::Read)).since("2.0.0")
            .args("key").cost(WHOLE_HASH).tips(&[ORDER_VARIES])
            .about("Lists the fields of a hash.");
        HVals = "hvals" 2 Hash => hash::hvals .flags(READ).keys(&one(Access::Read)).since("2.0.0")
            .args("key").cost(WHOLE_HASH).tips(&[ORDER_VARIES])
            .about("Lists the values of a hash's fields.");
        HLen = "hlen" 2 Hash => hash::hlen .flags(READ_FAST).keys(&one(Access::Look)).quick().since("2.0.0")
            .args("key")
            .about("Counts the fields of a hash.");
        HExists = "hexists" 3 Hash => hash::hexists
            .flags(READ_FAST).keys(&one(Access::Look)).quick().since("2.0.0")
            .args("key field")
            .about("Answers whether a hash has a field.");
        HStrLen = "hstrlen" 3 Hash => hash::hstrlen
            .flags(READ_FAST).keys(&one(Access::Look)).quick().since("3.2.0")
            .args("key field")
            .about("Answers the length of a field's value, 0 if the field is missing.");
        HDel = "hdel" -3 Hash => hash::hdel .flags(WRITE_FAST).keys(&one(Access::Reduce)).quick().since("2.0.0")
            .args("key field [field ...]").cost(EACH_FIELD)
            .about("Removes fields of a hash; answers how many existed.");
        HIncrBy = "hincrby" 4 Hash => hash::hincrby
            .flags(GROW_FAST).keys(&one(Access::Modify)).quick().since("2.0.0")
            .args("key field increment")
            .about("Adds to the integer in a field; a missing field counts as 0.");
        HIncrByFloat = "hincrbyfloat" 4 Hash => hash::hincrbyfloat
            .flags(GROW_FAST).keys(&one(Access::Modify)).quick()
            .since("2.6.0").args("key field increment")
            .about("Adds to the decimal fraction in a field; a missing field counts as 0.");
        HRandField = "hrandfield" -2 Hash => hash::hrandfield
            .flags(READ).keys(&one(Access::Read)).since("6.2.0")
            .args("key [count [WITHVALUES]]")
            .cost("O(n) in the number of fields answered").tips(&[VARIES])
            .about("Answers random fields of a hash.");
        HScan = "hscan" -3 Hash => hash::hscan .flags(READ).keys(&one(Access::Read)).since("2.8.0")
            .args("key cursor [MATCH pattern] [COUNT count] [NOVALUES]").cost(WHOLE_HASH)
            .tips(&[VARIES])
            .about("Walks over the fields of a hash, a part at a time if it is long.");
        HExpire = "hexpire" -6 Hash => fields::hexpire
            .flags(WRITE_FAST).keys(&one(Access::Adjust)).since("7.4.0")
            .args("key seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]").cost(EACH_FIELD)
            .about("Sets the expiry of hash fields, in seconds from now.");
        HPExpire = "hpexpire" -6 Hash => fields::hpexpire
            .flags(WRITE_FAST).keys(&one(Access::Adjust)).since("7.4.0")
            .args("key milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]").cost(EACH_FIELD)
            .about("Sets the expiry of hash fields, in milliseconds from now.");
        HExpireAt = "hexpireat" -6 Hash => fields::hexpireat
            .flags(WRITE_FAST).keys(&one(Access::Adjust)).since("7.4.0")
            .args("key unix-time-seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]")
            .cost(EACH_FIELD)
            .about("Sets the expiry of hash fields, as a Unix time in seconds.");
        HPExpireAt = "hpexpireat" -6 Hash => fields::hpexpireat
            .flags(WRITE_FAST).keys(&one(Access::Adjust)).since("7.4.0")
            .args("key unix-time-milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]")
            .cost(EACH_FIELD)
            .about("Sets the expiry of hash fields, as a Unix time in milliseconds.");
        HTtl = "httl" -5 Hash => fields::httl
            .flags(READ_FAST).keys(&one(Access::Read)).since("7.4.0")
            .args("key FIELDS numfields field [field ...]").cost(EACH_FIELD).tips(&[VARIES])
            .about("Answers the seconds until hash fields expire; -1: never, -2: no such field.");
        HPTtl = "hpttl" -5 Hash => fields::hpttl
            .flags(READ_FAST).keys(&one(Access::Read)).since("7.4.0")
            .args("key FIELDS numfields field [field ...]").cost(EACH_FIELD).tips(&[VARIES])
            .about("Answers the milliseconds until hash fields expire; -1: never, -2: no such field.");
        HExpireTime = "hexpiretime" -5 Hash => fields::hexpiretime
            .flags(READ_FAST).keys(&one(Access::Read)).since("7.4.0")
            .args("key FIELDS numfields field [field ...]").cost(EACH_FIELD)
            .about("Answers the Unix second at which hash fields expire; -1: never, -2: no such field.");
        HPExpireTime = "hpexpiretime" -5 Hash => fields::hpexpiretime
            .flags(READ_FAST).keys(&one(Access::Read)).since("7.4.0")
            .args("key FIELDS numfields field [field ...]").cost(EACH_FIELD)
            .about("Answers the Unix millisecond at which hash fields expire; -1: never, -2: no such field.");
        HPersist = "hpersist" -5 Hash => fields::hpersist
            .flags(WRITE_FAST).keys(&one(Access::Adjust)).since("7.4.0")
            .args("key FIELDS numfields field [field ...]").cost(EACH_FIELD)
            .about("Removes the expiry of hash fields.");
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
            .about("Sets fields of a hash with an expiry; answers 1 if it did so.");
        HGetDel = "hgetdel" -5 Hash => fields::hgetdel
            .flags(WRITE_FAST).keys(&one(Access::Take)).since("8.0.0")
            .args("key FIELDS numfields field [field ...]").cost(EACH_FIELD)
            .about("Reads fields of a hash and removes them.");

        BLPop = "blpop" -3 List => blocking::blpop .flags(WAITING)
            .keys(&all_but_last(Access::Take)).since("2.0.0").args("key [key ...] timeout").cost(EACH_KEY)
            .about("Removes and answers the first element of the first list that is not empty, or waits.");
        BRPop = "brpop" -3 List => blocking::brpop .flags(WAITING)
            .keys(&all_but_last(Access::Take)).since("2.0.0").args("key [key ...] timeout").cost(EACH_KEY)
            .about("Removes and answers the last element of the first list that is not empty, or waits.");
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
            .about("Removes and answers elements of the first list that is not empty, or waits.");
        LPush = "lpush" -3 List => list::lpush .flags(GROW_FAST).keys(&one(Access::Extend)).quick()
            .args("key element [element ...]").cost(EACH_ELEMENT)
            .about("Inserts elements at the head of a list, one after the other.");
        RPush = "rpush" -3 List => list::rpush .flags(GROW_FAST).keys(&one(Access::Extend)).quick()
            .args("key element [element ...]").cost(EACH_ELEMENT)
            .about("Appends elements to a list.");
        LPushX = "lpushx" -3 List => list::lpushx .flags(GROW_FAST).keys(&one(Access::Extend)).quick().since("2.2.0")
            .args("key element [element ...]").cost(EACH_ELEMENT)
            .about("Inserts elements at the head of a list, if the list exists.");
        RPushX = "rpushx" -3 List => list::rpushx .flags(GROW_FAST).keys(&one(Access::Extend)).quick().since("2.2.0")
            .args("key element [element ...]").cost(EACH_ELEMENT)
            .about("Appends elements to a list, if the list exists.");
        LPop = "lpop" -2 List => list::lpop .flags(WRITE_FAST).keys(&one(Access::Take)).quick_below(3)
            .args("key [count]").cost(EACH_ELEMENT)
            .about("Removes and answers the first elements of a list.");
        RPop = "rpop" -2 List => list::rpop .flags(WRITE_FAST).keys(&one(Access::Take)).quick_below(3)
            .args("key [count]").cost(EACH_ELEMENT)
            .about("Removes and answers the last elements of a list.");
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
            .about("Replaces the element at an index.");
        LInsert = "linsert" 5 List => list::linsert .flags(GROW).keys(&one(Access::Extend)).since("2.2.0")
            .args("key where pivot element").cost(EACH_ELEMENT)
            .about("Inserts an element BEFORE or AFTER the first one that equals another.");
        LRem = "lrem" 4 List => list::lrem .flags(WRITE).keys(&one(Access::Reduce))
            .args("key count element").cost(EACH_ELEMENT)
            .about("Removes elements of this value: all with 0, the last ones with a negative count.");
        LTrim = "ltrim" 4 List => list::ltrim .flags(WRITE).keys(&one(Access::Reduce))
            .args("key start stop").cost(IN_LIST)
            .about("Removes all elements outside a range of indexes.");
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
            .about("Moves the last element of a list to the head of another.");
        LMPop = "lmpop" -4 List => list::lmpop
            .flags(WRITE.with(Flags::MOVABLE_KEYS)).keys(&counted_first(Access::Take)).since("7.0.0")
            .args("numkeys key [key ...] where [COUNT count]").cost(EACH_ELEMENT)
            .about("Removes and answers elements at one end of the first list that is not empty.");

        SAdd = "sadd" -3 Set => set::sadd .flags(GROW_FAST).keys(&one(Access::Extend)).quick()
            .args("key member [member ...]").cost(EACH_MEMBER)
            .about("Adds members to a set; answers how many are new.");
        SRem = "srem" -3 Set => set::srem .flags(WRITE_FAST).keys(&one(Access::Reduce)).quick()
            .args("key member [member ...]").cost(EACH_MEMBER)
            .about("Removes members of a set; answers how many existed.");
        SIsMember = "sismember" 3 Set => set::sismember .flags(READ_FAST).keys(&one(Access::Look)).quick()
            .args("key member")
            .about("Answers whether a set has a member.");
        SMIsMember = "smismember" -3 Set => set::smismember .flags(READ_FAST).keys(&one(Access::Read)).quick()
            .since("6.2.0").args("key member [member ...]").cost(EACH_MEMBER)
            .about("Answers whether a set has each of several members.");
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
            .about("Moves a member from one set to another atomically.");
        SInter = "sinter" -2 Set => set::sinter .flags(READ).keys(&every(1, Access::Read))
            .args("key [key ...]").cost(SMALLEST_SET).tips(&[ORDER_VARIES])
            .about("Lists the intersection of sets.");
        SInterCard = "sintercard" -3 Set => set::sintercard .flags(READ.with(Flags::MOVABLE_KEYS))
            .keys(&counted_first(Access::Read)).since("7.0.0").args("numkeys key [key ...] [LIMIT limit]")
            .cost(SMALLEST_SET)
            .about("Counts the intersection of sets, up to a limit.");
        SInterStore = "sinterstore" -3 Set => set::sinterstore .flags(GROW).keys(&into(Access::Adjust))
            .args("destination key [key ...]").cost(SMALLEST_SET)
            .about("Stores the intersection of sets; answers its size.");
        SUnion = "sunion" -2 Set => set::sunion .flags(READ).keys(&every(1, Access::Read))
            .args("key [key ...]").cost(ALL_SETS).tips(&[ORDER_VARIES])
            .about("Lists the union of sets.");
        SUnionStore = "sunionstore" -3 Set => set::sunionstore .flags(GROW).keys(&into(Access::Overwrite))
            .args("destination key [key ...]").cost(ALL_SETS)
            .about("Stores the union of sets; answers its size.");
        SDiff = "sdiff" -2 Set => set::sdiff .flags(READ).keys(&every(1, Access::Read))
            .args("key [key ...]").cost(ALL_SETS).tips(&[ORDER_VARIES])
            .about("Lists the difference of a set and others.");
        SDiffStore = "sdiffstore" -3 Set => set::sdiffstore .flags(GROW).keys(&into(Access::Overwrite))
            .args("destination key [key ...]").cost(ALL_SETS)
            .about("Stores the difference of a set and others; answers its size.");
        SScan = "sscan" -3 Set => set::sscan .flags(READ).keys(&one(Access::Read)).since("2.8.0")
            .args("key cursor [MATCH pattern] [COUNT count]").cost(WHOLE_SET).tips(&[VARIES])
            .about("Walks over the members of a set, a part at a time if it is long.");

        BZPopMin = "bzpopmin" -3 SortedSet => blocking::bzpopmin .flags(WAITING.with(FAST))
            .keys(&all_but_last(Access::Take)).since("5.0.0").args("key [key ...] timeout").cost(EACH_KEY)
            .about("Removes and answers the lowest member of the first sorted set that is not empty, or waits.");
        BZPopMax = "bzpopmax" -3 SortedSet => blocking::bzpopmax .flags(WAITING.with(FAST))
            .keys(&all_but_last(Access::Take)).since("5.0.0").args("key [key ...] timeout").cost(EACH_KEY)
            .about("Removes and answers the highest member of the first sorted set that is not empty, or waits.");
        BZMPop = "bzmpop" -5 SortedSet => blocking::bzmpop .flags(WAITING.with(Flags::MOVABLE_KEYS))
            .keys(&counted(Access::Take)).since("7.0.0").cost(EACH_KEY)
            .args("timeout numkeys key [key ...] where [COUNT count]")
            .about("Removes and answers members of the first sorted set that is not empty, or waits.");
        ZAdd = "zadd" -4 SortedSet => zset::zadd
            .flags(GROW_FAST).keys(&one(Access::Adjust)).quick().since("1.2.0")
            .args("key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]")
            .cost("O(log n) in the number of members")
            .about("Sets the scores of members of a sorted set; answers how many are new.");
        ZIncrBy = "zincrby" 4 SortedSet => zset::zincrby
            .flags(GROW_FAST).keys(&one(Access::Modify)).quick().since("1.2.0")
            .args("key increment member").cost("O(log n) in the number of members")
            .about("Adds to a member's score; a missing member counts as 0.");
        ZRem = "zrem" -3 SortedSet => zset::zrem
            .flags(WRITE_FAST).keys(&one(Access::Reduce)).quick().since("1.2.0")
            .args("key member [member ...]").cost("O(log n) in the number of members")
            .about("Removes members of a sorted set; answers how many existed.");
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
            .about("Answers a member's rank, the lowest score first.");
        ZRevRank = "zrevrank" -3 SortedSet => zset::zrevrank
            .flags(READ_FAST).keys(&one(Access::Read)).quick().since("2.0.0")
            .args("key member [WITHSCORE]").cost("O(log n) in the number of members")
            .about("Answers a member's rank, the highest score first.");
        ZRange = "zrange" -4 SortedSet => zset::zrange
            .flags(READ).keys(&one(Access::Read)).since("1.2.0")
            .args("key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]")
            .cost("O(log n + m), m members answered")
            .about("Lists the members in a range of ranks, scores or names.");
        ZRangeStore = "zrangestore" -5 SortedSet => zset::zrangestore
            .flags(GROW).keys(&pair(Access::Overwrite, Access::Read)).since("6.2.0")
            .args("destination source min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]")
            .cost("O(log n + m), m members answered")
            .about("Stores a range of a sorted set under another key; answers its size.");
        ZRangeByScore = "zrangebyscore" -4 SortedSet => zset::zrangebyscore
            .flags(READ).keys(&one(Access::Read)).since("1.0.5")
            .args("key min max [WITHSCORES] [LIMIT offset count]").cost("O(log n + m), m members answered")
            .about("Lists the members with scores in a range.");
        ZRevRange = "zrevrange" -4 SortedSet => zset::zrevrange
            .flags(READ).keys(&one(Access::Read)).since("1.2.0")
            .args("key start stop [WITHSCORES]").cost("O(log n + m), m members answered")
            .about("Lists the members in a range of ranks, the highest score first.");
        ZRevRangeByScore = "zrevrangebyscore" -4 SortedSet => zset::zrevrangebyscore
            .flags(READ).keys(&one(Access::Read)).since("2.2.0")
            .args("key max min [WITHSCORES] [LIMIT offset count]").cost("O(log n + m), m members answered")
            .about("Lists the members with scores in a range, the highest first.");
        ZRangeByLex = "zrangebylex" -4 SortedSet => zset::zrangebylex
            .flags(READ).keys(&one(Access::Read)).since("2.8.9")
            .args("key min max [LIMIT offset count]").cost("O(log n + m), m members answered")
            .about("Lists the members in a range, where all scores are equal.");
        ZRevRangeByLex = "zrevrangebylex" -4 SortedSet => zset::zrevrangebylex
            .flags(READ).keys(&one(Access::Read)).since("2.8.9")
            .args("key max min [LIMIT offset count]").cost("O(log n + m), m members answered")
            .about("Lists the members in a range backwards, where all scores are equal.");
        ZRemRangeByRank = "zremrangebyrank" 4 SortedSet => zset::zremrangebyrank
            .flags(WRITE).keys(&one(Access::Reduce)).since("2.0.0")
            .args("key start stop").cost("O(log n + m), m members removed")
            .about("Removes the members in a range of ranks.");
        ZRemRangeByScore = "zremrangebyscore" 4 SortedSet => zset::zremrangebyscore
            .flags(WRITE).keys(&one(Access::Reduce)).since("1.2.0")
            .args("key min max").cost("O(log n + m), m members removed")
            .about("Removes the members with scores in a range.");
        ZRemRangeByLex = "zremrangebylex" 4 SortedSet => zset::zremrangebylex
            .flags(WRITE).keys(&one(Access::Reduce)).since("2.8.9")
            .args("key min max").cost("O(log n + m), m members removed")
            .about("Removes the members in a range, where all scores are equal.");
        ZPopMin = "zpopmin" -2 SortedSet => zset::zpopmin
            .flags(WRITE_FAST).keys(&one(Access::Take)).since("5.0.0")
            .args("key [count]").cost("O(log n + m), m members removed")
            .about("Removes and answers the members with the lowest scores.");
        ZPopMax = "zpopmax" -2 SortedSet => zset::zpopmax
            .flags(WRITE_FAST).keys(&one(Access::Take)).since("5.0.0")
            .args("key [count]").cost("O(log n + m), m members removed")
            .about("Removes and answers the members with the highest scores.");
        ZMPop = "zmpop" -4 SortedSet => zset::zmpop
            .flags(WRITE.with(Flags::MOVABLE_KEYS))
            .keys(&counted_first(Access::Take)).since("7.0.0")
            .args("numkeys key [key ...] where [COUNT count]").cost("O(log n + m), m members removed")
            .about("Removes and answers members of the first sorted set that is not empty.");
        ZRandMember = "zrandmember" -2 SortedSet => zset::zrandmember
            .flags(READ).keys(&one(Access::Read)).since("6.2.0")
            .args("key [count [WITHSCORES]]").cost("O(log n + m), m members answered").tips(&[VARIES])
            .about("Answers random members of a sorted set.");
        ZUnion = "zunion" -3 SortedSet => zset::zunion
            .flags(READ.with(Flags::MOVABLE_KEYS))
            .keys(&counted_first(Access::Read)).since("6.2.0")
            .args("numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | AGGREGATE MIN | \
                AGGREGATE MAX] [WITHSCORES]")
            .cost("O(n log n) in the number of all members")
            .about("Answers the union of sorted sets.");
        ZInter = "zinter" -3 SortedSet => zset::zinter
            .flags(READ.with(Flags::MOVABLE_KEYS))
            .keys(&counted_first(Access::Read)).since("6.2.0")
            .args("numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | AGGREGATE MIN | \
                AGGREGATE MAX] [WITHSCORES]")
            .cost("O(n log n) in the number of all members")
            .about("Answers the intersection of sorted sets.");
        ZDiff = "zdiff" -3 SortedSet => zset::zdiff
            .flags(READ.with(Flags::MOVABLE_KEYS))
            .keys(&counted_first(Access::Read)).since("6.2.0")
            .args("numkeys key [key ...] [WITHSCORES]").cost("O(n log n) in the number of all members")
            .about("Answers the difference of a sorted set and others.");
        ZUnionStore = "zunionstore" -4 SortedSet => zset::zunionstore
            .flags(GROW.with(Flags::MOVABLE_KEYS)).keys(&into_from_counted()).since("2.0.0")
            .args("destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | \
                AGGREGATE MIN | AGGREGATE MAX]")
            .cost("O(n log n) in the number of all members")
            .about("Stores the union of sorted sets; answers its size.");
        ZInterStore = "zinterstore" -4 SortedSet => zset::zinterstore
            .flags(GROW.with(Flags::MOVABLE_KEYS)).keys(&into_from_counted()).since("2.0.0")
            .args("destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | \
                AGGREGATE MIN | AGGREGATE MAX]")
            .cost("O(n log n) in the number of all members")
            .about("Stores the intersection of sorted sets; answers its size.");
        ZDiffStore = "zdiffstore" -4 SortedSet => zset::zdiffstore
            .flags(GROW.with(Flags::MOVABLE_KEYS)).keys(&into_from_counted()).since("6.2.0")
            .args("destination numkeys key [key ...]").cost("O(n log n) in the number of all members")
            .about("Stores the difference of a sorted set and others; answers its size.");
        ZInterCard = "zintercard" -3 SortedSet => zset::zintercard
            .flags(READ.with(Flags::MOVABLE_KEYS))
            .keys(&counted_first(Access::Read)).since("7.0.0")
            .args("numkeys key [key ...] [LIMIT limit]").cost("O(n log n) in the number of all members")
            .about("Counts the intersection of sorted sets, up to a limit.");
        ZScan = "zscan" -3 SortedSet => zset::zscan
            .flags(READ).keys(&one(Access::Read)).since("2.8.0")
            .args("key cursor [MATCH pattern] [COUNT count]").cost("O(1) for each member").tips(&[VARIES])
            .about("Walks over the members of a sorted set, a part at a time.");
    }

    } };
}
pub(crate) use with_containers;
