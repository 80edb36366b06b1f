//! The meta commands, flag by flag.

use super::*;

#[test]
fn mg_shows_the_requested_fields_in_order() {
    play(
        "mg k v -> EN¶
         mg k k Oabc q -> 
         mg k k Oabc -> EN kk Oabc¶
         ms k 5 F7 T90¶hello -> HD¶
         mg k -> HD¶
         mg k v -> VA 5¶hello¶
         mg k s v f t k Oxyz c -> VA 5 s5 f7 t90 kk Oxyz c1¶hello¶
         mg k c f -> HD c1 f7¶
         + 1
         mg k t -> HD t90¶
         + 1000
         mg k t -> HD t89¶
         ms k 0¶ -> HD¶
         mg k t s v -> VA 0 t-1 s0¶¶
         mg a b -> CLIENT_ERROR error decoding key¶
         ms Zm9vIGJhcg== 1 b k¶x -> HD kZm9vIGJhcg== b¶
         mg Zm9vIGJhcg== b k v -> VA 1 kZm9vIGJhcg== b¶x¶
         redis> GET 'foo bar' -> $1¶x¶
         mg -> ERROR¶
         mg k v v -> CLIENT_ERROR duplicate flag¶
         mg k ! -> CLIENT_ERROR invalid flag¶
         mn -> MN¶",
    );
}

#[test]
fn mg_sends_only_a_changed_value() {
    play(
        "ms k 1 c¶a -> HD c1¶
         mg k v C1 -> HD¶
         mg k v c C1 -> HD c1¶
         mg k v c C2 -> VA 1 c1¶a¶
         ms k 1¶b -> HD¶
         mg k v C1 -> VA 1¶b¶",
    );
}

#[test]
fn mg_says_when_an_item_was_fetched() {
    play(
        "ms k 1¶a -> HD¶
         mg k h l t -> HD h0 l0 t-1¶
         + 5000
         mg k h l -> HD h1 l5¶
         mg k h l -> HD h1 l0¶
         + 3000
         mg k u h l -> HD h1 l3¶
         mg k u h l -> HD h1 l3¶
         get k -> VALUE k 0 1¶a¶END¶
         mg k u l -> HD l0¶
         ms k 1¶b -> HD¶
         + 2000
         mg k h l u -> HD h0 l2¶
         mg k v -> VA 1¶b¶
         mg k h u -> HD h1¶
         set k 0 0 1¶c -> STORED¶
         mg k h u -> HD h0¶
         gets k -> VALUE k 0 1 1¶c¶END¶
         + 1000
         mg k h l u c -> HD h1 l1 c1¶
         touch k 0 -> TOUCHED¶
         mg k l u -> HD l0¶
         mg k h l v -> VA 1 h1 l0¶c¶",
    );
}

#[test]
fn mg_makes_a_missing_item_and_one_client_wins() {
    play(
        "mg k v N30 t -> VA 0 t30 W¶¶
         + 1000
         mg k v t N30 -> VA 0 t29 Z¶¶
         mg k v -> VA 0 Z¶¶
         ms k 3 T60¶new -> HD¶
         mg k v N30 -> VA 3¶new¶
         mg e t c N30 E99 -> HD t-1 c99 W¶
         + 30000
         mg e -> EN¶",
    );
}

#[test]
fn mg_gives_one_client_the_renewal_of_an_item_that_ends_soon() {
    play(
        "ms k 1 T30¶a -> HD¶
         mg k R30 t -> HD t30¶
         mg k R29 t -> HD t30¶
         + 1001
         mg k R29 t -> HD t29¶
         mg k R30 t -> HD t29 W¶
         mg k R30 t -> HD t29 Z¶
         mg k v -> VA 1 Z¶a¶
         ms k 1¶b -> HD¶
         mg k R30 -> HD¶
         ms k 1 T10¶b -> HD¶
         mg k t T90 R30 -> HD t10¶
         mg k T20 t R30 -> HD t20 W¶
         mg k T-1 v -> VA 1 Z¶b¶
         mg k v -> EN¶",
    );
}

#[test]
fn an_invalidated_item_is_served_while_one_client_renews_it() {
    play(
        "ms k 3 c T60 F5¶old -> HD c1¶
         md k I T30 -> HD¶
         mg k v c t -> VA 3 c2 t30 X W¶old¶
         mg k v c -> VA 3 c2 Z X¶old¶
         ms k 4 C1 I F6¶late -> HD¶
         mg k v c t f -> VA 4 c3 t30 f6 Z X¶late¶
         ms k 3 C1000 I¶new -> EX¶
         ms k 3 C3 T60¶new -> HD¶
         mg k v t -> VA 3 t60¶new¶
         md k I q -> 
         mg k -> HD X W¶
         ms k 3 C1¶new -> EX¶
         md none I -> NF¶",
    );
}

