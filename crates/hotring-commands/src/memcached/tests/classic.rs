//! The classic commands.

use super::*;

#[test]
fn values_are_stored_with_their_flags_and_shown() {
    play(
        "get k -> END¶
         set k 42 0 5¶hello -> STORED¶
         get k -> VALUE k 42 5¶hello¶END¶
         get k none k -> VALUE k 42 5¶hello¶VALUE k 42 5¶hello¶END¶
         bget k -> VALUE k 42 5¶hello¶END¶
         set k 4294967295 0 0¶ -> STORED¶
         get k -> VALUE k 4294967295 0¶¶END¶
         set n 0 0 3¶007 -> STORED¶
         get n -> VALUE n 0 3¶007¶END¶
         set k 1 0 1 noreply¶x -> 
         get k -> VALUE k 1 1¶x¶END¶",
    );
}

#[test]
fn conditions_hold_or_nothing_is_stored() {
    play(
        "replace k 1 0 1¶a -> NOT_STORED¶
         append k 1 0 1¶a -> NOT_STORED¶
         prepend k 1 0 1¶a -> NOT_STORED¶
         add k 1 0 1¶a -> STORED¶
         add k 2 0 1¶b -> NOT_STORED¶
         replace k 3 0 1¶c -> STORED¶
         append k 9 0 2¶de -> STORED¶
         prepend k 9 0 1¶b -> STORED¶
         get k -> VALUE k 3 4¶bcde¶END¶
         delete k -> DELETED¶
         delete k -> NOT_FOUND¶
         delete k noreply -> 
         delete k 0 -> NOT_FOUND¶
         delete k 0 noreply -> 
         delete k 5 -> CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]¶
         delete k noreply 5 -> CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]¶
         delete k 5 5 noreply -> ERROR¶",
    );
}

/// `delete k 10 noreply` was answered, as memcached 1.6 does not: to its client all later replies were one off.
#[test]
fn quiet_requests_have_no_reply() {
    play(
        "delete k 10 noreply¶delete k x noreply¶delete k noreply noreply¶delete k -1 noreply¶mn -> MN¶
         touch k x noreply¶incr k x noreply¶flush_all x noreply¶verbosity x noreply¶mn -> MN¶",
    );
}

#[test]
fn items_are_compared_by_numbers_that_are_given_once() {
    play(
        "cas k 0 0 1 7¶x -> NOT_FOUND¶
         set k 5 0 1¶a -> STORED¶
         gets k -> VALUE k 5 1 1¶a¶END¶
         gets k -> VALUE k 5 1 1¶a¶END¶
         cas k 6 0 1 2¶b -> EXISTS¶
         cas k 6 0 1 0¶b -> EXISTS¶
         cas k 6 0 1 1¶b -> STORED¶
         cas k 6 0 1 1¶c -> EXISTS¶
         gets k -> VALUE k 6 1 2¶b¶END¶
         touch k 100 -> TOUCHED¶
         redis> EXPIRE k 50 -> :1¶
         cas k 7 0 1 2¶d -> STORED¶
         gets k -> VALUE k 7 1 3¶d¶END¶
         redis> SET k d -> +OK¶
         cas k 7 0 1 3¶e -> EXISTS¶
         gats 10 k none -> VALUE k 0 1 4¶d¶END¶
         set n 0 0 1¶5 -> STORED¶
         gets n -> VALUE n 0 1 5¶5¶END¶
         incr n 1 -> 6¶
         cas n 0 0 1 5¶x -> EXISTS¶
         cas n 0 0 1 5 noreply¶x -> ",
    );
}

#[test]
fn numbers_are_of_64_bits_without_a_sign() {
    play(
        "incr n 1 -> NOT_FOUND¶
         decr n 1 -> NOT_FOUND¶
         set n 7 0 2¶10 -> STORED¶
         incr n 5 -> 15¶
         decr n 20 -> 0¶
         get n -> VALUE n 7 1¶0¶END¶
         set n 7 0 20¶18446744073709551615 -> STORED¶
         incr n 1 -> 0¶
         set n 7 0 19¶9223372036854775807 -> STORED¶
         incr n 1 -> 9223372036854775808¶
         get n -> VALUE n 7 19¶9223372036854775808¶END¶
         incr n 1 noreply -> 
         incr n x -> CLIENT_ERROR invalid numeric delta argument¶
         incr n -1 -> CLIENT_ERROR invalid numeric delta argument¶
         incr n 18446744073709551616 -> CLIENT_ERROR invalid numeric delta argument¶
         set n 0 0 2¶5  -> STORED¶
         incr n 1 -> 6¶
         set n 0 0 0¶ -> STORED¶
         incr n 1 -> CLIENT_ERROR cannot increment or decrement non-numeric value¶
         set n 0 0 2¶5x -> STORED¶
         incr n 1 -> CLIENT_ERROR cannot increment or decrement non-numeric value¶
         set n 0 0 20¶18446744073709551616 -> STORED¶
         decr n 1 -> CLIENT_ERROR cannot increment or decrement non-numeric value¶",
    );
}

