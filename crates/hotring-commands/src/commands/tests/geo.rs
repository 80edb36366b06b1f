//! Places on earth: every command, option and error, and areas at the edges of the map. The replies are those of Redis
//! 7.0.15.

use crate::exec::dialogue::play;

#[test]
fn places_are_stored_and_found() {
    play(
        r"
        GEOADD Sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania -> :2¶
        GEOADD Sicily NX 1 1 Palermo 2 2 new -> :1¶
        GEOADD Sicily XX CH 13.583333 37.316667 Palermo 2 2 other -> :1¶
        GEOADD Sicily CH 13.361389 38.115556 Palermo 13.583333 37.316667 Agrigento -> :2¶
        GEOADD Sicily XX 1 1 new -> :0¶
        ZREM Sicily new -> :1¶
        GEOADD Sicily NX XX 1 1 a -> -ERR syntax error¶
        GEOADD Sicily 1 1 -> -ERR wrong number of arguments for 'geoadd' command¶
        GEOADD Sicily 1 1 a 1 -> -ERR syntax error¶
        GEOADD Sicily x 1 a -> -ERR value is not a valid float¶
        GEOADD Sicily 1 86 a -> -ERR invalid longitude,latitude pair 1.000000,86.000000¶
        GEOADD Sicily 181 1 a -> -ERR invalid longitude,latitude pair 181.000000,1.000000¶
        GEOADD edges 180 85.05112878 ne -180 -85.05112878 sw 0 0 middle 179.9 0 east -179.9 0 west -> :5¶
        ZSCORE edges ne -> $17¶13510798882111488¶ | ,13510798882111488¶
        GEOPOS edges ne sw middle none -> *4¶*2¶$3¶180¶$19¶85.0511287799999991¶*2¶$22¶-179.99999731779098511¶$21¶-85.05112751263942528¶*2¶$19¶0.00000268220901489¶$19¶0.00000126736058093¶*-1¶ | *4¶*2¶,180¶,85.0511287799999991¶*2¶,-179.99999731779098511¶,-85.05112751263942528¶*2¶,0.00000268220901489¶,0.00000126736058093¶_¶
        GEOPOS none a -> *1¶*-1¶ | *1¶_¶
        GEOHASH Sicily Palermo Catania none -> *3¶$11¶sqc8b49rny0¶$11¶sqdtr74hyu0¶$-1¶ | *3¶$11¶sqc8b49rny0¶$11¶sqdtr74hyu0¶_¶
        GEOHASH edges ne sw middle -> *3¶$11¶bp05b5048p0¶$11¶00bh0hbj200¶$11¶s0000000000¶
        GEODIST Sicily Palermo Catania -> $11¶166274.1516¶
        GEODIST Sicily Palermo Catania km -> $8¶166.2742¶
        GEODIST Sicily Palermo Catania MI -> $8¶103.3182¶
        GEODIST Sicily Palermo Catania ft -> $11¶545518.8700¶
        GEODIST Sicily Palermo Catania yd -> -ERR unsupported unit provided. please use M, KM, FT, MI¶
        GEODIST Sicily Palermo none -> $-1¶ | _¶
        GEODIST none a b -> $-1¶ | _¶
        GEODIST Sicily Palermo Catania m m -> -ERR syntax error¶
        SET string v -> +OK¶
        GEOADD string 1 1 a -> -WRONGTYPE Operation against a key holding the wrong kind of value¶
        GEOPOS string a -> -WRONGTYPE Operation against a key holding the wrong kind of value¶
        GEODIST string a b -> -WRONGTYPE Operation against a key holding the wrong kind of value¶
        ZADD odd -5 negative 0.5 half -> :2¶
        GEOPOS odd negative half -> *2¶*2¶$3¶180¶$19¶85.0511287799999991¶*2¶$22¶-179.99999731779098511¶$21¶-85.05112751263942528¶ | *2¶*2¶,180¶,85.0511287799999991¶*2¶,-179.99999731779098511¶,-85.05112751263942528¶
        GEODIST edges east west km -> $7¶22.2454¶
        ",
    );
}

