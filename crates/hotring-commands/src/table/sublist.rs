//! The list of subcommands, in the format of `list.rs`.

/// Passes the given commands, and the subcommands, to the macro `make`.
macro_rules! with_subcommands {
    ($make:ident $($commands:tt)*) => { $make! { $($commands)*
    subcommands {
        ClientId of Client = "client|id" 2 Connection => client::id .flags(DIRECT).since("5.0.0")
            .about("Answers the connection's ID, which is never used again.");
        ClientGetName of Client = "client|getname" 2 Connection => client::getname
            .flags(DIRECT).since("2.6.9")
            .about("Answers the connection's name.");
        ClientSetName of Client = "client|setname" 3 Connection => client::setname
            .flags(DIRECT).since("2.6.9")
            .args("connection-name")
            .about("Names the connection.");
        ClientSetInfo of Client = "client|setinfo" 4 Connection => client::setinfo
            .flags(DIRECT).since("7.2.0")
            .args("LIB-NAME libname | LIB-VER libver")
            .about("Sets the name or version of the client's library.");
        ClientInfo of Client = "client|info" 2 Connection => client::info .flags(DIRECT).since("6.2.0")
            .tips(&[VARIES])
            .about("Describes the connection.");
        ClientList of Client = "client|list" -2 Connection => client::list .flags(ADMIN).since("2.4.0")
            .args("[TYPE type] [ID client-id [client-id ...]]").tips(&[VARIES])
            .cost("O(n) in the number of connections")
            .about("Describes all connections.");
        ClientKill of Client = "client|kill" -3 Connection => client::kill .flags(ADMIN).since("2.4.0")
            .args("address | filter value [filter value ...]")
            .cost("O(n) in the number of connections")
            .about("Closes connections, by address or by other filters.");
        ClientNoEvict of Client = "client|no-evict" 3 Connection => client::no_evict
            .flags(ADMIN).since("7.0.0")
            .args("ON | OFF")
            .about("Exempts the connection from being closed to free memory.");
        ClientNoTouch of Client = "client|no-touch" 3 Connection => client::no_touch
            .flags(DIRECT).since("7.2.0")
            .args("ON | OFF")
            .about("Keeps the connection's reads from counting as accesses to keys.");
        ClientPause of Client = "client|pause" -3 Connection => flow::pause
            .flags(ADMIN.with(Flags::ENDS_BATCH)).since("3.0.0").args("timeout [WRITE | ALL]")
            .about("Delays all requests, or only writes, for some milliseconds.");
        ClientUnpause of Client = "client|unpause" 2 Connection => flow::unpause
            .flags(ADMIN).since("6.2.0")
            .cost("O(n) in the number of connections")
            .about("Ends CLIENT PAUSE.");
        ClientReply of Client = "client|reply" 3 Connection => flow::reply
            .flags(DIRECT.with(Flags::ENDS_BATCH)).since("3.2.0").args("ON | OFF | SKIP")
            .about("Turns replies on or off, or skips the next one.");
        ClientUnblock of Client = "client|unblock" -3 Connection => flow::unblock
            .flags(ADMIN).since("5.0.0")
            .args("client-id [TIMEOUT | ERROR]").cost("O(log n) in the number of connections")
            .about("Ends another connection's blocking command, by a timeout or an error.");
        ClientTracking of Client = "client|tracking" -3 Connection => tracking::tracking
            .flags(DIRECT.with(Flags::ENDS_BATCH)).since("6.0.0")
            .args("ON | OFF [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] \
                   [NOLOOP]")
            .cost("O(1), and O(n) in the number of prefixes")
            .about("Turns invalidation messages for keys that the connection reads on or off.");
        ClientCaching of Client = "client|caching" 3 Connection => tracking::caching
            .flags(DIRECT).since("6.0.0")
            .args("YES | NO")
            .about("Tracks the next command's keys under OPTIN, or skips them under OPTOUT.");
        ClientGetRedir of Client = "client|getredir" 2 Connection => tracking::getredir
            .flags(DIRECT).since("6.0.0")
            .about("Answers the ID of the connection that receives this one's invalidations.");
        ClientTrackingInfo of Client = "client|trackinginfo" 2 Connection => tracking::info
            .flags(DIRECT).since("6.2.0")
            .about("Describes the connection's state of CLIENT TRACKING.");
        ClientHelp of Client = "client|help" 2 Connection => command::help .flags(ALWAYS).since("5.0.0")
            .about("Lists the subcommands.");
        ConfigGet of Config = "config|get" -3 Server => config::get .flags(ADMIN).since("2.0.0")
            .args("parameter [parameter ...]").cost("O(n) in the number of settings")
            .about("Answers the settings whose names match the glob patterns.");
        ConfigSet of Config = "config|set" -4 Server => config::set
            .flags(ADMIN.with(Flags::ENDS_BATCH)).since("2.0.0")
            .args("parameter value [parameter value ...]").tips(&[ALL_NODES, ALL_SUCCEEDED])
            .cost("O(n) in the number of settings")
            .about("Changes settings while the server runs, all or none.");
        ConfigResetStat of Config = "config|resetstat" 2 Server => config::resetstat
            .flags(ADMIN).since("2.0.0")
            .tips(&[ALL_NODES, ALL_SUCCEEDED])
            .about("Resets the counters of INFO.");
        ConfigRewrite of Config = "config|rewrite" 2 Server => config::rewrite .flags(ADMIN).since("2.8.0")
            .tips(&[ALL_NODES, ALL_SUCCEEDED])
            .about("Writes changed settings to the configuration file.");
        ConfigHelp of Config = "config|help" 2 Server => command::help .flags(ALWAYS).since("5.0.0")
            .about("Lists the subcommands.");
        AclCat of Acl = "acl|cat" -2 Server => acl::cat .flags(DIRECT).since("6.0.0").args("[category]")
            .about("Lists the categories of commands, or the commands of one.");
        AclDelUser of Acl = "acl|deluser" -3 Server => acl::deluser .flags(USERS).since("6.0.0")
            .args("username [username ...]").tips(&[ALL_NODES, ALL_SUCCEEDED])
            .cost("O(n) in the number of users and connections")
            .about("Removes users and closes their connections.");
        AclDryRun of Acl = "acl|dryrun" -4 Server => acl::dryrun .flags(ADMIN).since("7.0.0")
            .args("username command [arg [arg ...]]")
            .about("Answers whether a user may run a command, without running it.");
        AclGenPass of Acl = "acl|genpass" -2 Server => acl::genpass
            .flags(DIRECT).since("6.0.0").args("[bits]")
            .about("Generates a random password of hexadecimal digits.");
        AclGetUser of Acl = "acl|getuser" 3 Server => acl::getuser
            .flags(ADMIN).since("6.0.0").args("username")
            .cost("O(n) in the number of rules")
            .about("Describes a user's permissions.");
        AclHelp of Acl = "acl|help" 2 Server => command::help .flags(ALWAYS).since("6.0.0")
            .about("Lists the subcommands.");
        AclList of Acl = "acl|list" 2 Server => acl::list .flags(ADMIN).since("6.0.0")
            .cost("O(n) in the number of users")
            .about("Describes all users, in the form of an ACL file.");
        AclLoad of Acl = "acl|load" 2 Server => acl::load .flags(USERS).since("6.0.0")
            .cost("O(n) in the number of users and connections")
            .about("Reloads the ACL file, whose users replace all others.");
        AclLog of Acl = "acl|log" -2 Server => acl::log .flags(ADMIN).since("6.0.0").args("[count | RESET]")
            .cost("O(n) in the number of entries")
            .about("Lists recent denials: wrong passwords, commands, keys, channels.");
        AclSave of Acl = "acl|save" 2 Server => acl::save .flags(ADMIN).since("6.0.0")
            .tips(&[ALL_NODES, ALL_SUCCEEDED]).cost("O(n) in the number of users")
            .about("Writes all users to the ACL file.");
        AclSetUser of Acl = "acl|setuser" -3 Server => acl::setuser .flags(USERS).since("6.0.0")
            .args("username [rule [rule ...]]").tips(&[ALL_NODES, ALL_SUCCEEDED])
            .cost("O(n) in the number of rules and connections")
            .about("Creates a user or changes its permissions.");
        AclUsers of Acl = "acl|users" 2 Server => acl::users .flags(ADMIN).since("6.0.0")
            .cost("O(n) in the number of users")
            .about("Lists the names of all users.");
        AclWhoAmI of Acl = "acl|whoami" 2 Server => acl::whoami .flags(DIRECT).since("6.0.0")
            .about("Answers the name of the connection's user.");
        ScrubStart of Scrub = "scrub|start" -2 Server => scrub::start .flags(ADMIN).since(OURS)
            .args("[RATE items-per-second]")
            .about("Starts to check all items against their checksums, in the background.");
        ScrubStatus of Scrub = "scrub|status" 2 Server => scrub::status .flags(ALWAYS).since(OURS)
            .about("Reports the progress of the check, and the keys of damaged items.");
        ScrubStop of Scrub = "scrub|stop" 2 Server => scrub::stop .flags(ADMIN).since(OURS)
            .about("Stops the check.");
        ScrubHelp of Scrub = "scrub|help" 2 Server => command::help .flags(ALWAYS).since(OURS)
            .about("Lists the subcommands.");
        PubSubChannels of PubSub = "pubsub|channels" -2 PubSub => pubsub::channels
            .flags(MESSAGES).since("2.8.0")
            .args("[pattern]").cost("O(n) in the number of channels")
            .about("Lists the channels with subscribers.");
        PubSubNumSub of PubSub = "pubsub|numsub" -2 PubSub => pubsub::numsub .flags(MESSAGES).since("2.8.0")
            .args("[channel [channel ...]]").cost(EACH_CHANNEL)
            .about("Counts the subscribers of each channel.");
        PubSubNumPat of PubSub = "pubsub|numpat" 2 PubSub => pubsub::numpat .flags(MESSAGES).since("2.8.0")
            .about("Counts the patterns that have subscribers.");
        PubSubShardChannels of PubSub = "pubsub|shardchannels" -2 PubSub => pubsub::shardchannels
            .flags(MESSAGES).since("7.0.0")
            .args("[pattern]").cost("O(n) in the number of shard channels")
            .about("Lists the shard channels with subscribers.");
        PubSubShardNumSub of PubSub = "pubsub|shardnumsub" -2 PubSub => pubsub::shardnumsub
            .flags(MESSAGES).since("7.0.0")
            .args("[shardchannel [shardchannel ...]]").cost(EACH_CHANNEL)
            .about("Counts the subscribers of each shard channel.");
        PubSubHelp of PubSub = "pubsub|help" 2 PubSub => command::help .flags(ALWAYS).since("6.2.0")
            .about("Lists the subcommands.");
        ObjectEncoding of Object = "object|encoding" 3 Generic => object::encoding
            .flags(READ).since("2.2.3")
            .keys(&second(Access::Look)).args("key").tips(&[VARIES])
            .about("Answers the name of a value's encoding in Redis.");
        ObjectFreq of Object = "object|freq" 3 Generic => object::freq .flags(READ).since("4.0.0")
            .keys(&second(Access::Look)).args("key").tips(&[VARIES])
            .about("Answers the logarithmic access counter of a key, under the lfu policies.");
        ObjectIdleTime of Object = "object|idletime" 3 Generic => object::idletime
            .flags(READ).since("2.2.3")
            .keys(&second(Access::Look)).args("key").tips(&[VARIES])
            .about("Answers a lower bound of a key's idle time, in seconds.");
        ObjectRefCount of Object = "object|refcount" 3 Generic => object::refcount
            .flags(READ).since("2.2.3")
            .keys(&second(Access::Look)).args("key").tips(&[VARIES])
            .about("Answers 1 for each key.");
        ObjectHelp of Object = "object|help" 2 Generic => command::help .flags(ALWAYS).since("6.2.0")
            .about("Lists the subcommands.");
        SlowLogGet of SlowLog = "slowlog|get" -2 Server => slowlog::get .flags(WATCHING).since("2.2.12")
            .args("[count]").tips(&[ALL_NODES, VARIES]).cost("O(n) in the number of requests")
            .about("Lists the latest slow requests: ID, time, duration, arguments, client.");
        SlowLogLen of SlowLog = "slowlog|len" 2 Server => slowlog::len .flags(WATCHING).since("2.2.12")
            .tips(&[ALL_NODES, SUM, VARIES])
            .about("Counts the slow requests.");
        SlowLogReset of SlowLog = "slowlog|reset" 2 Server => slowlog::reset
            .flags(WATCHING).since("2.2.12")
            .tips(&[ALL_NODES, ALL_SUCCEEDED])
            .about("Clears the list of slow requests.");
        SlowLogHelp of SlowLog = "slowlog|help" 2 Server => command::help .flags(ALWAYS).since("6.2.0")
            .about("Lists the subcommands.");
        MemoryUsage of Memory = "memory|usage" -3 Server => memory::usage .flags(READ).since("4.0.0")
            .keys(&second(Access::Look)).args("key [SAMPLES count]")
            .about("Answers the exact memory of a key and its value, in bytes.");
        MemoryStats of Memory = "memory|stats" 2 Server => memory::stats .since("4.0.0")
            .tips(&[VARIES, ALL_SHARDS, SPECIAL_RESPONSE])
            .about("Reports the memory of items and of all other parts.");
        MemoryDoctor of Memory = "memory|doctor" 2 Server => memory::doctor .since("4.0.0")
            .tips(&[VARIES, ALL_SHARDS, SPECIAL_RESPONSE])
            .about("Reports unusual use of memory.");
        MemoryMallocStats of Memory = "memory|malloc-stats" 2 Server => memory::malloc_stats .since("4.0.0")
            .tips(&[VARIES, ALL_SHARDS, SPECIAL_RESPONSE])
            .about("Reports the memory of items as text.");
        MemoryPurge of Memory = "memory|purge" 2 Server => memory::purge .since("4.0.0")
            .tips(&[ALL_SHARDS, ALL_SUCCEEDED])
            .about("Frees the memory of removed items that no command reads any more.");
        MemoryHelp of Memory = "memory|help" 2 Server => command::help .flags(ALWAYS).since("4.0.0")
            .about("Lists the subcommands.");
        LatencyLatest of Latency = "latency|latest" 2 Server => latency::latest
            .flags(ADMIN).since("2.8.13")
            .tips(&[VARIES, ALL_NODES, SPECIAL_RESPONSE])
            .about("Lists slow events: the latest time, its duration, and the maximum.");
        LatencyHistory of Latency = "latency|history" 3 Server => latency::history
            .flags(ADMIN).since("2.8.13")
            .args("event").tips(&[VARIES, ALL_NODES, SPECIAL_RESPONSE])
            .about("Lists the latest durations of an event, at most one per second.");
        LatencyHistogram of Latency = "latency|histogram" -2 Server => latency::histogram
            .flags(ADMIN).since("7.0.0")
            .args("[command [command ...]]").tips(&[VARIES, ALL_NODES, SPECIAL_RESPONSE])
            .cost("O(n) in the number of commands")
            .about("Counts each command's calls by duration, in microseconds.");
        LatencyReset of Latency = "latency|reset" -2 Server => latency::reset .flags(ADMIN).since("2.8.13")
            .args("[event [event ...]]").tips(&[ALL_NODES, ALL_SUCCEEDED])
            .about("Clears the durations of events.");
        LatencyGraph of Latency = "latency|graph" 3 Server => latency::graph .flags(ADMIN).since("2.8.13")
            .args("event").tips(&[VARIES, ALL_NODES, SPECIAL_RESPONSE])
            .about("Draws the latest durations of an event.");
        LatencyDoctor of Latency = "latency|doctor" 2 Server => latency::doctor
            .flags(ADMIN).since("2.8.13")
            .tips(&[VARIES, ALL_NODES, SPECIAL_RESPONSE])
            .about("Interprets the durations.");
        LatencyHelp of Latency = "latency|help" 2 Server => command::help .flags(ALWAYS).since("2.8.13")
            .about("Lists the subcommands.");
        ModuleList of Module = "module|list" 2 Server => process::modules
            .flags(Flags::ADMIN.with(Flags::NOSCRIPT))
            .since("4.0.0").tips(&[ORDER_VARIES])
            .about("Lists the loaded modules: none.");
        ModuleHelp of Module = "module|help" 2 Server => command::help .flags(ALWAYS).since("5.0.0")
            .about("Lists the subcommands.");
        ScriptExists of Script = "script|exists" -3 Scripting => script::exists
            .flags(Flags::NOSCRIPT).since("2.6.0")
            .categories_too(Categories::SCRIPTING).args("sha1 [sha1 ...]")
            .tips(&[ALL_SHARDS, "response_policy:agg_logical_and"])
            .cost("O(n) in the number of digests")
            .about("Answers which scripts are cached.");
        ScriptFlush of Script = "script|flush" -2 Scripting => script::flush
            .flags(Flags::NOSCRIPT).since("2.6.0")
            .categories_too(Categories::SCRIPTING).args("[ASYNC | SYNC]")
            .tips(&[ALL_NODES, ALL_SUCCEEDED]).cost("O(n) in the number of scripts")
            .about("Empties the script cache.");
        ScriptKill of Script = "script|kill" 2 Scripting => script::kill
            .flags(Flags::NOSCRIPT.with(Flags::ALLOW_BUSY)).since("2.6.0")
            .categories_too(Categories::SCRIPTING)
            .tips(&[ALL_SHARDS, "response_policy:one_succeeded"])
            .about("Ends running scripts that have not written yet.");
        ScriptLoad of Script = "script|load" 3 Scripting => script::load
            .flags(Flags::NOSCRIPT.with(Flags::STALE)).since("2.6.0")
            .categories_too(Categories::SCRIPTING).args("script")
            .tips(&[ALL_NODES, ALL_SUCCEEDED]).cost("O(n) in the length of the script")
            .about("Caches a script; answers its digest.");
        ScriptHelp of Script = "script|help" 2 Scripting => command::help .flags(ALWAYS).since("5.0.0")
            .categories_too(Categories::SCRIPTING)
            .about("Lists the subcommands.");
        FunctionFlush of Function = "function|flush" -2 Scripting => function::flush
            .flags(WRITE.with(Flags::NOSCRIPT))
            .since("7.0.0").categories_too(Categories::SCRIPTING).args("[ASYNC | SYNC]")
            .tips(&[ALL_SHARDS, ALL_SUCCEEDED]).about("Removes all libraries; there are none.");
        FunctionList of Function = "function|list" -2 Scripting => function::list
            .flags(Flags::NOSCRIPT).since("7.0.0")
            .categories_too(Categories::SCRIPTING).args("[LIBRARYNAME library-name-pattern] [WITHCODE]")
            .tips(&[ORDER_VARIES]).about("Lists the libraries: none.");
        FunctionStats of Function = "function|stats" 2 Scripting => function::stats
            .flags(Flags::NOSCRIPT.with(Flags::ALLOW_BUSY)).since("7.0.0")
            .categories_too(Categories::SCRIPTING).tips(&[VARIES, ALL_SHARDS, SPECIAL_RESPONSE])
            .about("Describes the running function and counts all: none.");
        FunctionKill of Function = "function|kill" 2 Scripting => function::kill
            .flags(Flags::NOSCRIPT.with(Flags::ALLOW_BUSY)).since("7.0.0")
            .categories_too(Categories::SCRIPTING).tips(&[ALL_SHARDS, "response_policy:one_succeeded"])
            .about("Ends the running function; there is none.");
        FunctionHelp of Function = "function|help" 2 Scripting => command::help
            .flags(ALWAYS).since("7.0.0")
            .categories_too(Categories::SCRIPTING).about("Lists the subcommands.");
        CommandCount of Command = "command|count" 2 Server => command::count .flags(ALWAYS).since("2.8.13")
            .categories_too(Categories::CONNECTION)
            .about("Counts the commands.");
        CommandDocs of Command = "command|docs" -2 Server => command::docs .flags(ALWAYS).since("7.0.0")
            .categories_too(Categories::CONNECTION).args("[command-name [command-name ...]]")
            .tips(&[ORDER_VARIES]).cost("O(n) in the number of commands asked for")
            .about("Documents commands.");
        CommandGetKeys of Command = "command|getkeys" -3 Server => command::getkeys
            .flags(ALWAYS).since("2.8.13")
            .categories_too(Categories::CONNECTION).args("command [arg ...]")
            .cost("O(n) in the number of arguments")
            .about("Lists the keys of a request.");
        CommandGetKeysAndFlags of Command = "command|getkeysandflags" -3 Server => command::getkeysandflags
            .flags(ALWAYS)
            .categories_too(Categories::CONNECTION).since("7.0.0").args("command [arg ...]")
            .cost("O(n) in the number of arguments")
            .about("Lists the keys of a request and how each is used.");
        CommandHelp of Command = "command|help" 2 Server => command::help .flags(ALWAYS).since("5.0.0")
            .categories_too(Categories::CONNECTION)
            .about("Lists the subcommands.");
        CommandInfo of Command = "command|info" -2 Server => command::info .flags(ALWAYS).since("2.8.13")
            .categories_too(Categories::CONNECTION).args("[command-name [command-name ...]]")
            .tips(&[ORDER_VARIES]).cost("O(n) in the number of commands asked for")
            .about("Describes commands.");
        CommandList of Command = "command|list" -2 Server => command::list .flags(ALWAYS).since("7.0.0")
            .categories_too(Categories::CONNECTION)
            .args("[FILTERBY MODULE module-name | FILTERBY ACLCAT category | \
                   FILTERBY PATTERN pattern]")
            .tips(&[ORDER_VARIES]).cost("O(n) in the number of commands")
            .about("Lists the names of the commands.");
        ClusterAddSlots of Cluster = "cluster|addslots" -3 Cluster => cluster::by_hand
            .flags(BY_HAND).since("3.0.0").args("slot [slot ...]")
            .about("Refused: hotring cluster move gives slots to a shard.");
        ClusterAddSlotsRange of Cluster = "cluster|addslotsrange" -4 Cluster => cluster::by_hand
            .flags(BY_HAND).since("7.0.0").args("start-slot end-slot [start-slot end-slot ...]")
            .about("Refused: hotring cluster move gives slots to a shard.");
        ClusterBumpEpoch of Cluster = "cluster|bumpepoch" 2 Cluster => cluster::by_hand
            .flags(BY_HAND).since("3.0.0").tips(&[VARIES])
            .about("Refused: a promotion raises the epoch.");
        ClusterCountFailureReports of Cluster = "cluster|count-failure-reports" 3 Cluster => cluster::count_failure_reports
            .flags(Flags::ADMIN.with(Flags::STALE)).since("3.0.0").args("node-id").tips(&[VARIES])
            .about("Answers 0: nodes do not report each other's failures.");
        ClusterCountKeysInSlot of Cluster = "cluster|countkeysinslot" 3 Cluster => cluster::countkeysinslot
            .flags(Flags::STALE).since("3.0.0").args("slot").cost(WHOLE_STORE)
            .about("Counts this node's keys in a slot.");
        ClusterDelSlots of Cluster = "cluster|delslots" -3 Cluster => cluster::by_hand
            .flags(BY_HAND).since("3.0.0").args("slot [slot ...]")
            .about("Refused: hotring cluster move takes slots from a shard.");
        ClusterDelSlotsRange of Cluster = "cluster|delslotsrange" -4 Cluster => cluster::by_hand
            .flags(BY_HAND).since("7.0.0").args("start-slot end-slot [start-slot end-slot ...]")
            .about("Refused: hotring cluster move takes slots from a shard.");
        ClusterFailover of Cluster = "cluster|failover" -2 Cluster => cluster::failover
            .flags(BY_HAND).since("3.0.0").args("[FORCE | TAKEOVER]")
            .about("Makes this replica the primary without the present one; TAKEOVER may lose writes.");
        ClusterFlushSlots of Cluster = "cluster|flushslots" 2 Cluster => cluster::by_hand
            .flags(BY_HAND).since("3.0.0")
            .about("Refused: hotring cluster move takes slots from a shard.");
        ClusterForget of Cluster = "cluster|forget" 3 Cluster => cluster::by_hand
            .flags(BY_HAND).since("3.0.0").args("node-id")
            .about("Refused: hotring cluster remove removes a node.");
        ClusterGetKeysInSlot of Cluster = "cluster|getkeysinslot" 4 Cluster => cluster::getkeysinslot
            .flags(Flags::STALE).since("3.0.0").args("slot count").tips(&[VARIES]).cost(WHOLE_STORE)
            .about("Lists some of this node's keys in a slot.");
        ClusterHelp of Cluster = "cluster|help" 2 Cluster => cluster::help
            .flags(ALWAYS).since("5.0.0")
            .about("Lists the subcommands.");
        ClusterInfo of Cluster = "cluster|info" 2 Cluster => cluster::info
            .flags(Flags::STALE).since("3.0.0").tips(&[VARIES]).cost(EACH_NODE)
            .about("Reports the state of the cluster.");
        ClusterKeySlot of Cluster = "cluster|keyslot" 3 Cluster => cluster::keyslot
            .flags(Flags::STALE).since("3.0.0").args("key").cost(EACH_BYTE_OF_KEY)
            .about("Answers the slot of a key.");
        ClusterLinks of Cluster = "cluster|links" 2 Cluster => cluster::links
            .flags(Flags::STALE).since("7.0.0").tips(&[VARIES])
            .about("Lists the links of the cluster bus: none, as there is no such bus.");
        ClusterMeet of Cluster = "cluster|meet" -4 Cluster => cluster::by_hand
            .flags(BY_HAND).since("3.0.0").args("ip port [cluster-bus-port]")
            .about("Refused: hotring cluster add adds a node.");
        ClusterMyId of Cluster = "cluster|myid" 2 Cluster => cluster::myid
            .flags(Flags::STALE).since("3.0.0")
            .about("Answers the ID of this node.");
        ClusterMyShardId of Cluster = "cluster|myshardid" 2 Cluster => cluster::myshardid
            .flags(Flags::STALE).since("7.2.0").tips(&[VARIES])
            .about("Answers the ID of the shard of this node.");
        ClusterNodes of Cluster = "cluster|nodes" 2 Cluster => cluster::nodes
            .flags(Flags::STALE).since("3.0.0").tips(&[VARIES]).cost(EACH_NODE)
            .about("Describes all nodes of the cluster, one a line.");
        ClusterReplicas of Cluster = "cluster|replicas" 3 Cluster => cluster::replicas
            .flags(Flags::ADMIN.with(Flags::STALE)).since("5.0.0").args("node-id").tips(&[VARIES]).cost(EACH_NODE)
            .about("Describes the replicas of a primary.");
        ClusterReplicate of Cluster = "cluster|replicate" 3 Cluster => cluster::by_hand
            .flags(BY_HAND).since("3.0.0").args("node-id")
            .about("Refused: hotring cluster add gives a node to a shard.");
        ClusterReset of Cluster = "cluster|reset" -2 Cluster => cluster::by_hand
            .flags(Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::STALE)).since("3.0.0").args("[HARD | SOFT]")
            .about("Refused: hotring cluster remove takes this node out of the cluster.");
        ClusterSaveConfig of Cluster = "cluster|saveconfig" 2 Cluster => cluster::by_hand
            .flags(BY_HAND).since("3.0.0")
            .about("Refused: the coordinator keeps the records.");
        ClusterSetConfigEpoch of Cluster = "cluster|set-config-epoch" 3 Cluster => cluster::by_hand
            .flags(BY_HAND).since("3.0.0").args("config-epoch")
            .about("Refused: a promotion raises the epoch.");
        ClusterSetSlot of Cluster = "cluster|setslot" -4 Cluster => cluster::by_hand
            .flags(BY_HAND).since("3.0.0").args("slot <IMPORTING node-id | MIGRATING node-id | NODE node-id | STABLE>")
            .about("Refused: hotring cluster move moves slots.");
        ClusterShards of Cluster = "cluster|shards" 2 Cluster => cluster::shards
            .flags(Flags::STALE).since("7.0.0").tips(&[VARIES]).cost(EACH_NODE)
            .about("Describes all shards: their slots and their nodes.");
        ClusterSlaves of Cluster = "cluster|slaves" 3 Cluster => cluster::replicas
            .flags(Flags::ADMIN.with(Flags::STALE)).since("3.0.0").args("node-id").tips(&[VARIES]).cost(EACH_NODE)
            .about("The older name of CLUSTER REPLICAS.");
        ClusterSlotStats of Cluster = "cluster|slot-stats" -4 Cluster => cluster::slot_stats
            .flags(Flags::STALE).since("8.2.0").tips(&[VARIES]).cost(WHOLE_STORE)
            .args("<SLOTSRANGE start-slot end-slot [ACCESSES] | ORDERBY metric [LIMIT limit] [ASC | DESC]>")
            .about("Counts keys of this node's slots, their bytes and accesses (estimated); ACCESSES: only these.");
        ClusterSlots of Cluster = "cluster|slots" 2 Cluster => cluster::slots
            .flags(Flags::STALE).since("3.0.0").tips(&[VARIES]).cost(EACH_NODE)
            .about("Lists ranges of slots with the nodes that serve them.");
    }
    } };
}
pub(crate) use with_subcommands;
