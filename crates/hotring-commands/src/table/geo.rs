//! The list of GEO and HyperLogLog commands, in the format of `list.rs`.

/// Passes the given commands, and those of GEO and HyperLogLog, to the list of cluster commands.
macro_rules! with_geo {
    ($make:ident commands { $($commands:tt)* }) => { $crate::table::with_cluster! { $make
    commands { $($commands)*
        GeoAdd = "geoadd" -5 Geo => geo::geoadd .flags(GROW).keys(&one(Access::Adjust)).since("3.2.0")
            .args("key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]")
            .cost("O(log n) for each member")
            .about("Adds members with coordinates to a sorted set.");
        GeoDist = "geodist" -4 Geo => geo::geodist .flags(READ).keys(&one(Access::Read)).since("3.2.0")
            .args("key member1 member2 [M | KM | FT | MI]")
            .about("Answers the distance between two members.");
        GeoHash = "geohash" -2 Geo => geo::geohash .flags(READ).keys(&one(Access::Read)).since("3.2.0")
            .args("key [member [member ...]]").cost(EACH_MEMBER)
            .about("Answers the geohashes of members.");
        GeoPos = "geopos" -2 Geo => geo::geopos .flags(READ).keys(&one(Access::Read)).since("3.2.0")
            .args("key [member [member ...]]").cost(EACH_MEMBER)
            .about("Answers the coordinates of members.");
        GeoRadius = "georadius" -6 Geo => geo::georadius .flags(GROW.with(Flags::MOVABLE_KEYS))
            .keys(&geo_stored(6)).since("3.2.0")
            .args("key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] \
                [COUNT count [ANY]] [ASC | DESC] [STORE storekey] [STOREDIST storedistkey]")
            .cost(EACH_PLACE)
            .about("Answers or stores the members within a radius of a place; GEOSEARCH does more.");
        GeoRadiusByMember = "georadiusbymember" -5 Geo => geo::georadiusbymember
            .flags(GROW.with(Flags::MOVABLE_KEYS)).keys(&geo_stored(5)).since("3.2.0")
            .args("key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] \
                [COUNT count [ANY]] [ASC | DESC] [STORE storekey] [STOREDIST storedistkey]")
            .cost(EACH_PLACE)
            .about("Answers or stores the members within a radius of a member; GEOSEARCH does more.");
        GeoRadiusByMemberRo = "georadiusbymember_ro" -5 Geo => geo::georadiusbymember_ro
            .flags(READ).keys(&one(Access::Read)).since("3.2.10")
            .args("key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] \
                [COUNT count [ANY]] [ASC | DESC]")
            .cost(EACH_PLACE)
            .about("Answers the members within a radius of a member.");
        GeoRadiusRo = "georadius_ro" -6 Geo => geo::georadius_ro
            .flags(READ).keys(&one(Access::Read)).since("3.2.10")
            .args("key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] \
                [COUNT count [ANY]] [ASC | DESC]")
            .cost(EACH_PLACE)
            .about("Answers the members within a radius of a place.");
        GeoSearch = "geosearch" -7 Geo => geo::geosearch .flags(READ).keys(&one(Access::Read)).since("6.2.0")
            .args("key <FROMMEMBER member | FROMLONLAT longitude latitude> \
                <BYRADIUS radius <M | KM | FT | MI> | BYBOX width height <M | KM | FT | MI>> \
                [ASC | DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]")
            .cost(EACH_PLACE)
            .about("Answers the members within a circle or a box.");
        GeoSearchStore = "geosearchstore" -8 Geo => geo::geosearchstore
            .flags(GROW).keys(&pair(Access::Overwrite, Access::Read)).since("6.2.0")
            .args("destination source <FROMMEMBER member | FROMLONLAT longitude latitude> \
                <BYRADIUS radius <M | KM | FT | MI> | BYBOX width height <M | KM | FT | MI>> \
                [ASC | DESC] [COUNT count [ANY]] [STOREDIST]")
            .cost(EACH_PLACE)
            .about("Stores the members within a circle or a box; answers how many.");

        PfAdd = "pfadd" -2 HyperLogLog => hyperloglog::pfadd
            .flags(GROW_FAST).keys(&one(Access::Extend)).since("2.8.9")
            .args("key [element [element ...]]").cost("O(1) for each element")
            .about("Adds elements to an estimated count; answers 1 if the estimate changed.");
        PfCount = "pfcount" -2 HyperLogLog => hyperloglog::pfcount
            .flags(READ).keys(&every(1, Access::ReadCached)).since("2.8.9")
            .args("key [key ...]").cost(EACH_KEY)
            .about("Estimates the number of distinct elements added to the keys.");
        PfMerge = "pfmerge" -2 HyperLogLog => hyperloglog::pfmerge
            .flags(GROW).keys(&into(Access::Merge)).since("2.8.9")
            .args("destination [source [source ...]]").cost(EACH_KEY)
            .about("Merges the estimated counts of several keys into the first.");
    }

    } };
}
pub(crate) use with_geo;