#[test]
fn members_of_areas() {
    play(
        r"
        GEOADD Sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 13.583333 37.316667 Agrigento -> :3¶
        GEORADIUS Sicily 15 37 200 km ASC -> *3¶$7¶Catania¶$9¶Agrigento¶$7¶Palermo¶
        GEORADIUS Sicily 15 37 200 km DESC WITHDIST WITHHASH -> *3¶*3¶$7¶Palermo¶$8¶190.4424¶:3479099956230698¶*3¶$9¶Agrigento¶$8¶130.4235¶:3479030013248308¶*3¶$7¶Catania¶$7¶56.4413¶:3479447370796909¶
        GEORADIUS Sicily 15 37 100 km WITHCOORD -> *1¶*2¶$7¶Catania¶*2¶$20¶15.08726745843887329¶$20¶37.50266842333162032¶ | *1¶*2¶$7¶Catania¶*2¶,15.08726745843887329¶,37.50266842333162032¶
        GEORADIUS Sicily 15 37 200 km COUNT 1 -> *1¶$7¶Catania¶
        GEORADIUS Sicily 15 37 200 km COUNT 1 ANY -> *1¶$9¶Agrigento¶
        GEORADIUS Sicily 15 37 200 km COUNT 2 ANY DESC -> *2¶$7¶Palermo¶$9¶Agrigento¶
        GEORADIUS Sicily 15 37 200 km ANY -> -ERR the ANY argument requires COUNT argument¶
        GEORADIUS Sicily 15 37 200 km COUNT 0 -> -ERR COUNT must be > 0¶
        GEORADIUS Sicily 15 37 200 yd -> -ERR unsupported unit provided. please use M, KM, FT, MI¶
        GEORADIUS Sicily 15 37 -1 km -> -ERR radius cannot be negative¶
        GEORADIUS Sicily 15 37 x km -> -ERR need numeric radius¶
        GEORADIUS Sicily 15 99 1 km -> -ERR invalid longitude,latitude pair 15.000000,99.000000¶
        GEORADIUS Sicily 15 37 200 km STORE to WITHDIST -> -ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options¶
        GEORADIUS Sicily 15 37 200 km STOREDIST to STORE to -> :3¶
        ZRANGE to 0 -1 -> *3¶$9¶Agrigento¶$7¶Palermo¶$7¶Catania¶
        ZSCORE to Palermo -> $16¶3479099956230698¶ | ,3479099956230698¶
        GEORADIUS Sicily 15 37 200 km STORE to STOREDIST to COUNT 1 -> :1¶
        ZRANGE to 0 -1 -> *1¶$7¶Catania¶
        ZREMRANGEBYSCORE to 56 57 -> :1¶
        GEORADIUS_RO Sicily 15 37 200 km STORE to -> -ERR syntax error¶
        GEORADIUSBYMEMBER Sicily Palermo 0 m -> *1¶$7¶Palermo¶
        GEORADIUSBYMEMBER Sicily Palermo 100 km ASC -> *2¶$7¶Palermo¶$9¶Agrigento¶
        GEORADIUSBYMEMBER Sicily none 100 km -> -ERR could not decode requested zset member¶
        GEORADIUSBYMEMBER Sicily Palermo 200 km ASC STORE to -> :3¶
        ZCARD to -> :3¶
        GEORADIUSBYMEMBER none a x y -> *0¶
        GEORADIUSBYMEMBER_RO Sicily Palermo 100 km STORE to -> -ERR syntax error¶
        GEOSEARCH Sicily FROMLONLAT 15 37 BYBOX 400 400 km ASC WITHDIST -> *3¶*2¶$7¶Catania¶$7¶56.4413¶*2¶$9¶Agrigento¶$8¶130.4235¶*2¶$7¶Palermo¶$8¶190.4424¶
        GEOSEARCH Sicily FROMLONLAT 15 37 BYBOX 400 50 km ASC -> *0¶
        GEOSEARCH Sicily FROMLONLAT 15 37 BYBOX 50 400 km ASC -> *1¶$7¶Catania¶
        GEOSEARCH Sicily FROMLONLAT 15 37 BYBOX 400 -1 km -> -ERR height or width cannot be negative¶
        GEOSEARCH Sicily FROMLONLAT 15 37 BYBOX x 1 km -> -ERR need numeric width¶
        GEOSEARCH Sicily FROMLONLAT 15 37 BYBOX 1 x km -> -ERR need numeric height¶
        GEOSEARCH Sicily FROMMEMBER Palermo FROMLONLAT 15 37 BYRADIUS 1 m -> -ERR syntax error¶
        GEOSEARCH Sicily FROMLONLAT 15 37 FROMMEMBER Palermo BYRADIUS 1 m -> -ERR syntax error¶
        GEOSEARCH Sicily FROMMEMBER Palermo BYRADIUS 1 m BYBOX 1 1 m -> -ERR syntax error¶
        GEOSEARCH Sicily FROMMEMBER Palermo BYBOX 1 1 m BYRADIUS 1 m -> -ERR syntax error¶
        GEOSEARCH Sicily BYBOX 1 1 m -> -ERR wrong number of arguments for 'geosearch' command¶
        GEOSEARCH Sicily FROMMEMBER Palermo -> -ERR wrong number of arguments for 'geosearch' command¶
        GEOSEARCH Sicily FROMMEMBER Palermo BYRADIUS 1 m ANY -> -ERR the ANY argument requires COUNT argument¶
        GEOSEARCH Sicily FROMMEMBER Palermo BYRADIUS 1 m STOREDIST -> -ERR syntax error¶
        GEOSEARCH none FROMMEMBER a BYRADIUS 1 m -> *0¶
        GEOSEARCHSTORE to Sicily FROMMEMBER Palermo BYRADIUS 200 km COUNT 2 -> :2¶
        ZRANGE to 0 -1 -> *2¶$9¶Agrigento¶$7¶Palermo¶
        GEOSEARCHSTORE to Sicily FROMMEMBER Palermo BYRADIUS 200 km STOREDIST ASC -> :3¶
        ZREMRANGEBYSCORE to 90 91 -> :1¶
        GEOSEARCHSTORE to Sicily FROMMEMBER Palermo BYRADIUS 200 km WITHDIST -> -ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options¶
        GEOSEARCHSTORE to Sicily BYBOX 1 1 m -> -ERR wrong number of arguments for 'geosearchstore' command¶
        GEOSEARCHSTORE to none FROMMEMBER a BYRADIUS 1 m -> :0¶
        EXISTS to -> :0¶
        ",
    );
}