#[test]
fn items_expire_at_their_time() {
    play(
        "set k 0 1 1¶x -> STORED¶
         + 999
         get k -> VALUE k 0 1¶x¶END¶
         + 1
         get k -> END¶
         set k 0 -1 1¶x -> STORED¶
         get k -> END¶
         set k 0 1700000100 1¶x -> STORED¶
         redis> EXPIRETIME k -> :1700000100¶
         set k 0 2592000 1¶x -> STORED¶
         redis> TTL k -> :2592000¶
         set k 0 2592001 1¶x -> STORED¶
         get k -> END¶
         set k 3 0 1¶x -> STORED¶
         touch k 10 -> TOUCHED¶
         touch none 10 -> NOT_FOUND¶
         + 9999
         gat 10 k none -> VALUE k 3 1¶x¶END¶
         + 9999
         gat 0 k -> VALUE k 3 1¶x¶END¶
         redis> TTL k -> :-1¶
         gat -1 k -> VALUE k 3 1¶x¶END¶
         get k -> END¶
         touch k x -> CLIENT_ERROR invalid exptime argument¶
         gat x k -> CLIENT_ERROR invalid exptime argument¶
         touch k 10 noreply -> ",
    );
}

#[test]
fn a_flush_never_removes_later_items() {
    play(
        "set k 0 0 1¶x -> STORED¶
         flush_all -> OK¶
         get k -> END¶
         set k 0 0 1¶x -> STORED¶
         flush_all 0 noreply -> 
         get k -> END¶
         flush_all 2 -> OK¶
         set k 0 0 1¶x -> STORED¶
         + 1999
         get k -> VALUE k 0 1¶x¶END¶
         + 1
         set new 0 0 1¶y -> STORED¶
         get k new -> VALUE new 0 1¶y¶END¶
         + 10000
         get new -> VALUE new 0 1¶y¶END¶
         flush_all 2 -> OK¶
         flush_all -> OK¶
         get new -> END¶
         set new 0 0 1¶z -> STORED¶
         + 2000
         get new -> VALUE new 0 1¶z¶END¶
         flush_all -1 -> OK¶
         get new -> END¶
         flush_all x -> CLIENT_ERROR invalid exptime argument¶
         flush_all 1 2 3 -> ERROR¶",
    );
}

#[test]
fn an_invalid_request_is_refused_and_the_next_one_runs() {
    let key = "k".repeat(251);
    let long = "x".repeat(1025);
    let mut dialogue = Dialogue::small(|settings| settings.value_len_max = 1024);
    dialogue.play(&format!(
        "nonsense -> ERROR¶
         GET k -> ERROR¶
         get -> ERROR¶
         ¶get k -> ERROR¶END¶
         set k 0 0 -> ERROR¶
         set k 0 0 1 noreply x -> ERROR¶
         set k x 0 1¶x -> CLIENT_ERROR bad command line format¶
         set k 0 x 1¶x -> CLIENT_ERROR bad command line format¶
         set k 0 0 x -> CLIENT_ERROR bad command line format¶
         set k 0 0 -1 -> CLIENT_ERROR bad command line format¶
         set k 4294967296 0 1¶x -> CLIENT_ERROR bad command line format¶
         set k 0 0 1¶toolong -> CLIENT_ERROR bad data chunk¶ERROR¶
         set {key} 0 0 1¶x -> CLIENT_ERROR bad command line format¶
         get a {key} -> CLIENT_ERROR bad command line format¶
         delete {key} -> CLIENT_ERROR bad command line format¶
         incr {key} 1 -> CLIENT_ERROR bad command line format¶
         touch {key} 1 -> CLIENT_ERROR bad command line format¶
         set {} 0 0 1¶x -> STORED¶
         set k 0 0 1¶x -> STORED¶
         set k 0 0 1025¶{long} -> SERVER_ERROR object too large for cache¶
         get k -> END¶
         set k 0 0 1024¶{} -> STORED¶
         append k 0 0 1¶x -> NOT_STORED¶
         prepend k 0 0 1¶x -> NOT_STORED¶
         ms k 1 MA¶x -> NS¶
         append k 0 0 0¶ -> STORED¶
         add k 0 0 1025¶{long} -> SERVER_ERROR object too large for cache¶
         strlen -> ERROR¶
         redis> STRLEN k -> :1024¶",
        &key[1..],
        &long[1..],
    ));
}

#[test]
fn commands_about_the_server_answer() {
    play(
        "version -> VERSION 1.6.45¶
         verbosity 1 -> OK¶
         verbosity 1 noreply -> 
         verbosity -> ERROR¶
         verbosity x -> CLIENT_ERROR bad command line format¶
         cache_memlimit 4 -> MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m¶
         cache_memlimit 64 -> OK¶
         cache_memlimit 1000000001 -> MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes¶
         cache_memlimit x -> ERROR¶
         shutdown -> ERROR: shutdown not enabled¶
         watch fetchers -> CLIENT_ERROR watch commands not allowed¶
         lru_crawler metadump all -> CLIENT_ERROR lru crawler disabled¶
         slabs reassign 1 2 -> CLIENT_ERROR slab reassignment disabled¶
         slabs automove 1 -> ERROR¶
         lru mode flat -> ERROR¶
         stats nonsense -> ERROR¶
         stats sizes -> STAT sizes_status disabled¶END¶
         stats items -> END¶
         stats detail -> CLIENT_ERROR usage: stats detail on|off|dump¶",
    );
}