#[test]
fn ms_has_the_modes_of_the_classic_commands() {
    play(
        "ms k 1 MR¶a -> NS¶
         ms k 1 MA¶a -> NS¶
         ms k 1 MP¶a -> NS¶
         ms k 1 ME F3¶b -> HD¶
         ms k 1 ME¶c -> NS¶
         ms k 1 MA s¶c -> HD s2¶
         ms k 1 MP s c¶a -> HD s3 c1¶
         mg k v f -> VA 3 f3¶abc¶
         ms k 1 MA C1¶d -> HD¶
         ms k 1 MA C1¶e -> EX¶
         ms k 1 MR C1¶e -> EX¶
         ms k 1 MS q¶x -> 
         ms k 1 MR q¶y -> 
         mg k v -> VA 1¶y¶
         ms new 1 MA N60 q¶z -> 
         mg new v t -> VA 1 t60¶z¶
         ms new2 1 MP N0¶z -> HD¶
         ms k 1 C0¶x -> EX¶
         ms none 1 C5 k Oab c¶x -> NF knone Oab c0¶
         ms none 1 C5 q¶x -> NF¶
         ms k 1 MX¶x -> CLIENT_ERROR invalid mode for ms M token¶
         ms k 1 Mset¶x -> CLIENT_ERROR incorrect length for M token¶
         ms k x -> CLIENT_ERROR bad command line format¶
         ms k -> CLIENT_ERROR bad command line format¶
         ms k S1 -> CLIENT_ERROR bad command line format¶
         ms -> ERROR¶
         ms k 1 T1 T2¶x -> CLIENT_ERROR duplicate flag¶
         ms k 1 q¶xyz -> CLIENT_ERROR bad data chunk¶ERROR¶
         mg k v -> VA 1¶y¶",
    );
}

#[test]
fn a_client_may_say_which_number_an_item_gets() {
    play(
        "ms k 1 E100 c¶a -> HD c100¶
         mg k c -> HD c100¶
         ms k 1 C100 E50 c¶b -> HD c50¶
         gets k -> VALUE k 0 1 50¶b¶END¶
         md k I E60 -> HD¶
         mg k c -> HD c60 X W¶
         ms k 1 C59 E61 I¶c -> HD¶
         mg k c v -> VA 1 c61 Z X¶c¶
         ms k 1 C62 I¶d -> EX¶
         ma n N0 J5 E70 c -> HD c70¶
         ma n E71 c v -> VA 1 c71¶6¶",
    );
}

#[test]
fn md_deletes_empties_and_compares() {
    play(
        "md k -> NF¶
         md k q -> NF¶
         md k k Oab -> NF kk Oab¶
         ms k 1 c F9 T60¶a -> HD c1¶
         md k C2 k -> EX kk¶
         md k C1 Ox -> HD Ox¶
         ms k 1 c F9 T60¶a -> HD c2¶
         md k x c -> HD¶
         mg k v c f t -> VA 0 c2 f0 t-1¶¶
         md k x I F3 T10 -> HD¶
         mg k v f t -> VA 0 f3 t10 X W¶¶
         md k q -> 
         mg k -> EN¶
         md k ! -> CLIENT_ERROR invalid flag¶",
    );
}

#[test]
fn ma_counts() {
    play(
        "ma n -> NF¶
         ma n q -> NF¶
         ma n k Oab -> NF kn Oab¶
         ma n N60 J13 v t -> VA 2 t60¶13¶
         ma n v -> VA 2¶14¶
         ma n D10 -> HD¶
         ma n MD D4 v -> VA 2¶20¶
         ma n M- D100 v -> VA 1¶0¶
         ma n M+ v c -> VA 1 c1¶1¶
         ma n C5 -> EX¶
         ma n C1 v t -> VA 1 t60¶2¶
         ma n T90 t -> HD t90¶
         ma n t T0 -> HD t90¶
         ma n t q -> 
         ma n t v -> VA 1 t-1¶6¶
         ma m N0 J1 q -> 
         mg m v -> VA 1¶1¶
         ma n MX -> CLIENT_ERROR invalid mode for ma M token¶
         ma n Dx -> CLIENT_ERROR invalid or duplicate flag¶
         ma -> ERROR¶
         ms s 1 F8 T60¶x -> HD¶
         ma s -> CLIENT_ERROR cannot increment or decrement non-numeric value¶
         ms s 1 F8 T60¶7 -> HD¶
         ma s -> HD¶
         mg s f t v -> VA 1 f8 t60¶8¶",
    );
}

#[test]
fn me_tells_all() {
    let mut dialogue = Dialogue::new();
    dialogue.play(
        "me -> CLIENT_ERROR bad command line format¶
         me k -> EN¶
         ms k 1 T100 c¶a -> HD c1¶",
    );
    let told = dialogue.say("me k");
    assert!(told.starts_with("ME k exp=-100 la=0 cas=1 fetch=no cls=1 size="), "{told}");
    dialogue.say("ms Zm9v 1 b¶x");
    assert!(dialogue.say("me Zm9v b").starts_with("ME Zm9v exp=-1 "));
}