/// Around the date line, near the poles, and so large that cells are their own neighbours.
#[test]
fn areas_at_the_edges_of_the_map() {
    play(
        r"
        GEOADD edges 180 85.05112878 ne -180 -85.05112878 sw 0 0 middle 179.9 0 east -179.9 0 west 10 84 north 100 84 north2 10 -84 south -> :8¶
        GEOSEARCH edges FROMMEMBER east BYRADIUS 50 km ASC -> *2¶$4¶east¶$4¶west¶
        GEOSEARCH edges FROMMEMBER west BYBOX 50 1 km ASC -> *2¶$4¶west¶$4¶east¶
        GEOSEARCH edges FROMMEMBER north BYRADIUS 1000 km ASC -> *2¶$5¶north¶$6¶north2¶
        GEOSEARCH edges FROMMEMBER north BYRADIUS 700 km ASC -> *1¶$5¶north¶
        GEOSEARCH edges FROMLONLAT 55 84 BYRADIUS 500 km ASC -> *0¶
        GEOSEARCH edges FROMLONLAT 10 -85 BYRADIUS 300 km ASC -> *1¶$5¶south¶
        GEOSEARCH edges FROMLONLAT 60 -84 BYBOX 1200 1000 km ASC -> *1¶$5¶south¶
        GEOSEARCH edges FROMLONLAT 0 0 BYRADIUS 25000 km ASC -> *7¶$6¶middle¶$5¶south¶$5¶north¶$6¶north2¶$2¶sw¶$4¶east¶$4¶west¶
        GEOSEARCH edges FROMLONLAT 0 0 BYRADIUS 15000 km -> *5¶$6¶middle¶$5¶north¶$6¶north2¶$5¶south¶$2¶sw¶
        GEOSEARCH edges FROMLONLAT 90 10 BYRADIUS 12000 km -> *7¶$6¶middle¶$5¶north¶$4¶east¶$6¶north2¶$5¶south¶$4¶west¶$2¶sw¶
        GEOSEARCH edges FROMLONLAT 0 0 BYBOX 40000 20000 km -> *5¶$6¶middle¶$5¶north¶$6¶north2¶$5¶south¶$2¶sw¶
        ",
    );
}

/// The equator and the meridian of Greenwich are sides of the largest cells.
#[test]
fn neighbouring_cells_are_looked_at() {
    play(
        r"
        GEOADD p 0.001 0.001 ne 0.001 -0.001 se -0.001 0.001 nw -0.001 -0.001 sw -> :4¶
        GEOSEARCH p FROMLONLAT 0.001 0.001 BYRADIUS 1 km -> *4¶$2¶ne¶$2¶se¶$2¶nw¶$2¶sw¶
        GEOSEARCH p FROMLONLAT 0.001 -0.001 BYRADIUS 1 km -> *4¶$2¶se¶$2¶ne¶$2¶sw¶$2¶nw¶
        GEOSEARCH p FROMLONLAT -0.001 0.001 BYRADIUS 1 km -> *4¶$2¶nw¶$2¶sw¶$2¶ne¶$2¶se¶
        GEOSEARCH p FROMLONLAT -0.001 -0.001 BYBOX 1 1 km -> *4¶$2¶sw¶$2¶nw¶$2¶se¶$2¶ne¶
        ",
    );
}

#[test]
fn some_members_are_those_that_are_found_first() {
    play(
        r"
        GEOADD Sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 13.583333 37.316667 Agrigento -> :3¶
        GEORADIUS Sicily 15 37 200 km COUNT 3 ANY -> *3¶$9¶Agrigento¶$7¶Palermo¶$7¶Catania¶
        GEORADIUS Sicily 15 37 200 km COUNT 2 ANY ASC -> *2¶$9¶Agrigento¶$7¶Palermo¶
        GEORADIUS Sicily 15 37 200 km COUNT 1 ANY DESC -> *1¶$9¶Agrigento¶
        GEORADIUSBYMEMBER Sicily Palermo 200 km STORE to -> :3¶
        ",
    );
}