#[test]
fn figures_are_counted_by_memcacheds_names() {
    let mut dialogue = Dialogue::new();
    for request in [
        "set k 0 0 1¶1",
        "get k none",
        "gets k",
        "incr k 1",
        "incr none 1",
        "decr k 1",
        "decr none 1",
        "cas none 0 0 1 5¶x",
        "cas k 0 0 1 99¶x",
        "gat 5 k",
        "touch none 5",
        "delete none",
        "delete k",
        "flush_all",
    ] {
        dialogue.say(request);
    }
    let figures = |dialogue: &mut Dialogue| -> std::collections::BTreeMap<String, String> {
        let text = dialogue.say("stats");
        let lines = text.strip_suffix("END¶").unwrap().split_terminator('¶');
        let pair = |line: &str| {
            let (name, value) = line.strip_prefix("STAT ").unwrap().split_once(' ').unwrap();
            (name.to_string(), value.to_string())
        };
        lines.map(pair).collect()
    };
    let found = figures(&mut dialogue);
    let expected = [
        ("cmd_get", "4"),
        ("get_hits", "3"),
        ("get_misses", "1"),
        ("cmd_set", "3"),
        ("incr_hits", "1"),
        ("incr_misses", "1"),
        ("decr_hits", "1"),
        ("decr_misses", "1"),
        ("cas_misses", "1"),
        ("cas_badval", "1"),
        ("cmd_touch", "2"),
        ("touch_hits", "1"),
        ("touch_misses", "1"),
        ("delete_misses", "1"),
        ("delete_hits", "1"),
        ("cmd_flush", "1"),
        ("total_items", "1"),
        ("curr_items", "0"),
        ("threads", "1"),
        ("version", "1.6.45"),
    ];
    for (name, value) in expected {
        assert_eq!(found.get(name).map(String::as_str), Some(value), "{name}");
    }
    // The requests of memcached_exporter.
    for name in [
        "uptime",
        "time",
        "rusage_user",
        "rusage_system",
        "curr_connections",
        "total_connections",
        "max_connections",
        "bytes_read",
        "bytes_written",
        "bytes",
        "limit_maxbytes",
        "evictions",
        "reclaimed",
    ] {
        assert!(found.contains_key(name), "{name}");
    }
    assert_eq!(dialogue.say("stats reset"), "RESET¶");
    assert_eq!(figures(&mut dialogue)["cmd_get"], "0");
    dialogue.say("set k 0 0 1¶1");
    assert!(dialogue.say("stats items").starts_with("STAT items:1:number 1¶"));
    dialogue.play(
        "stats cachedump 1 10 -> ITEM k [1 b; 0 s]¶END¶
         touch k 100 -> TOUCHED¶
         stats cachedump 1 0 -> ITEM k [1 b; 1700000100 s]¶END¶
         redis> SET 'a b' x -> +OK¶
         redis> HSET h f v -> :1¶
         stats cachedump 1 5 -> ITEM k [1 b; 1700000100 s]¶END¶
         stats cachedump 2 5 -> END¶
         stats cachedump 64 5 -> CLIENT_ERROR Illegal slab id¶
         stats cachedump x 5 -> CLIENT_ERROR bad command line format¶
         stats cachedump 1 -> CLIENT_ERROR bad command line¶
         redis> DEL h -> :1¶",
    );
    assert!(dialogue.say("stats slabs").contains("STAT active_slabs 1¶"));
    assert!(dialogue.say("stats settings").contains("STAT item_size_max 1048576¶"));
    assert!(dialogue.say("stats conns").contains(":addr tcp:peer¶"));
}

#[test]
fn prefixes_are_counted_while_a_client_wants_it() {
    let mut dialogue = Dialogue::small(|settings| settings.prefixes_max = 2);
    dialogue.play(
        "set a:1 0 0 1¶x -> STORED¶
         stats detail dump -> END¶
         stats detail on -> OK¶
         set a:1 0 0 1¶x -> STORED¶
         get a:1 a:2 none -> VALUE a:1 0 1¶x¶END¶
         mg b:1 v -> EN¶
         delete a:1 -> DELETED¶
         set c:1 0 0 1¶x -> STORED¶
         stats detail dump -> PREFIX a get 2 hit 1 set 1 del 1¶PREFIX b get 1 hit 0 set 0 del 0¶END¶
         stats reset -> RESET¶
         stats detail dump -> END¶
         get a:z¶get a:z -> END¶END¶
         stats detail dump -> PREFIX a get 2 hit 0 set 0 del 0¶END¶
         stats detail off -> OK¶
         get a:1 -> END¶
         stats detail dump -> PREFIX a get 2 hit 0 set 0 del 0¶END¶",
    );
}
