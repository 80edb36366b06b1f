//! The list of commands: one entry per command, with its name, arity, group, handler, flags, keys, cost and text, and
//! whether the command is timed. Arity, flags, key positions and tips must be Redis's, because clients and
//! cluster-aware proxies depend on them.
//!
//! `quick()` marks a command that is timed only with many arguments. `quick_below(n)` marks a command that is timed
//! from `n` arguments on, because an argument may ask for much work. All other commands are always timed. The handler
//! is a function of `crate::commands`, which expands the list a second time: the specifications must be in a layer
//! below the handlers, because access control and the state of connections use the specifications.
//!
//! In the syntax, upper-case words stand for themselves and lower-case words for values. Brackets enclose optional
//! parts, `<` and `>` enclose required parts, bars separate alternatives, and `[x ...]` after x means that x may be
//! repeated. `syntax.rs` parses it.

use super::define::*;
use super::{Access, Categories, Flags, Group, KeyRange, Spec};

/// Passes the complete list, with the commands of the other files and the subcommands, to the macro `make`.
macro_rules! all_commands {
    ($make:ident) => { $crate::table::with_containers! { $make
    commands {
        Ping = "ping" -1 Connection => connection::ping .flags(FAST).args("[message]")
            .tips(&[ALL_SHARDS, ALL_SUCCEEDED])
            .about("Answers PONG, or the message.");
        Echo = "echo" 2 Connection => connection::echo .flags(ALWAYS_FAST).args("message")
            .about("Answers the message.");
        Auth = "auth" -2 Connection => connection::auth .flags(GREETING).args("[username] password")
            .about("Authenticates the connection.");
        Hello = "hello" -1 Connection => connection::hello .flags(GREETING).since("6.0.0")
            .args("[protover [AUTH username password] [SETNAME clientname]]")
            .about("Selects the protocol version and describes the server.");
        Quit = "quit" -1 Connection => connection::quit .flags(GREETING)
            .about("Answers OK and closes the connection.");
        Reset = "reset" 1 Connection => connection::reset .flags(GREETING).since("6.2.0")
            .about("Resets the connection to its initial state.");
        Select = "select" 2 Connection => database::select .flags(ALWAYS_FAST).args("index")
            .about("Selects the database of later requests.");
        Client = "client" -2 Connection => command::holder .since("2.4.0")
            .about("Holds the commands about connections.");
        Config = "config" -2 Server => command::holder .since("2.0.0")
            .about("Holds the commands about settings.");
        Command = "command" -1 Server => command::command
            .flags(ALWAYS).since("2.8.13").tips(&[ORDER_VARIES])
            .categories_too(Categories::CONNECTION).cost("O(n) in the number of commands")
            .about("Describes all commands; holds the commands about commands.");
        Info = "info" -1 Server => info::info .flags(ALWAYS).args("[section [section ...]]")
            .categories_too(Categories::DANGEROUS)
            .tips(&[VARIES, ALL_SHARDS, SPECIAL_RESPONSE])
            .about("Reports the server's state and counters.");
        Time = "time" 1 Server => process::time .flags(ALWAYS_FAST).since("2.6.0").tips(&[VARIES])
            .about("Answers the server's time: Unix seconds, and microseconds within the second.");
        Shutdown = "shutdown" -1 Server => process::shutdown
            .flags(ADMIN.with(Flags::NO_MULTI).with(Flags::ALLOW_BUSY).with(Flags::ENDS_BATCH))
            .args("[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]")
            .about("Shuts the server down once all received requests are answered.");
        DbSize = "dbsize" 1 Server => process::dbsize .flags(READ_FAST).tips(&[ALL_SHARDS, SUM])
            .categories_too(Categories::KEYSPACE)
            .about("Counts the keys of the database.");
        Acl = "acl" -2 Server => command::holder .since("6.0.0")
            .about("Holds the commands about users and their permissions.");
        Scrub = "scrub" -2 Server => command::holder .since(OURS)
            .about("Holds the commands about looking for damaged items.");
        Object = "object" -2 Generic => command::holder .since("2.2.3")
            .about("Holds the commands about how values are held.");
        Memory = "memory" -2 Server => command::holder .since("4.0.0")
            .about("Holds the commands about memory.");
        LolWut = "lolwut" -1 Server => lolwut::lolwut .flags(READ_FAST).since("5.0.0")
            .args("[VERSION version]")
            .about("Shows a picture and the version.");
        SlowLog = "slowlog" -2 Server => command::holder .since("2.2.12")
            .about("Holds the commands about requests that took long.");
        Script = "script" -2 Scripting => command::holder .since("2.6.0")
            .about("Holds the commands about scripts.");
        Function = "function" -2 Scripting => command::holder .since("7.0.0")
            .about("Holds the commands about libraries of functions, of which there are none.");
        Latency = "latency" -2 Server => command::holder .since("2.8.13")
            .about("Holds the commands about latency events.");
        Module = "module" -2 Server => command::holder .since("4.0.0")
            .about("Holds the commands about modules, of which there are none.");
        Monitor = "monitor" 1 Server => monitor::monitor .flags(ADMIN.with(Flags::ENDS_BATCH))
            .about("Streams all requests of all clients.");
        Debug = "debug" -2 Server => debug::debug .flags(ADMIN).args("subcommand [arg [arg ...]]")
            .about("Helps to test clients, if enable-debug-command allows it.");
        WaitAof = "waitaof" 4 Connection => wait_for_safety::waitaof
            .flags(Flags::NOSCRIPT.with(Flags::NO_MULTI)).since("7.2.0")
            .args("numlocal numreplicas timeout").tips(&[ALL_SHARDS, MINIMUM])
            .about("Waits until all writes so far are on disk, here and at replicas; answers where they are.");
        LastSave = "lastsave" 1 Server => save::lastsave .flags(ALWAYS_FAST).tips(&[VARIES])
            .categories_too(Categories::ADMIN.with(Categories::DANGEROUS))
            .about("Answers the Unix time of the last snapshot, or of the server's start.");
        Save = "save" 1 Server => save::save .flags(SAVING.with(Flags::NO_MULTI).with(Flags::ENDS_BATCH))
            .cost(WHOLE_STORE)
            .about("Writes a snapshot and answers once it is complete; other clients do not wait.");
        BgSave = "bgsave" -1 Server => save::bgsave .flags(SAVING).args("[SCHEDULE]")
            .about("Starts a snapshot in the background.");
        BgRewriteAof = "bgrewriteaof" 1 Server => save::bgrewriteaof .flags(SAVING)
            .about("Starts a snapshot in the background, which shortens the log.");
        ReplicaOf = "replicaof" -3 Server => replication::replicaof
            .flags(ADMIN.with(Flags::NO_ASYNC_LOADING).with(Flags::ENDS_BATCH)).since("5.0.0")
            .args("<host port | NO ONE> [FORCE]")
            .about("Follows a primary as its replica, or ends that.");
        SlaveOf = "slaveof" -3 Server => replication::replicaof
            .flags(ADMIN.with(Flags::NO_ASYNC_LOADING).with(Flags::ENDS_BATCH))
            .args("<host port | NO ONE> [FORCE]")
            .about("The older name of REPLICAOF.");
        Failover = "failover" -1 Server => replication::failover
            .flags(Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::STALE)).since("6.2.0")
            .args("[TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]")
            .about("Hands the role of a primary to a replica that has everything.");
        HotringReplicate = "hotring.replicate" 3 Server => replication::replicate
            .flags(Flags::NOSCRIPT.with(Flags::ADMIN).with(Flags::NO_MULTI).with(Flags::ENDS_BATCH)).since(OURS)
            .args("version <port | SEED>")
            .about("Makes the connection the link of a replica at this port, or tells what seeds the hash.");
        HotringCoordinate = "hotring.coordinate" 2 Server => replication::coordinate
            .flags(Flags::NOSCRIPT.with(Flags::ADMIN).with(Flags::NO_MULTI).with(Flags::ENDS_BATCH).with(Flags::LOADING))
            .since(OURS).args("version")
            .about("Makes the connection one to the coordinator of this node of a cluster.");
        HotringImport = "hotring.import" 4 Server => replication::import
            .flags(Flags::NOSCRIPT.with(Flags::ADMIN).with(Flags::NO_MULTI).with(Flags::ENDS_BATCH)).since(OURS)
            .args("version move shard")
            .about("Makes the connection the link by which a shard gives slots to this one.");
        HotringDeliver = "hotring.deliver" -1 Server => pubsub::hotring_deliver
            .flags(ADMIN.with(Flags::NO_MULTI).with(Flags::SKIP_SLOWLOG).with(Flags::SKIP_MONITOR)).since(OURS)
            .args("[<ALL | SHARD> channel message]")
            .about("Delivers a message that was published at another node of the cluster.");
        HotringMemcached = "hotring.memcached" 1 Server => connection::hotring_memcached
            .flags(Flags::NOSCRIPT.with(Flags::ADMIN).with(Flags::NO_MULTI).with(Flags::ENDS_BATCH)).since(OURS)
            .about("Makes the connection one of memcached's protocol once the reply has arrived.");
        HotringMirror = "hotring.mirror" -2 Server => mirror::hotring_mirror
            .flags(FAST.with(Flags::NOSCRIPT).with(Flags::ADMIN).with(Flags::NO_MULTI).with(Flags::SKIP_SLOWLOG)).since(OURS)
            .args("<ASK [key hits ...] | DROPPED key epoch number | LIST>")
            .about("Lets a proxy answer reads of this node's hottest keys, or lists these.");
        Role = "role" 1 Server => replication::role .flags(DIRECT.with(FAST)).since("2.8.12")
            .categories_too(Categories::ADMIN.with(Categories::DANGEROUS))
            .about("Answers whether this server is a primary or a replica, and of whom.");
        Wait = "wait" 3 Connection => wait_for_safety::wait .flags(Flags::NOSCRIPT).since("3.0.0")
            .args("numreplicas timeout").tips(&[ALL_SHARDS, MINIMUM])
            .about("Waits until replicas have all writes so far; answers how many have.");
        FlushAll = "flushall" -1 Server => process::flushall
            .flags(WRITE).args("[ASYNC | SYNC]").cost(WHOLE_STORE)
            .categories_too(Categories::KEYSPACE.with(Categories::DANGEROUS))
            .tips(&[ALL_SHARDS, ALL_SUCCEEDED])
            .about("Removes all keys of all databases.");
        FlushDb = "flushdb" -1 Server => process::flushdb
            .flags(WRITE).args("[ASYNC | SYNC]").cost(WHOLE_STORE)
            .categories_too(Categories::KEYSPACE.with(Categories::DANGEROUS))
            .tips(&[ALL_SHARDS, ALL_SUCCEEDED])
            .about("Removes all keys of the selected database.");
        SwapDb = "swapdb" 3 Server => database::swapdb
            .flags(WRITE_FAST).since("4.0.0").args("index1 index2")
            .categories_too(Categories::KEYSPACE.with(Categories::DANGEROUS))
            .about("Swaps two databases.");
        Move = "move" 3 Generic => database::move_key
            .flags(WRITE_FAST).keys(&one(Access::Modify)).args("key db")
            .about("Moves a key to another database, unless it exists there.");

        Get = "get" 2 String => string::get .flags(READ_FAST).keys(&one(Access::Read)).quick().args("key")
            .about("Reads a value.");
        Set = "set" -3 String => string::set .flags(GROW).keys(&one(Access::Vary)).quick()
            .args("key value [NX | XX | IFEQ ifeq-value | IFNE ifne-value | IFDEQ ifdeq-digest | \
                   IFDNE ifdne-digest] [GET] [EX seconds | PX milliseconds | \
                   EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]")
            .about("Stores a value, with an optional condition and expiry.");
        SetNx = "setnx" 3 String => string::setnx
            .flags(GROW_FAST).keys(&one(Access::Create)).quick().args("key value")
            .about("Stores a value if the key is missing.");
        SetEx = "setex" 4 String => string::setex
            .flags(GROW).keys(&one(Access::Overwrite)).quick().since("2.0.0")
            .args("key seconds value")
            .about("Stores a value that expires after the given seconds.");
        PSetEx = "psetex" 4 String => string::psetex
            .flags(GROW).keys(&one(Access::Overwrite)).quick().since("2.6.0")
            .args("key milliseconds value")
            .about("Stores a value that expires after the given milliseconds.");
        GetSet = "getset" 3 String => string::getset
            .flags(GROW_FAST).keys(&one(Access::Modify)).quick().args("key value")
            .about("Stores a value and answers the old one; SET with GET does the same.");
        GetDel = "getdel" 2 String => string::getdel
            .flags(WRITE_FAST).keys(&one(Access::Take)).quick().since("6.2.0")
            .args("key")
            .about("Reads a value and removes the key.");
        GetEx = "getex" -2 String => string::getex
            .flags(WRITE_FAST).keys(&one(Access::Modify)).quick().since("6.2.0")
            .args("key [EX seconds | PX milliseconds | EXAT unix-time-seconds | \
                   PXAT unix-time-milliseconds | PERSIST]")
            .about("Reads a value and sets or removes its expiry.");
        MGet = "mget" -2 String => multi::mget .flags(READ_FAST).keys(&every(1, Access::Read)).quick()
            .args("key [key ...]").cost(EACH_KEY).tips(&[MULTI_SHARD])
            .about("Reads several values atomically.");
        MSet = "mset" -3 String => multi::mset
            .flags(GROW).keys(&every(2, Access::Overwrite)).quick().since("1.0.1")
            .args("key value [key value ...]").cost(EACH_KEY).tips(&[MULTI_SHARD, ALL_SUCCEEDED])
            .about("Stores several values atomically.");
        MSetNx = "msetnx" -3 String => multi::msetnx
            .flags(GROW).keys(&every(2, Access::Create)).quick().since("1.0.1")
            .args("key value [key value ...]").cost(EACH_KEY).tips(&[MULTI_SHARD, MINIMUM])
            .about("Stores several values atomically if none of the keys exists.");
        MSetEx = "msetex" -4 String => multi::msetex .flags(GROW.with(Flags::MOVABLE_KEYS)).since("8.4.0")
            .keys(&[KeyRange {
                first: 2, last: KeyRange::COUNTED, step: 2, access: Access::Overwrite
            }])
            .args("numkeys key value [key value ...] [NX | XX] [EX seconds | PX milliseconds | \
                   EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]")
            .cost(EACH_KEY)
            .about("Stores several values with one expiry, optionally only if all or none of the keys exist.");
        DelEx = "delex" -2 String => compare::delex
            .flags(WRITE_FAST).keys(&one(Access::RemoveIf)).since("8.4.0")
            .args("key [IFEQ ifeq-value | IFNE ifne-value | IFDEQ ifdeq-digest | \
                   IFDNE ifdne-digest]")
            .about("Removes a key, optionally only if its value or digest does or does not match.");
        DelIfEq = "delifeq" 3 String => compare::delifeq .flags(WRITE_FAST).keys(&one(Access::RemoveIf))
            .since("Valkey 9.0.0").args("key value")
            .about("Removes a key if it has the given value.");
        Digest = "digest" 2 String => compare::digest
            .flags(READ_FAST).keys(&one(Access::Read)).since("8.4.0")
            .args("key").cost(EACH_BYTE)
            .about("Answers the XXH3 hash of a value as 16 hexadecimal digits.");
        IncrEx = "increx" -2 String => counter::increx
            .flags(GROW_FAST).keys(&one(Access::Modify)).since("8.8.0")
            .args("key [BYFLOAT increment | BYINT increment] [LBOUND lowerbound] \
                   [UBOUND upperbound] [SATURATE] [EX seconds | PX milliseconds | \
                   EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST] [ENX]")
            .about("Adds to a number within bounds and sets its expiry; answers the sum and the amount added.");
        Append = "append" 3 String => string::append
            .flags(GROW_FAST).keys(&one(Access::Extend)).since("2.0.0")
            .args("key value").cost(EACH_BYTE)
            .about("Adds bytes to the end of a value and answers the new length.");
        StrLen = "strlen" 2 String => string::strlen
            .flags(READ_FAST).keys(&one(Access::Look)).quick().since("2.2.0")
            .args("key")
            .about("Answers the length of a value, 0 if the key is missing.");
        Lcs = "lcs" -3 String => lcs::lcs .flags(READ)
            .keys(&[KeyRange { first: 1, last: 2, step: 1, access: Access::Read }]).since("7.0.0")
            .args("key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]")
            .cost("O(n*m) in the lengths of the values")
            .about("Finds the longest common subsequence of two values.");
        GetRange = "getrange" 4 String => range::getrange
            .flags(READ).keys(&one(Access::Read)).since("2.4.0")
            .args("key start end").cost("O(n) in the length of the answer")
            .about("Reads a part of a value; negative positions count from its end.");
        SubStr = "substr" 4 String => range::getrange .flags(READ).keys(&one(Access::Read))
            .args("key start end").cost("O(n) in the length of the answer")
            .about("The old name of GETRANGE.");
        SetRange = "setrange" 4 String => range::setrange
            .flags(GROW).keys(&one(Access::Adjust)).since("2.2.0")
            .args("key offset value").cost(EACH_BYTE)
            .about("Overwrites a part of a value; fills a gap before it with zero bytes.");
        Incr = "incr" 2 String => numeric::incr
            .flags(GROW_FAST).keys(&one(Access::Modify)).quick().args("key")
            .about("Adds one to an integer; a missing key counts as 0.");
        Decr = "decr" 2 String => numeric::decr
            .flags(GROW_FAST).keys(&one(Access::Modify)).quick().args("key")
            .about("Subtracts one from an integer; a missing key counts as 0.");
        IncrBy = "incrby" 3 String => numeric::incrby .flags(GROW_FAST).keys(&one(Access::Modify)).quick()
            .args("key increment")
            .about("Adds to an integer; a missing key counts as 0.");
        DecrBy = "decrby" 3 String => numeric::decrby .flags(GROW_FAST).keys(&one(Access::Modify)).quick()
            .args("key decrement")
            .about("Subtracts from an integer; a missing key counts as 0.");
        IncrByFloat = "incrbyfloat" 3 String => numeric::incrbyfloat
            .flags(GROW_FAST).keys(&one(Access::Modify)).quick()
            .since("2.6.0").args("key float-increment")
            .about("Adds to a decimal fraction; a missing key counts as 0.");
        History = "history" -2 String => history::history .flags(READ).keys(&one(Access::Read)).since(OURS)
            .args("key [COUNT count]").cost("O(n) in the length of the values that are kept")
            .about("Lists a value's earlier versions: number, time of replacement, value.");
        Rollback = "rollback" 3 String => history::rollback
            .flags(GROW).keys(&one(Access::Modify)).since(OURS)
            .args("key version").cost("O(n) in the length of the values that are kept")
            .about("Restores an earlier version of a value.");

        SetBit = "setbit" 4 Bitmap => bits::setbit .flags(GROW).keys(&one(Access::Modify)).since("2.2.0")
            .args("key offset value").cost(EACH_BYTE)
            .about("Sets a bit of a value, which grows by zero bytes as needed; answers the old bit.");
        GetBit = "getbit" 3 Bitmap => bits::getbit .flags(READ_FAST).keys(&one(Access::Read)).since("2.2.0")
            .args("key offset")
            .about("Reads a bit of a value; bits beyond its end are 0.");
        BitCount = "bitcount" -2 Bitmap => bits::bitcount
            .flags(READ).keys(&one(Access::Read)).since("2.6.0")
            .args("key [start end [BYTE | BIT]]").cost(EACH_BYTE)
            .about("Counts the set bits of a value or of a part of it.");
        BitPos = "bitpos" -3 Bitmap => bits::bitpos .flags(READ).keys(&one(Access::Read)).since("2.8.7")
            .args("key bit [start [end [BYTE | BIT]]]").cost(EACH_BYTE)
            .about("Finds the first 0 or 1 in a value or in a part of it; -1 if there is none.");
        BitOp = "bitop" -4 Bitmap => bits::bitop .flags(GROW).since("2.6.0")
            .keys(&[
                KeyRange { first: 2, last: 2, step: 1, access: Access::Overwrite },
                KeyRange { first: 3, last: -1, step: 1, access: Access::Read }
            ])
            .args("operation destkey key [key ...]").cost(EACH_BYTE)
            .about("Stores the AND, OR, XOR or NOT of values, bit by bit; answers its length.");
        BitField = "bitfield" -2 Bitmap => bit_fields::bitfield
            .flags(GROW).keys(&one(Access::VaryFields)).since("3.2.0")
            .args("key [operation [operation ...]]")
            .cost("O(n) in the number of operations")
            .about("Reads, sets and increments integers of any width at any bit of a value.");
        BitFieldRo = "bitfield_ro" -2 Bitmap => bit_fields::bitfield_ro
            .flags(READ_FAST).keys(&one(Access::Read)).since("6.0.0")
            .args("key [GET encoding offset [GET encoding offset ...]]")
            .cost("O(n) in the number of operations")
            .about("Reads integers of any width at any bit of a value.");

        Del = "del" -2 Generic => key::del .flags(WRITE).keys(&every(1, Access::Remove)).quick()
            .args("key [key ...]").cost(EACH_KEY).tips(&[MULTI_SHARD, SUM])
            .about("Removes keys; answers how many existed.");
        Unlink = "unlink" -2 Generic => key::del .flags(WRITE_FAST).keys(&every(1, Access::Remove)).quick()
            .since("4.0.0").args("key [key ...]").cost(EACH_KEY).tips(&[MULTI_SHARD, SUM])
            .about("Removes keys, exactly as DEL: neither blocks other clients.");
        Exists = "exists" -2 Generic => key::exists .flags(READ_FAST).keys(&every(1, Access::Look)).quick()
            .args("key [key ...]").cost(EACH_KEY).tips(&[MULTI_SHARD, SUM])
            .about("Counts the keys that exist; a key given twice counts twice.");
        Touch = "touch" -2 Generic => key::touch
            .flags(READ_FAST).keys(&every(1, Access::Look)).quick().since("3.2.1")
            .args("key [key ...]").cost(EACH_KEY).tips(&[MULTI_SHARD, SUM])
            .about("Marks keys as accessed; answers how many exist.");
        Type = "type" 2 Generic => key::type_of
            .flags(READ_FAST).keys(&one(Access::Look)).quick().args("key")
            .about("Answers the type of a value, or none if the key is missing.");
        Ttl = "ttl" 2 Generic => expire::ttl .flags(READ_FAST).keys(&one(Access::Read)).quick().args("key")
            .tips(&[VARIES])
            .about("Answers the seconds until a key expires; -1: never, -2: no such key.");
        PTtl = "pttl" 2 Generic => expire::pttl
            .flags(READ_FAST).keys(&one(Access::Read)).quick().since("2.6.0")
            .args("key").tips(&[VARIES])
            .about("Answers the milliseconds until a key expires; -1: never, -2: no such key.");
        Expire = "expire" -3 Generic => expire::expire .flags(WRITE_FAST).keys(&one(Access::Adjust)).quick()
            .args("key seconds [NX | XX | GT | LT]")
            .about("Sets the expiry of a key, in seconds from now.");
        PExpire = "pexpire" -3 Generic => expire::pexpire
            .flags(WRITE_FAST).keys(&one(Access::Adjust)).quick()
            .since("2.6.0").args("key milliseconds [NX | XX | GT | LT]")
            .about("Sets the expiry of a key, in milliseconds from now.");
        ExpireAt = "expireat" -3 Generic => expire::expireat
            .flags(WRITE_FAST).keys(&one(Access::Adjust)).quick()
            .since("1.2.0").args("key unix-time-seconds [NX | XX | GT | LT]")
            .about("Sets the expiry of a key, as a Unix time in seconds.");
        PExpireAt = "pexpireat" -3 Generic => expire::pexpireat
            .flags(WRITE_FAST).keys(&one(Access::Adjust)).quick()
            .since("2.6.0").args("key unix-time-milliseconds [NX | XX | GT | LT]")
            .about("Sets the expiry of a key, as a Unix time in milliseconds.");
        ExpireTime = "expiretime" 2 Generic => expire::expiretime
            .flags(READ_FAST).keys(&one(Access::Read)).quick()
            .since("7.0.0").args("key")
            .about("Answers the Unix second at which a key expires; -1: never, -2: no such key.");
        PExpireTime = "pexpiretime" 2 Generic => expire::pexpiretime
            .flags(READ_FAST).keys(&one(Access::Read)).quick()
            .since("7.0.0").args("key")
            .about("Answers the Unix millisecond at which a key expires; -1: never, -2: no such key.");
        Persist = "persist" 2 Generic => expire::persist
            .flags(WRITE_FAST).keys(&one(Access::Adjust)).quick()
            .since("2.2.0").args("key")
            .about("Removes a key's expiry.");
        Pin = "pin" -2 Generic => pin::pin
            .flags(WRITE_FAST).keys(&every(1, Access::Adjust)).quick().since(OURS)
            .args("key [key ...]").cost(EACH_KEY)
            .about("Protects keys from eviction; answers how many were not pinned before.");
        Unpin = "unpin" -2 Generic => pin::unpin
            .flags(WRITE_FAST).keys(&every(1, Access::Adjust)).quick().since(OURS)
            .args("key [key ...]").cost(EACH_KEY)
            .about("Lets keys be evicted again; answers how many were pinned.");
        Pinned = "pinned" -1 Generic => pin::pinned
            .flags(READ).since(OURS).categories_too(Categories::DANGEROUS)
            .args("[AFTER key] [COUNT count]").cost("O(count)").tips(&[ALL_SHARDS])
            .about("Lists pinned keys in byte order, 100 or `count` of them.");
        Scan = "scan" -2 Generic => scan::scan .flags(READ).since("2.8.0")
            .args("cursor [MATCH pattern] [COUNT count] [TYPE type]")
            .cost("O(count) for each call").tips(&[VARIES, SPECIAL_REQUEST, SPECIAL_RESPONSE])
            .about("Walks over all keys, a few per call; never misses a key that exists throughout.");
        Keys = "keys" 2 Generic => scan::keys .flags(READ).args("pattern").cost(WHOLE_STORE)
            .categories_too(Categories::DANGEROUS).tips(&[ALL_SHARDS, ORDER_VARIES])
            .about("Lists all keys that match a glob pattern.");
        RandomKey = "randomkey" 1 Generic => key::randomkey .flags(READ).tips(&[ALL_SHARDS, VARIES])
            .about("Answers a random key.");
        Rename = "rename" 3 Generic => key::rename
            .flags(WRITE).keys(&pair(Access::Take, Access::Overwrite))
            .args("key newkey")
            .about("Renames a key, with its expiry; replaces the new key's value.");
        RenameNx = "renamenx" 3 Generic => key::renamenx .flags(WRITE_FAST)
            .keys(&pair(Access::Take, Access::Create)).args("key newkey")
            .about("Renames a key if the new name is free.");
        Copy = "copy" -3 Generic => key::copy .flags(GROW).keys(&pair(Access::Read, Access::Overwrite))
            .since("6.2.0").args("source destination [DB destination-db] [REPLACE]")
            .cost(EACH_BYTE)
            .about("Copies a value and its expiry to another key.");
        Sort = "sort" -2 Generic => sort::sort
            .flags(GROW.with(Flags::MOVABLE_KEYS))
            .keys(&[SORTED[0], SORTED[1], KeyRange { first: 1, last: KeyRange::STORED, step: 1, access: Access::Overwrite }])
            .categories_too(SORTABLE).cost(SORTS)
            .args("key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA] [STORE destination]")
            .about("Sorts the elements of a list, set or sorted set; answers or stores them.");
        SortRo = "sort_ro" -2 Generic => sort::sort_ro
            .flags(READ.with(Flags::MOVABLE_KEYS)).keys(&SORTED).since("7.0.0")
            .categories_too(SORTABLE).cost(SORTS)
            .args("key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]")
            .about("Sorts the elements of a list, set or sorted set.");
        Dump = "dump" 2 Generic => dump::dump .flags(READ).keys(&one(Access::Read)).since("2.6.0")
            .args("key").cost(EACH_BYTE).tips(&[VARIES])
            .about("Serializes a value for RESTORE, here or in Redis.");
        Restore = "restore" -4 Generic => dump::restore
            .flags(GROW).keys(&one(Access::Overwrite)).since("2.6.0")
            .categories_too(Categories::DANGEROUS).cost(EACH_BYTE)
            .args("key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] \
                   [FREQ frequency]")
            .about("Stores a value serialized by DUMP, here or in Redis.");
        WaitKey = "waitkey" -3 Generic => wait::waitkey .flags(READ.with(BLOCKING))
            .keys(&one(Access::Read)).since(OURS).args("key timeout-ms [VALUE expected]")
            .tips(&[VARIES])
            .about("Waits until a key changes or has a value; answers 1, or 0 on timeout. 0 ms: no timeout.");

        Multi = "multi" 1 Transactions => transaction::multi
            .flags(FRAME.with(Flags::ENDS_BATCH)).since("1.2.0")
            .about("Starts a transaction: later commands are queued until EXEC.");
        Exec = "exec" 1 Transactions => transaction::exec
            .flags(DIRECT.with(Flags::SKIP_SLOWLOG)).since("1.2.0")
            .cost("the sum of the queued commands")
            .about("Runs the queued commands atomically, unless a watched key has changed.");
        Discard = "discard" 1 Transactions => transaction::discard .flags(FRAME).since("2.0.0")
            .cost("O(n) in the number of queued commands")
            .about("Drops the queued commands and watches no key any more.");
        Watch = "watch" -2 Transactions => transaction::watch .flags(FRAME).keys(&every(1, Access::Look))
            .since("2.2.0").args("key [key ...]").cost(EACH_KEY)
            .about("Makes the next transaction depend on these keys: it fails if one has changed.");
        Unwatch = "unwatch" 1 Transactions => transaction::unwatch .flags(FRAME).since("2.2.0")
            .cost("O(n) in the number of watched keys")
            .about("Watches no key any more.");

        Publish = "publish" 3 PubSub => pubsub::publish .flags(MESSAGES.with(FAST)).since("2.0.0")
            .args("channel message").cost("O(n + m): n subscribers of the channel, m patterns of all")
            .about("Sends a message to a channel; answers the number of receivers.");
        Subscribe = "subscribe" -2 PubSub => pubsub::subscribe .flags(SUBSCRIBING).since("2.0.0")
            .args("channel [channel ...]").cost(EACH_CHANNEL)
            .about("Subscribes to channels.");
        Unsubscribe = "unsubscribe" -1 PubSub => pubsub::unsubscribe
            .flags(MESSAGES.with(Flags::NOSCRIPT)).since("2.0.0")
            .args("[channel [channel ...]]").cost(EACH_CHANNEL)
            .about("Unsubscribes from channels; without a name from all.");
        PSubscribe = "psubscribe" -2 PubSub => pubsub::psubscribe .flags(SUBSCRIBING).since("2.0.0")
            .args("pattern [pattern ...]").cost(EACH_CHANNEL)
            .about("Subscribes to all channels whose names match glob patterns.");
        PUnsubscribe = "punsubscribe" -1 PubSub => pubsub::punsubscribe
            .flags(MESSAGES.with(Flags::NOSCRIPT)).since("2.0.0")
            .args("[pattern [pattern ...]]").cost(EACH_CHANNEL)
            .about("Unsubscribes from patterns; without one from all.");
        SPublish = "spublish" 3 PubSub => pubsub::spublish .flags(MESSAGES.with(FAST)).since("7.0.0")
            .routed_by(&one(Access::Channel)).args("shardchannel message")
            .cost("O(n) in the number of subscribers")
            .about("Sends a message to a shard channel; answers the number of receivers.");
        SSubscribe = "ssubscribe" -2 PubSub => pubsub::ssubscribe .flags(SUBSCRIBING).since("7.0.0")
            .routed_by(&every(1, Access::Channel))
            .args("shardchannel [shardchannel ...]").cost(EACH_CHANNEL)
            .about("Subscribes to shard channels.");
        SUnsubscribe = "sunsubscribe" -1 PubSub => pubsub::sunsubscribe
            .flags(MESSAGES.with(Flags::NOSCRIPT)).since("7.0.0")
            .routed_by(&every(1, Access::Channel))
            .args("[shardchannel [shardchannel ...]]").cost(EACH_CHANNEL)
            .about("Unsubscribes from shard channels; without a name from all.");
        PubSub = "pubsub" -2 PubSub => command::holder .since("2.8.0")
            .about("Holds the commands about subscribers.");

        Eval = "eval" -3 Scripting => script::eval
            .flags(SCRIPT).keys(&counted(Access::Script)).since("2.6.0")
            .categories_too(Categories::SCRIPTING).cost(BY_SCRIPT)
            .args("script numkeys [key [key ...]] [arg [arg ...]]")
            .about("Runs a Lua script atomically.");
        EvalRo = "eval_ro" -3 Scripting => script::eval_ro .flags(SCRIPT_READ).keys(&counted(Access::Read))
            .since("7.0.0").categories_too(Categories::SCRIPTING).cost(BY_SCRIPT)
            .args("script numkeys [key [key ...]] [arg [arg ...]]")
            .about("Runs a Lua script that must not write.");
        EvalSha = "evalsha" -3 Scripting => script::evalsha .flags(SCRIPT).keys(&counted(Access::Script))
            .since("2.6.0").categories_too(Categories::SCRIPTING).cost(BY_SCRIPT)
            .args("sha1 numkeys [key [key ...]] [arg [arg ...]]")
            .about("Runs a cached script, by the SHA1 digest of its text.");
        EvalShaRo = "evalsha_ro" -3 Scripting => script::evalsha_ro
            .flags(SCRIPT_READ).keys(&counted(Access::Read))
            .since("7.0.0").categories_too(Categories::SCRIPTING).cost(BY_SCRIPT)
            .args("sha1 numkeys [key [key ...]] [arg [arg ...]]")
            .about("Runs a cached script that must not write.");
    }

    } };
}
pub(crate) use all_commands;

all_commands!(specs);
