//! The list of commands. Numbers of arguments, flags, key positions and tips are
//! Redis's, because clients and cluster-aware proxies decide by them.
//!
//! In the syntax upper-case words stand for themselves, lower-case words for values,
//! brackets enclose what may be left out, bars separate alternatives, and `[x ...]`
//! behind x says that x may be repeated. `syntax.rs` reads it.

use super::define::*;
use super::{Access, Categories, Flags, Group, KeyRange, Spec};

table! {
    commands {
        Ping = "ping" -1 Connection .flags(FAST).args("[message]")
            .tips(&[ALL_SHARDS, ALL_SUCCEEDED])
            .about("Answers PONG, or the message, to show that the server is there.");
        Echo = "echo" 2 Connection .flags(ALWAYS_FAST).args("message")
            .about("Answers the message.");
        Auth = "auth" -2 Connection .flags(GREETING).args("[username] password")
            .about("Authenticates the connection.");
        Hello = "hello" -1 Connection .flags(GREETING).since("6.0.0")
            .args("[protover [AUTH username password] [SETNAME clientname]]")
            .about("Chooses the protocol's version and tells about the server.");
        Quit = "quit" -1 Connection .flags(GREETING)
            .about("Answers OK and closes the connection.");
        Reset = "reset" 1 Connection .flags(GREETING).since("6.2.0")
            .about("Puts the connection back into the state it began with.");
        Select = "select" 2 Connection .flags(ALWAYS_FAST).args("index")
            .about("Chooses a database; there is only number 0.");
        Client = "client" -2 Connection .since("2.4.0")
            .about("Holds the commands about connections.");
        Config = "config" -2 Server .since("2.0.0")
            .about("Holds the commands about settings.");
        Command = "command" -1 Server .flags(ALWAYS).since("2.8.13").tips(&[ORDER_VARIES])
            .categories_too(Categories::CONNECTION).cost("O(n) in the number of commands")
            .about("Describes all commands to clients; holds the commands about commands.");
        Info = "info" -1 Server .flags(ALWAYS).args("[section [section ...]]")
            .categories_too(Categories::DANGEROUS)
            .tips(&[VARIES, ALL_SHARDS, SPECIAL_RESPONSE])
            .about("Reports the server's state and counters as text.");
        Time = "time" 1 Server .flags(ALWAYS_FAST).since("2.6.0").tips(&[VARIES])
            .about("Tells the server's time: Unix seconds, and microseconds within the second.");
        Shutdown = "shutdown" -1 Server
            .flags(ADMIN.with(Flags::NO_MULTI).with(Flags::ALLOW_BUSY).with(Flags::ENDS_BATCH))
            .args("[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]")
            .about("Ends the server after what has arrived is answered.");
        DbSize = "dbsize" 1 Server .flags(READ_FAST).tips(&[ALL_SHARDS, SUM])
            .categories_too(Categories::KEYSPACE)
            .about("Counts the keys in the store.");
        Acl = "acl" -2 Server .since("6.0.0")
            .about("Holds the commands about users and what they may do.");
        Scrub = "scrub" -2 Server .since(OURS)
            .about("Holds the commands about looking for damaged items.");
        Object = "object" -2 Generic .since("2.2.3")
            .about("Holds the commands about how values are held.");
        Memory = "memory" -2 Server .since("4.0.0")
            .about("Holds the commands about memory.");
        SlowLog = "slowlog" -2 Server .since("2.2.12")
            .about("Holds the commands about requests that took long.");
        Script = "script" -2 Scripting .since("2.6.0")
            .about("Holds the commands about scripts.");
        Function = "function" -2 Scripting .since("7.0.0")
            .about("Holds the commands about libraries of functions, of which there are none.");
        Latency = "latency" -2 Server .since("2.8.13")
            .about("Holds the commands about what has taken long.");
        Module = "module" -2 Server .since("4.0.0")
            .about("Holds the commands about modules, of which there are none.");
        Monitor = "monitor" 1 Server .flags(ADMIN.with(Flags::ENDS_BATCH))
            .about("Shows every request that any client sends, from now on.");
        Debug = "debug" -2 Server .flags(ADMIN).args("subcommand [arg [arg ...]]")
            .about("Helps with tests of clients, if enable-debug-command allows it.");
        WaitAof = "waitaof" 4 Connection .flags(Flags::NOSCRIPT.with(Flags::NO_MULTI)).since("7.2.0")
            .args("numlocal numreplicas timeout").tips(&[ALL_SHARDS, MINIMUM])
            .about("Waits until all writes so far are on the disk; answers whether they are.");
        LastSave = "lastsave" 1 Server .flags(ALWAYS_FAST).tips(&[VARIES])
            .categories_too(Categories::ADMIN.with(Categories::DANGEROUS))
            .about("Unix seconds of the last snapshot; without one, of the server's start.");
        Save = "save" 1 Server .flags(SAVING.with(Flags::NO_MULTI).with(Flags::ENDS_BATCH))
            .cost(WHOLE_STORE)
            .about("Writes a snapshot and answers when it is there; other clients do not wait.");
        BgSave = "bgsave" -1 Server .flags(SAVING).args("[SCHEDULE]")
            .about("Has a snapshot written.");
        BgRewriteAof = "bgrewriteaof" 1 Server .flags(SAVING)
            .about("Has a snapshot written, with which the log gets shorter.");
        Role = "role" 1 Server .flags(DIRECT.with(FAST)).since("2.8.12")
            .categories_too(Categories::ADMIN.with(Categories::DANGEROUS))
            .about("Answers master, with an offset of 0 and no replicas.");
        Wait = "wait" 3 Connection .flags(Flags::NOSCRIPT).since("3.0.0")
            .args("numreplicas timeout").tips(&[ALL_SHARDS, MINIMUM])
            .about("Answers how many replicas have all writes: 0, as there are none.");
        FlushAll = "flushall" -1 Server .flags(WRITE).args("[ASYNC | SYNC]").cost(WHOLE_STORE)
            .categories_too(Categories::KEYSPACE.with(Categories::DANGEROUS))
            .tips(&[ALL_SHARDS, ALL_SUCCEEDED])
            .about("Removes every key.");
        FlushDb = "flushdb" -1 Server .flags(WRITE).args("[ASYNC | SYNC]").cost(WHOLE_STORE)
            .categories_too(Categories::KEYSPACE.with(Categories::DANGEROUS))
            .tips(&[ALL_SHARDS, ALL_SUCCEEDED])
            .about("Removes every key; the one database is all there is.");

        Get = "get" 2 String .flags(READ_FAST).keys(&one(Access::Read)).quick().args("key")
            .about("Reads a value.");
        Set = "set" -3 String .flags(GROW).keys(&one(Access::Vary)).quick()
            .args("key value [NX | XX | IFEQ ifeq-value | IFNE ifne-value | IFDEQ ifdeq-digest | \
                   IFDNE ifdne-digest] [GET] [EX seconds | PX milliseconds | \
                   EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]")
            .about("Stores a value, if asked so only where one is missing or a certain one, with an expiry.");
        SetNx = "setnx" 3 String .flags(GROW_FAST).keys(&one(Access::Create)).quick().args("key value")
            .about("Stores a value if the key is missing.");
        SetEx = "setex" 4 String .flags(GROW).keys(&one(Access::Overwrite)).quick().since("2.0.0")
            .args("key seconds value")
            .about("Stores a value that expires after so many seconds.");
        PSetEx = "psetex" 4 String .flags(GROW).keys(&one(Access::Overwrite)).quick().since("2.6.0")
            .args("key milliseconds value")
            .about("Stores a value that expires after so many milliseconds.");
        GetSet = "getset" 3 String .flags(GROW_FAST).keys(&one(Access::Modify)).quick().args("key value")
            .about("Stores a value and answers the one before; SET with GET does it too.");
        GetDel = "getdel" 2 String .flags(WRITE_FAST).keys(&one(Access::Take)).quick().since("6.2.0")
            .args("key")
            .about("Reads a value and removes the key.");
        GetEx = "getex" -2 String .flags(WRITE_FAST).keys(&one(Access::Modify)).quick().since("6.2.0")
            .args("key [EX seconds | PX milliseconds | EXAT unix-time-seconds | \
                   PXAT unix-time-milliseconds | PERSIST]")
            .about("Reads a value and sets or removes its expiry.");
        MGet = "mget" -2 String .flags(READ_FAST).keys(&every(1, Access::Read)).quick()
            .args("key [key ...]").cost(EACH_KEY).tips(&[MULTI_SHARD])
            .about("Reads several values as they are at one moment.");
        MSet = "mset" -3 String .flags(GROW).keys(&every(2, Access::Overwrite)).quick().since("1.0.1")
            .args("key value [key value ...]").cost(EACH_KEY).tips(&[MULTI_SHARD, ALL_SUCCEEDED])
            .about("Stores several values at one moment.");
        MSetNx = "msetnx" -3 String .flags(GROW).keys(&every(2, Access::Create)).quick().since("1.0.1")
            .args("key value [key value ...]").cost(EACH_KEY).tips(&[MULTI_SHARD, MINIMUM])
            .about("Stores several values at one moment if all of the keys are missing.");
        MSetEx = "msetex" -4 String .flags(GROW.with(Flags::MOVABLE_KEYS)).since("8.4.0")
            .keys(&[KeyRange {
                first: 2, last: KeyRange::COUNTED, step: 2, access: Access::Overwrite
            }])
            .args("numkeys key value [key value ...] [NX | XX] [EX seconds | PX milliseconds | \
                   EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]")
            .cost(EACH_KEY)
            .about("Stores several values with one expiry, if asked so only if all or none are there.");
        DelEx = "delex" -2 String .flags(WRITE_FAST).keys(&one(Access::RemoveIf)).since("8.4.0")
            .args("key [IFEQ ifeq-value | IFNE ifne-value | IFDEQ ifdeq-digest | \
                   IFDNE ifdne-digest]")
            .about("Removes a key, if asked so only if its value or digest is a certain one or not.");
        DelIfEq = "delifeq" 3 String .flags(WRITE_FAST).keys(&one(Access::RemoveIf))
            .since("Valkey 9.0.0").args("key value")
            .about("Removes a key if its value is this one.");
        Digest = "digest" 2 String .flags(READ_FAST).keys(&one(Access::Read)).since("8.4.0")
            .args("key").cost(EACH_BYTE)
            .about("Answers the XXH3 hash of a value as 16 hexadecimal digits.");
        IncrEx = "increx" -2 String .flags(GROW_FAST).keys(&one(Access::Modify)).since("8.8.0")
            .args("key [BYFLOAT increment | BYINT increment] [LBOUND lowerbound] \
                   [UBOUND upperbound] [SATURATE] [EX seconds | PX milliseconds | \
                   EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST] [ENX]")
            .about("Adds to a number within bounds and sets its expiry: the sum, and what was added.");
        Append = "append" 3 String .flags(GROW_FAST).keys(&one(Access::Extend)).since("2.0.0")
            .args("key value").cost(EACH_BYTE)
            .about("Adds bytes to the end of a value and answers the new length.");
        StrLen = "strlen" 2 String .flags(READ_FAST).keys(&one(Access::Look)).quick().since("2.2.0")
            .args("key")
            .about("Answers the length of a value, 0 if the key is missing.");
        GetRange = "getrange" 4 String .flags(READ).keys(&one(Access::Read)).since("2.4.0")
            .args("key start end").cost("O(n) in the length of the answer")
            .about("Reads a part of a value; negative places count from its end.");
        SubStr = "substr" 4 String .flags(READ).keys(&one(Access::Read))
            .args("key start end").cost("O(n) in the length of the answer")
            .about("The old name of GETRANGE.");
        SetRange = "setrange" 4 String .flags(GROW).keys(&one(Access::Adjust)).since("2.2.0")
            .args("key offset value").cost(EACH_BYTE)
            .about("Writes over a part of a value, filling a gap before it with zero bytes.");
        Incr = "incr" 2 String .flags(GROW_FAST).keys(&one(Access::Modify)).quick().args("key")
            .about("Adds one to an integer; a missing key counts as 0.");
        Decr = "decr" 2 String .flags(GROW_FAST).keys(&one(Access::Modify)).quick().args("key")
            .about("Takes one from an integer; a missing key counts as 0.");
        IncrBy = "incrby" 3 String .flags(GROW_FAST).keys(&one(Access::Modify)).quick()
            .args("key increment")
            .about("Adds to an integer; a missing key counts as 0.");
        DecrBy = "decrby" 3 String .flags(GROW_FAST).keys(&one(Access::Modify)).quick()
            .args("key decrement")
            .about("Takes from an integer; a missing key counts as 0.");
        IncrByFloat = "incrbyfloat" 3 String .flags(GROW_FAST).keys(&one(Access::Modify)).quick()
            .since("2.6.0").args("key float-increment")
            .about("Adds to a decimal fraction; a missing key counts as 0.");
        History = "history" -2 String .flags(READ).keys(&one(Access::Read)).since(OURS)
            .args("key [COUNT count]").cost("O(n) in the length of the values that are kept")
            .about("Lists a value's earlier versions: number, time of replacement, value.");
        Rollback = "rollback" 3 String .flags(GROW).keys(&one(Access::Modify)).since(OURS)
            .args("key version").cost("O(n) in the length of the values that are kept")
            .about("Stores an earlier version of a value anew.");

        SetBit = "setbit" 4 Bitmap .flags(GROW).keys(&one(Access::Modify)).since("2.2.0")
            .args("key offset value").cost(EACH_BYTE)
            .about("Sets one bit of a value, which grows by zero bytes as needed; answers the old bit.");
        GetBit = "getbit" 3 Bitmap .flags(READ_FAST).keys(&one(Access::Read)).since("2.2.0")
            .args("key offset")
            .about("Reads one bit of a value; behind its end all bits are 0.");
        BitCount = "bitcount" -2 Bitmap .flags(READ).keys(&one(Access::Read)).since("2.6.0")
            .args("key [start end [BYTE | BIT]]").cost(EACH_BYTE)
            .about("Counts the bits that are 1, in a value or in a part of it.");
        BitPos = "bitpos" -3 Bitmap .flags(READ).keys(&one(Access::Read)).since("2.8.7")
            .args("key bit [start [end [BYTE | BIT]]]").cost(EACH_BYTE)
            .about("Finds the first 0 or 1 in a value or in a part of it; -1 if there is none.");
        BitOp = "bitop" -4 Bitmap .flags(GROW).since("2.6.0")
            .keys(&[
                KeyRange { first: 2, last: 2, step: 1, access: Access::Overwrite },
                KeyRange { first: 3, last: -1, step: 1, access: Access::Read }
            ])
            .args("operation destkey key [key ...]").cost(EACH_BYTE)
            .about("Stores the AND, OR, XOR or NOT of values, bit by bit; answers its length.");

        HSet = "hset" -4 Hash .flags(GROW_FAST).keys(&one(Access::Adjust)).since("2.0.0")
            .args("key field value [field value ...]").cost(EACH_FIELD)
            .about("Sets fields of a hash; answers how many are new.");
        HSetNx = "hsetnx" 4 Hash .flags(GROW_FAST).keys(&one(Access::Extend)).since("2.0.0")
            .args("key field value").cost(EACH_FIELD)
            .about("Sets a field of a hash if it is missing.");
        HMSet = "hmset" -4 Hash .flags(GROW_FAST).keys(&one(Access::Adjust)).since("2.0.0")
            .args("key field value [field value ...]").cost(EACH_FIELD)
            .about("Sets fields of a hash; the old name of HSET.");
        HGet = "hget" 3 Hash .flags(READ_FAST).keys(&one(Access::Read)).since("2.0.0")
            .args("key field").cost(EACH_FIELD)
            .about("Reads a field of a hash.");
        HMGet = "hmget" -3 Hash .flags(READ_FAST).keys(&one(Access::Read)).since("2.0.0")
            .args("key field [field ...]").cost(EACH_FIELD)
            .about("Reads several fields of a hash.");
        HGetAll = "hgetall" 2 Hash .flags(READ).keys(&one(Access::Read)).since("2.0.0")
            .args("key").cost(EACH_FIELD).tips(&[ORDER_VARIES])
            .about("Reads all fields of a hash with their values.");
        HKeys = "hkeys" 2 Hash .flags(READ).keys(&one(Access::Read)).since("2.0.0")
            .args("key").cost(EACH_FIELD).tips(&[ORDER_VARIES])
            .about("Lists the fields of a hash.");
        HVals = "hvals" 2 Hash .flags(READ).keys(&one(Access::Read)).since("2.0.0")
            .args("key").cost(EACH_FIELD).tips(&[ORDER_VARIES])
            .about("Lists the values of a hash's fields.");
        HLen = "hlen" 2 Hash .flags(READ_FAST).keys(&one(Access::Look)).since("2.0.0")
            .args("key")
            .about("Counts the fields of a hash.");
        HExists = "hexists" 3 Hash .flags(READ_FAST).keys(&one(Access::Look)).since("2.0.0")
            .args("key field").cost(EACH_FIELD)
            .about("Tells whether a hash has a field.");
        HStrLen = "hstrlen" 3 Hash .flags(READ_FAST).keys(&one(Access::Look)).since("3.2.0")
            .args("key field").cost(EACH_FIELD)
            .about("Answers the length of a field's value, 0 if the field is missing.");
        HDel = "hdel" -3 Hash .flags(WRITE_FAST).keys(&one(Access::Reduce)).since("2.0.0")
            .args("key field [field ...]").cost(EACH_FIELD)
            .about("Removes fields of a hash and answers how many there were.");
        HIncrBy = "hincrby" 4 Hash .flags(GROW_FAST).keys(&one(Access::Modify)).since("2.0.0")
            .args("key field increment").cost(EACH_FIELD)
            .about("Adds to the integer that a field has; a missing field counts as 0.");
        HIncrByFloat = "hincrbyfloat" 4 Hash .flags(GROW_FAST).keys(&one(Access::Modify))
            .since("2.6.0").args("key field increment").cost(EACH_FIELD)
            .about("Adds to the decimal fraction that a field has; a missing field counts as 0.");
        HScan = "hscan" -3 Hash .flags(READ).keys(&one(Access::Read)).since("2.8.0")
            .args("key cursor [MATCH pattern] [COUNT count] [NOVALUES]").cost(EACH_FIELD)
            .tips(&[VARIES])
            .about("Walks over the fields of a hash, here all of them in one call.");

        Del = "del" -2 Generic .flags(WRITE).keys(&every(1, Access::Remove)).quick()
            .args("key [key ...]").cost(EACH_KEY).tips(&[MULTI_SHARD, SUM])
            .about("Removes keys and answers how many there were.");
        Unlink = "unlink" -2 Generic .flags(WRITE_FAST).keys(&every(1, Access::Remove)).quick()
            .since("4.0.0").args("key [key ...]").cost(EACH_KEY).tips(&[MULTI_SHARD, SUM])
            .about("Removes keys as DEL does, which here never makes others wait either.");
        Exists = "exists" -2 Generic .flags(READ_FAST).keys(&every(1, Access::Look)).quick()
            .args("key [key ...]").cost(EACH_KEY).tips(&[MULTI_SHARD, SUM])
            .about("Counts which of the keys are there; a key given twice counts twice.");
        Touch = "touch" -2 Generic .flags(READ_FAST).keys(&every(1, Access::Look)).quick().since("3.2.1")
            .args("key [key ...]").cost(EACH_KEY).tips(&[MULTI_SHARD, SUM])
            .about("Counts as an access to the keys and answers how many are there.");
        Type = "type" 2 Generic .flags(READ_FAST).keys(&one(Access::Look)).quick().args("key")
            .about("Answers string or hash, or none if the key is missing.");
        Ttl = "ttl" 2 Generic .flags(READ_FAST).keys(&one(Access::Read)).quick().args("key")
            .tips(&[VARIES])
            .about("Seconds until the key expires; -1 for never, -2 for no such key.");
        PTtl = "pttl" 2 Generic .flags(READ_FAST).keys(&one(Access::Read)).quick().since("2.6.0")
            .args("key").tips(&[VARIES])
            .about("Milliseconds until the key expires; -1 for never, -2 for no such key.");
        Expire = "expire" -3 Generic .flags(WRITE_FAST).keys(&one(Access::Adjust)).quick()
            .args("key seconds [NX | XX | GT | LT]")
            .about("Lets a key expire after so many seconds.");
        PExpire = "pexpire" -3 Generic .flags(WRITE_FAST).keys(&one(Access::Adjust)).quick()
            .since("2.6.0").args("key milliseconds [NX | XX | GT | LT]")
            .about("Lets a key expire after so many milliseconds.");
        ExpireAt = "expireat" -3 Generic .flags(WRITE_FAST).keys(&one(Access::Adjust)).quick()
            .since("1.2.0").args("key unix-time-seconds [NX | XX | GT | LT]")
            .about("Lets a key expire at a time in Unix seconds.");
        PExpireAt = "pexpireat" -3 Generic .flags(WRITE_FAST).keys(&one(Access::Adjust)).quick()
            .since("2.6.0").args("key unix-time-milliseconds [NX | XX | GT | LT]")
            .about("Lets a key expire at a time in Unix milliseconds.");
        ExpireTime = "expiretime" 2 Generic .flags(READ_FAST).keys(&one(Access::Read)).quick()
            .since("7.0.0").args("key")
            .about("Unix seconds at which the key expires; -1 for never, -2 for no such key.");
        PExpireTime = "pexpiretime" 2 Generic .flags(READ_FAST).keys(&one(Access::Read)).quick()
            .since("7.0.0").args("key")
            .about("Unix milliseconds at which the key expires; -1 for never, -2 for no such key.");
        Persist = "persist" 2 Generic .flags(WRITE_FAST).keys(&one(Access::Adjust)).quick()
            .since("2.2.0").args("key")
            .about("Takes a key's expiry away.");
        Pin = "pin" -2 Generic .flags(WRITE_FAST).keys(&every(1, Access::Adjust)).quick().since(OURS)
            .args("key [key ...]").cost(EACH_KEY)
            .about("Keeps keys from being evicted until they are unpinned; answers how many were not pinned.");
        Unpin = "unpin" -2 Generic .flags(WRITE_FAST).keys(&every(1, Access::Adjust)).quick().since(OURS)
            .args("key [key ...]").cost(EACH_KEY)
            .about("Lets keys be evicted again and answers how many were pinned.");
        Pinned = "pinned" -1 Generic .flags(READ).since(OURS).categories_too(Categories::DANGEROUS)
            .args("[AFTER key] [COUNT count]").cost("O(count)").tips(&[ALL_SHARDS])
            .about("Lists pinned keys in the order of their bytes, 100 or so many of them.");
        Scan = "scan" -2 Generic .flags(READ).since("2.8.0")
            .args("cursor [MATCH pattern] [COUNT count] [TYPE type]")
            .cost("O(count) for each call").tips(&[VARIES, SPECIAL_REQUEST, SPECIAL_RESPONSE])
            .about("Walks over all keys, some at a call; what is there throughout is found.");
        Keys = "keys" 2 Generic .flags(READ).args("pattern").cost(WHOLE_STORE)
            .categories_too(Categories::DANGEROUS).tips(&[ALL_SHARDS, ORDER_VARIES])
            .about("Lists all keys that match a glob pattern.");
        RandomKey = "randomkey" 1 Generic .flags(READ).tips(&[ALL_SHARDS, VARIES])
            .about("Answers some key of the store.");
        Rename = "rename" 3 Generic .flags(WRITE).keys(&pair(Access::Take, Access::Overwrite))
            .args("key newkey")
            .about("Gives a value and its expiry another key, over any value that key had.");
        RenameNx = "renamenx" 3 Generic .flags(WRITE_FAST)
            .keys(&pair(Access::Take, Access::Create)).args("key newkey")
            .about("Gives a value another key if that one is missing.");
        Copy = "copy" -3 Generic .flags(GROW).keys(&pair(Access::Read, Access::Overwrite))
            .since("6.2.0").args("source destination [DB destination-db] [REPLACE]")
            .cost(EACH_BYTE)
            .about("Copies a value and its expiry to another key.");
        Dump = "dump" 2 Generic .flags(READ).keys(&one(Access::Read)).since("2.6.0")
            .args("key").cost(EACH_BYTE).tips(&[VARIES])
            .about("Answers a value as bytes that RESTORE takes, here and in Redis.");
        Restore = "restore" -4 Generic .flags(GROW).keys(&one(Access::Overwrite)).since("2.6.0")
            .categories_too(Categories::DANGEROUS).cost(EACH_BYTE)
            .args("key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] \
                   [FREQ frequency]")
            .about("Stores a value that DUMP gave, here or in Redis.");
        WaitKey = "waitkey" -3 Generic .flags(READ.with(BLOCKING))
            .keys(&one(Access::Read)).since(OURS).args("key timeout-ms [VALUE expected]")
            .tips(&[VARIES])
            .about("Waits until a key changes or has a value: 1, or 0 after the time; 0 ms is no limit.");

        Multi = "multi" 1 Transactions .flags(FRAME.with(Flags::ENDS_BATCH)).since("1.2.0")
            .about("Begins a transaction: the commands that follow are queued.");
        Exec = "exec" 1 Transactions .flags(DIRECT.with(Flags::SKIP_SLOWLOG)).since("1.2.0")
            .cost("the sum of what is queued")
            .about("Runs what is queued at one moment, unless a watched key has changed.");
        Discard = "discard" 1 Transactions .flags(FRAME).since("2.0.0")
            .cost("O(n) in the number of queued commands")
            .about("Drops what is queued and what is watched.");
        Watch = "watch" -2 Transactions .flags(FRAME).keys(&every(1, Access::Look))
            .since("2.2.0").args("key [key ...]").cost(EACH_KEY)
            .about("Lets the next transaction run only if these keys have not changed till then.");
        Unwatch = "unwatch" 1 Transactions .flags(FRAME).since("2.2.0")
            .cost("O(n) in the number of watched keys")
            .about("Watches no key any more.");

        Publish = "publish" 3 PubSub .flags(MESSAGES.with(FAST)).since("2.0.0")
            .args("channel message").cost("O(n + m): n subscribers of the channel, m patterns of all")
            .about("Sends a message to all who listen to a channel and answers how many these are.");
        Subscribe = "subscribe" -2 PubSub .flags(SUBSCRIBING).since("2.0.0")
            .args("channel [channel ...]").cost(EACH_CHANNEL)
            .about("Listens to channels.");
        Unsubscribe = "unsubscribe" -1 PubSub .flags(MESSAGES.with(Flags::NOSCRIPT)).since("2.0.0")
            .args("[channel [channel ...]]").cost(EACH_CHANNEL)
            .about("Listens to channels no more; without a name to none at all.");
        PSubscribe = "psubscribe" -2 PubSub .flags(SUBSCRIBING).since("2.0.0")
            .args("pattern [pattern ...]").cost(EACH_CHANNEL)
            .about("Listens to all channels whose names match glob patterns.");
        PUnsubscribe = "punsubscribe" -1 PubSub .flags(MESSAGES.with(Flags::NOSCRIPT)).since("2.0.0")
            .args("[pattern [pattern ...]]").cost(EACH_CHANNEL)
            .about("Listens to patterns no more; without one to none at all.");
        PubSub = "pubsub" -2 PubSub .since("2.8.0")
            .about("Holds the commands about who listens.");

        Eval = "eval" -3 Scripting .flags(SCRIPT).keys(&counted(Access::Script)).since("2.6.0")
            .categories_too(Categories::SCRIPTING).cost(BY_SCRIPT)
            .args("script numkeys [key [key ...]] [arg [arg ...]]")
            .about("Runs a Lua script at one moment.");
        EvalRo = "eval_ro" -3 Scripting .flags(SCRIPT_READ).keys(&counted(Access::Read))
            .since("7.0.0").categories_too(Categories::SCRIPTING).cost(BY_SCRIPT)
            .args("script numkeys [key [key ...]] [arg [arg ...]]")
            .about("Runs a Lua script that may only read.");
        EvalSha = "evalsha" -3 Scripting .flags(SCRIPT).keys(&counted(Access::Script))
            .since("2.6.0").categories_too(Categories::SCRIPTING).cost(BY_SCRIPT)
            .args("sha1 numkeys [key [key ...]] [arg [arg ...]]")
            .about("Runs a script that is in the cache, by the SHA1 digest of its text.");
        EvalShaRo = "evalsha_ro" -3 Scripting .flags(SCRIPT_READ).keys(&counted(Access::Read))
            .since("7.0.0").categories_too(Categories::SCRIPTING).cost(BY_SCRIPT)
            .args("sha1 numkeys [key [key ...]] [arg [arg ...]]")
            .about("Runs a script of the cache that may only read.");
    }

    subcommands {
        ClientId of Client = "client|id" 2 Connection .flags(DIRECT).since("5.0.0")
            .about("Answers the connection's number, which no other connection ever has.");
        ClientGetName of Client = "client|getname" 2 Connection .flags(DIRECT).since("2.6.9")
            .about("Answers the connection's name.");
        ClientSetName of Client = "client|setname" 3 Connection .flags(DIRECT).since("2.6.9")
            .args("connection-name")
            .about("Names the connection.");
        ClientSetInfo of Client = "client|setinfo" 4 Connection .flags(DIRECT).since("7.2.0")
            .args("LIB-NAME libname | LIB-VER libver")
            .about("Notes the name or version of the client's library.");
        ClientInfo of Client = "client|info" 2 Connection .flags(DIRECT).since("6.2.0")
            .tips(&[VARIES])
            .about("Describes the connection.");
        ClientList of Client = "client|list" -2 Connection .flags(ADMIN).since("2.4.0")
            .args("[TYPE type] [ID client-id [client-id ...]]").tips(&[VARIES])
            .cost("O(n) in the number of connections")
            .about("Describes all connections.");
        ClientKill of Client = "client|kill" -3 Connection .flags(ADMIN).since("2.4.0")
            .args("address | filter value [filter value ...]")
            .cost("O(n) in the number of connections")
            .about("Closes connections, by address or by ID, ADDR, LADDR, TYPE, USER, MAXAGE and SKIPME.");
        ClientNoEvict of Client = "client|no-evict" 3 Connection .flags(ADMIN).since("7.0.0")
            .args("ON | OFF")
            .about("Spares the connection when connections are closed for want of memory.");
        ClientNoTouch of Client = "client|no-touch" 3 Connection .flags(DIRECT).since("7.2.0")
            .args("ON | OFF")
            .about("Keeps the connection's reads from counting as accesses to keys.");
        ClientPause of Client = "client|pause" -3 Connection
            .flags(ADMIN.with(Flags::ENDS_BATCH)).since("3.0.0").args("timeout [WRITE | ALL]")
            .about("Has requests of all connections wait, or those that may write, for some milliseconds.");
        ClientUnpause of Client = "client|unpause" 2 Connection .flags(ADMIN).since("6.2.0")
            .cost("O(n) in the number of connections")
            .about("Lets the requests run that CLIENT PAUSE has kept waiting.");
        ClientReply of Client = "client|reply" 3 Connection
            .flags(DIRECT.with(Flags::ENDS_BATCH)).since("3.2.0").args("ON | OFF | SKIP")
            .about("Answers requests, or none from now on, or not the next one.");
        ClientUnblock of Client = "client|unblock" -3 Connection .flags(ADMIN).since("5.0.0")
            .args("client-id [TIMEOUT | ERROR]").cost("O(log n) in the number of connections")
            .about("Ends another connection's wait for a key, as if its time were over, or by an error.");
        ClientTracking of Client = "client|tracking" -3 Connection
            .flags(DIRECT.with(Flags::ENDS_BATCH)).since("6.0.0")
            .args("ON | OFF [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] \
                   [NOLOOP]")
            .cost("O(1), and O(n) in the number of prefixes")
            .about("Tells the connection, from now on, when a key changes that it has read.");
        ClientCaching of Client = "client|caching" 3 Connection .flags(DIRECT).since("6.0.0")
            .args("YES | NO")
            .about("Makes the next request an exception to OPTIN or OPTOUT of CLIENT TRACKING.");
        ClientGetRedir of Client = "client|getredir" 2 Connection .flags(DIRECT).since("6.0.0")
            .about("Answers the connection that is told in this one's place by CLIENT TRACKING.");
        ClientTrackingInfo of Client = "client|trackinginfo" 2 Connection .flags(DIRECT).since("6.2.0")
            .about("Describes what the connection has asked for by CLIENT TRACKING.");
        ClientHelp of Client = "client|help" 2 Connection .flags(ALWAYS).since("5.0.0")
            .about("Lists the subcommands.");
        ConfigGet of Config = "config|get" -3 Server .flags(ADMIN).since("2.0.0")
            .args("parameter [parameter ...]").cost("O(n) in the number of settings")
            .about("Answers the settings whose names match the glob patterns.");
        ConfigSet of Config = "config|set" -4 Server .flags(ADMIN.with(Flags::ENDS_BATCH)).since("2.0.0")
            .args("parameter value [parameter value ...]").tips(&[ALL_NODES, ALL_SUCCEEDED])
            .cost("O(n) in the number of settings")
            .about("Changes settings while the server runs, all of them or none.");
        ConfigResetStat of Config = "config|resetstat" 2 Server .flags(ADMIN).since("2.0.0")
            .tips(&[ALL_NODES, ALL_SUCCEEDED])
            .about("Puts the counters that INFO shows back to zero.");
        ConfigRewrite of Config = "config|rewrite" 2 Server .flags(ADMIN).since("2.8.0")
            .tips(&[ALL_NODES, ALL_SUCCEEDED])
            .about("Writes the settings that have been changed into the configuration file.");
        ConfigHelp of Config = "config|help" 2 Server .flags(ALWAYS).since("5.0.0")
            .about("Lists the subcommands.");
        AclCat of Acl = "acl|cat" -2 Server .flags(DIRECT).since("6.0.0").args("[category]")
            .about("Lists the categories of commands, or the commands of one.");
        AclDelUser of Acl = "acl|deluser" -3 Server .flags(USERS).since("6.0.0")
            .args("username [username ...]").tips(&[ALL_NODES, ALL_SUCCEEDED])
            .cost("O(n) in the number of users and connections")
            .about("Removes users and closes their connections.");
        AclDryRun of Acl = "acl|dryrun" -4 Server .flags(ADMIN).since("7.0.0")
            .args("username command [arg [arg ...]]")
            .about("Tells whether a user may run a command, without running it.");
        AclGenPass of Acl = "acl|genpass" -2 Server .flags(DIRECT).since("6.0.0").args("[bits]")
            .about("Makes a random password of hexadecimal digits.");
        AclGetUser of Acl = "acl|getuser" 3 Server .flags(ADMIN).since("6.0.0").args("username")
            .cost("O(n) in the number of rules")
            .about("Describes what a user may do.");
        AclHelp of Acl = "acl|help" 2 Server .flags(ALWAYS).since("6.0.0")
            .about("Lists the subcommands.");
        AclList of Acl = "acl|list" 2 Server .flags(ADMIN).since("6.0.0")
            .cost("O(n) in the number of users")
            .about("Describes all users, in the form of an ACL file.");
        AclLoad of Acl = "acl|load" 2 Server .flags(USERS).since("6.0.0")
            .cost("O(n) in the number of users and connections")
            .about("Reads the ACL file anew: its users take the place of all others.");
        AclLog of Acl = "acl|log" -2 Server .flags(ADMIN).since("6.0.0").args("[count | RESET]")
            .cost("O(n) in the number of entries")
            .about("Lists what was denied lately: wrong passwords, commands, keys, channels.");
        AclSave of Acl = "acl|save" 2 Server .flags(ADMIN).since("6.0.0")
            .tips(&[ALL_NODES, ALL_SUCCEEDED]).cost("O(n) in the number of users")
            .about("Writes all users to the ACL file.");
        AclSetUser of Acl = "acl|setuser" -3 Server .flags(USERS).since("6.0.0")
            .args("username [rule [rule ...]]").tips(&[ALL_NODES, ALL_SUCCEEDED])
            .cost("O(n) in the number of rules and connections")
            .about("Makes a user or changes what one may do.");
        AclUsers of Acl = "acl|users" 2 Server .flags(ADMIN).since("6.0.0")
            .cost("O(n) in the number of users")
            .about("Lists the names of all users.");
        AclWhoAmI of Acl = "acl|whoami" 2 Server .flags(DIRECT).since("6.0.0")
            .about("Tells the name of the user that the connection has.");
        ScrubStart of Scrub = "scrub|start" -2 Server .flags(ADMIN).since(OURS)
            .args("[RATE items-per-second]")
            .about("Begins to check all items against their checksums, in the background.");
        ScrubStatus of Scrub = "scrub|status" 2 Server .flags(ALWAYS).since(OURS)
            .about("Answers how far the check has come, and the keys of damaged items.");
        ScrubStop of Scrub = "scrub|stop" 2 Server .flags(ADMIN).since(OURS)
            .about("Ends the check before its end.");
        ScrubHelp of Scrub = "scrub|help" 2 Server .flags(ALWAYS).since(OURS)
            .about("Lists the subcommands.");
        PubSubChannels of PubSub = "pubsub|channels" -2 PubSub .flags(MESSAGES).since("2.8.0")
            .args("[pattern]").cost("O(n) in the number of channels")
            .about("Lists the channels that somebody listens to.");
        PubSubNumSub of PubSub = "pubsub|numsub" -2 PubSub .flags(MESSAGES).since("2.8.0")
            .args("[channel [channel ...]]").cost(EACH_CHANNEL)
            .about("Counts who listens to each of these channels.");
        PubSubNumPat of PubSub = "pubsub|numpat" 2 PubSub .flags(MESSAGES).since("2.8.0")
            .about("Counts the patterns that somebody listens to.");
        PubSubHelp of PubSub = "pubsub|help" 2 PubSub .flags(ALWAYS).since("6.2.0")
            .about("Lists the subcommands.");
        ObjectEncoding of Object = "object|encoding" 3 Generic .flags(READ).since("2.2.3")
            .keys(&second(Access::Look)).args("key").tips(&[VARIES])
            .about("Answers int, embstr, raw or listpack, by what Redis calls such values.");
        ObjectFreq of Object = "object|freq" 3 Generic .flags(READ).since("4.0.0")
            .keys(&second(Access::Look)).args("key").tips(&[VARIES])
            .about("Tells about the logarithm of how often a key was used, under the policies that go by that.");
        ObjectIdleTime of Object = "object|idletime" 3 Generic .flags(READ).since("2.2.3")
            .keys(&second(Access::Look)).args("key").tips(&[VARIES])
            .about("Tells for how many seconds a key was not used, at least.");
        ObjectRefCount of Object = "object|refcount" 3 Generic .flags(READ).since("2.2.3")
            .keys(&second(Access::Look)).args("key").tips(&[VARIES])
            .about("Answers 1 for each key.");
        ObjectHelp of Object = "object|help" 2 Generic .flags(ALWAYS).since("6.2.0")
            .about("Lists the subcommands.");
        SlowLogGet of SlowLog = "slowlog|get" -2 Server .flags(WATCHING).since("2.2.12")
            .args("[count]").tips(&[ALL_NODES, VARIES]).cost("O(n) in the number of requests")
            .about("Lists the last requests that took long: number, time, duration, who asked what.");
        SlowLogLen of SlowLog = "slowlog|len" 2 Server .flags(WATCHING).since("2.2.12")
            .tips(&[ALL_NODES, SUM, VARIES])
            .about("Counts the requests that SLOWLOG GET can list.");
        SlowLogReset of SlowLog = "slowlog|reset" 2 Server .flags(WATCHING).since("2.2.12")
            .tips(&[ALL_NODES, ALL_SUCCEEDED])
            .about("Forgets the requests that took long.");
        SlowLogHelp of SlowLog = "slowlog|help" 2 Server .flags(ALWAYS).since("6.2.0")
            .about("Lists the subcommands.");
        MemoryUsage of Memory = "memory|usage" -3 Server .flags(READ).since("4.0.0")
            .keys(&second(Access::Look)).args("key [SAMPLES count]")
            .about("Answers the bytes that a key takes with its value, exactly.");
        MemoryStats of Memory = "memory|stats" 2 Server .since("4.0.0")
            .tips(&[VARIES, ALL_SHARDS, SPECIAL_RESPONSE])
            .about("Answers what the items and all else take.");
        MemoryDoctor of Memory = "memory|doctor" 2 Server .since("4.0.0")
            .tips(&[VARIES, ALL_SHARDS, SPECIAL_RESPONSE])
            .about("Says what is out of the ordinary about memory.");
        MemoryPurge of Memory = "memory|purge" 2 Server .since("4.0.0")
            .tips(&[ALL_SHARDS, ALL_SUCCEEDED])
            .about("Frees what removed items have left, as far as no command looks at them.");
        MemoryHelp of Memory = "memory|help" 2 Server .flags(ALWAYS).since("4.0.0")
            .about("Lists the subcommands.");
        LatencyLatest of Latency = "latency|latest" 2 Server .flags(ADMIN).since("2.8.13")
            .tips(&[VARIES, ALL_NODES, SPECIAL_RESPONSE])
            .about("Lists what has taken long: when last, how long then, how long at most.");
        LatencyHistory of Latency = "latency|history" 3 Server .flags(ADMIN).since("2.8.13")
            .args("event").tips(&[VARIES, ALL_NODES, SPECIAL_RESPONSE])
            .about("Lists the last times of an event, one a second.");
        LatencyHistogram of Latency = "latency|histogram" -2 Server .flags(ADMIN).since("7.0.0")
            .args("[command [command ...]]").tips(&[VARIES, ALL_NODES, SPECIAL_RESPONSE])
            .cost("O(n) in the number of commands")
            .about("Tells how many calls of commands took no longer than so many microseconds.");
        LatencyReset of Latency = "latency|reset" -2 Server .flags(ADMIN).since("2.8.13")
            .args("[event [event ...]]").tips(&[ALL_NODES, ALL_SUCCEEDED])
            .about("Forgets the times of events.");
        LatencyGraph of Latency = "latency|graph" 3 Server .flags(ADMIN).since("2.8.13")
            .args("event").tips(&[VARIES, ALL_NODES, SPECIAL_RESPONSE])
            .about("Draws the last times of an event.");
        LatencyDoctor of Latency = "latency|doctor" 2 Server .flags(ADMIN).since("2.8.13")
            .tips(&[VARIES, ALL_NODES, SPECIAL_RESPONSE])
            .about("Says what the times mean.");
        LatencyHelp of Latency = "latency|help" 2 Server .flags(ALWAYS).since("2.8.13")
            .about("Lists the subcommands.");
        ModuleList of Module = "module|list" 2 Server .flags(Flags::ADMIN.with(Flags::NOSCRIPT))
            .since("4.0.0").tips(&[ORDER_VARIES])
            .about("Lists the modules that are loaded: none.");
        ModuleHelp of Module = "module|help" 2 Server .flags(ALWAYS).since("5.0.0")
            .about("Lists the subcommands.");
        ScriptExists of Script = "script|exists" -3 Scripting .flags(Flags::NOSCRIPT).since("2.6.0")
            .categories_too(Categories::SCRIPTING).args("sha1 [sha1 ...]")
            .tips(&[ALL_SHARDS, "response_policy:agg_logical_and"])
            .cost("O(n) in the number of digests")
            .about("Tells which scripts are in the cache.");
        ScriptFlush of Script = "script|flush" -2 Scripting .flags(Flags::NOSCRIPT).since("2.6.0")
            .categories_too(Categories::SCRIPTING).args("[ASYNC | SYNC]")
            .tips(&[ALL_NODES, ALL_SUCCEEDED]).cost("O(n) in the number of scripts")
            .about("Empties the cache of scripts.");
        ScriptKill of Script = "script|kill" 2 Scripting
            .flags(Flags::NOSCRIPT.with(Flags::ALLOW_BUSY)).since("2.6.0")
            .categories_too(Categories::SCRIPTING)
            .tips(&[ALL_SHARDS, "response_policy:one_succeeded"])
            .about("Ends the scripts that run and have written nothing yet.");
        ScriptLoad of Script = "script|load" 3 Scripting
            .flags(Flags::NOSCRIPT.with(Flags::STALE)).since("2.6.0")
            .categories_too(Categories::SCRIPTING).args("script")
            .tips(&[ALL_NODES, ALL_SUCCEEDED]).cost("O(n) in the length of the script")
            .about("Puts a script into the cache and answers its digest.");
        ScriptHelp of Script = "script|help" 2 Scripting .flags(ALWAYS).since("5.0.0")
            .categories_too(Categories::SCRIPTING)
            .about("Lists the subcommands.");
        FunctionFlush of Function = "function|flush" -2 Scripting .flags(WRITE.with(Flags::NOSCRIPT))
            .since("7.0.0").categories_too(Categories::SCRIPTING).args("[ASYNC | SYNC]")
            .tips(&[ALL_SHARDS, ALL_SUCCEEDED]).about("Removes all libraries: there are none.");
        FunctionList of Function = "function|list" -2 Scripting .flags(Flags::NOSCRIPT).since("7.0.0")
            .categories_too(Categories::SCRIPTING).args("[LIBRARYNAME library-name-pattern] [WITHCODE]")
            .tips(&[ORDER_VARIES]).about("Lists the libraries: none.");
        FunctionStats of Function = "function|stats" 2 Scripting
            .flags(Flags::NOSCRIPT.with(Flags::ALLOW_BUSY)).since("7.0.0")
            .categories_too(Categories::SCRIPTING).tips(&[VARIES, ALL_SHARDS, SPECIAL_RESPONSE])
            .about("Tells which function runs, and how many there are: none.");
        FunctionKill of Function = "function|kill" 2 Scripting
            .flags(Flags::NOSCRIPT.with(Flags::ALLOW_BUSY)).since("7.0.0")
            .categories_too(Categories::SCRIPTING).tips(&[ALL_SHARDS, "response_policy:one_succeeded"])
            .about("Ends the function that runs: none does.");
        FunctionHelp of Function = "function|help" 2 Scripting .flags(ALWAYS).since("7.0.0")
            .categories_too(Categories::SCRIPTING).about("Lists the subcommands.");
        CommandCount of Command = "command|count" 2 Server .flags(ALWAYS).since("2.8.13")
            .categories_too(Categories::CONNECTION)
            .about("Counts the commands.");
        CommandDocs of Command = "command|docs" -2 Server .flags(ALWAYS).since("7.0.0")
            .categories_too(Categories::CONNECTION).args("[command-name [command-name ...]]")
            .tips(&[ORDER_VARIES]).cost("O(n) in the number of commands asked for")
            .about("Documents commands, for people and command-line tools.");
        CommandGetKeys of Command = "command|getkeys" -3 Server .flags(ALWAYS).since("2.8.13")
            .categories_too(Categories::CONNECTION).args("command [arg ...]")
            .cost("O(n) in the number of arguments")
            .about("Answers which arguments of a request are keys.");
        CommandGetKeysAndFlags of Command = "command|getkeysandflags" -3 Server .flags(ALWAYS)
            .categories_too(Categories::CONNECTION).since("7.0.0").args("command [arg ...]")
            .cost("O(n) in the number of arguments")
            .about("Lists the keys of a request, and what happens to each.");
        CommandHelp of Command = "command|help" 2 Server .flags(ALWAYS).since("5.0.0")
            .categories_too(Categories::CONNECTION)
            .about("Lists the subcommands.");
        CommandInfo of Command = "command|info" -2 Server .flags(ALWAYS).since("2.8.13")
            .categories_too(Categories::CONNECTION).args("[command-name [command-name ...]]")
            .tips(&[ORDER_VARIES]).cost("O(n) in the number of commands asked for")
            .about("Describes commands to clients.");
        CommandList of Command = "command|list" -2 Server .flags(ALWAYS).since("7.0.0")
            .categories_too(Categories::CONNECTION)
            .args("[FILTERBY MODULE module-name | FILTERBY ACLCAT category | \
                   FILTERBY PATTERN pattern]")
            .tips(&[ORDER_VARIES]).cost("O(n) in the number of commands")
            .about("Lists the names of the commands.");
    }
}
