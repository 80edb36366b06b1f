// Connects Jedis with its defaults and checks that it gets what it expects.

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPool;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.csc.CacheConfig;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.resps.ScanResult;

public class Check {
    static void equal(Object seen, Object expected) {
        if (!java.util.Objects.equals(seen, expected)) {
            throw new AssertionError("expected " + expected + ", got " + seen);
        }
    }

    static void ok(String what) {
        System.out.println("ok: " + what);
    }

    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[0]);
        try (JedisPool pool = new JedisPool("127.0.0.1", port); Jedis jedis = pool.getResource()) {
            equal(jedis.ping(), "PONG");
            ok("ping from a pool");
            strings(jedis);
            expiry(jedis);
            hashes(jedis);
            pipeline(jedis);
            transaction(jedis);
            scan(jedis);
            errors(jedis);
            pubsub(pool, jedis);
            copies(port, jedis);
            equal(jedis.info("server").contains("hotring_version"), true);
            equal(jedis.configGet("maxclients").containsKey("maxclients"), true);
            ok("INFO and CONFIG GET");
        }
    }

    static void strings(Jedis jedis) {
        equal(jedis.set("java:greeting", "hello\r\nworld"), "OK");
        equal(jedis.get("java:greeting"), "hello\r\nworld");
        equal(jedis.get("java:missing"), null);
        equal(jedis.set("java:greeting", "x", SetParams.setParams().nx().px(1000)), null);
        byte[] bytes = {0, -1, 13, 10};
        jedis.set("java:bytes".getBytes(), bytes);
        equal(Arrays.equals(jedis.get("java:bytes".getBytes()), bytes), true);
        jedis.mset("java:a", "1", "java:b", "2");
        equal(jedis.mget("java:a", "java:missing", "java:b"), Arrays.asList("1", null, "2"));
        equal(jedis.incrBy("java:a", 41), 42L);
        equal(jedis.getDel("java:a"), "42");
        ok("strings and bytes");
    }

    /** What is kept on the client's side is asked for again once somebody has changed it. */
    static void copies(int port, Jedis other) throws Exception {
        HostAndPort address = new HostAndPort("127.0.0.1", port);
        DefaultJedisClientConfig config =
                DefaultJedisClientConfig.builder().protocol(RedisProtocol.RESP3).build();
        CacheConfig cache = CacheConfig.builder().maxSize(100).build();
        try (UnifiedJedis jedis = new UnifiedJedis(address, config, cache)) {
            for (String value : List.of("1", "2", "3")) {
                other.set("java:copy", value);
                long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
                while (!value.equals(jedis.get("java:copy"))) {
                    equal(System.nanoTime() < deadline, true);
                    Thread.sleep(5);
                }
                long hits = jedis.getCache().getStats().getHitCount();
                equal(jedis.get("java:copy"), value);
                equal(jedis.getCache().getStats().getHitCount() > hits, true);
            }
        }
        ok("copies on the client's side");
    }

    static void expiry(Jedis jedis) throws Exception {
        jedis.psetex("java:short", 200, "x");
        long left = jedis.pttl("java:short");
        equal(left > 0 && left <= 200, true);
        Thread.sleep(250);
        equal(jedis.exists("java:short"), false);
        equal(jedis.ttl("java:short"), -2L);
        ok("expiry");
    }

    static void hashes(Jedis jedis) {
        jedis.del("java:hash");
        equal(jedis.hset("java:hash", Map.of("a", "1", "b", "2")), 2L);
        equal(jedis.hgetAll("java:hash"), Map.of("a", "1", "b", "2"));
        equal(jedis.hincrBy("java:hash", "a", 2), 3L);
        ok("hashes");
    }

    static void pipeline(Jedis jedis) {
        jedis.del("java:counter");
        Pipeline pipeline = jedis.pipelined();
        Response<Long> last = null;
        for (int i = 0; i < 200; i++) {
            last = pipeline.incr("java:counter");
        }
        pipeline.sync();
        equal(last.get(), 200L);
        ok("a pipeline of 200 commands");
    }

    static void transaction(Jedis jedis) {
        jedis.mset("java:from", "90", "java:to", "10");
        Transaction transaction = jedis.multi();
        transaction.decrBy("java:from", 5);
        transaction.incrBy("java:to", 5);
        equal(transaction.exec(), List.of(85L, 15L));
        jedis.watch("java:to");
        jedis.set("java:to", "1");
        transaction = jedis.multi();
        transaction.set("java:to", "2");
        equal(transaction.exec(), null);
        equal(jedis.get("java:to"), "1");
        ok("transactions and WATCH");
    }

    static void scan(Jedis jedis) {
        for (int i = 0; i < 100; i++) {
            jedis.set("java:scan:" + i, "x");
        }
        int found = 0;
        String cursor = ScanParams.SCAN_POINTER_START;
        do {
            ScanParams params = new ScanParams().match("java:scan:*").count(20);
            ScanResult<String> part = jedis.scan(cursor, params);
            found += part.getResult().size();
            cursor = part.getCursor();
        } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
        equal(found, 100);
        ok("SCAN");
    }

    static void errors(Jedis jedis) {
        jedis.set("java:text", "abc");
        try {
            jedis.incr("java:text");
            throw new AssertionError("no error");
        } catch (JedisDataException error) {
            equal(error.getMessage().contains("not an integer"), true);
        }
        ok("errors");
    }

    static void pubsub(JedisPool pool, Jedis jedis) throws Exception {
        CompletableFuture<String> message = new CompletableFuture<>();
        CompletableFuture<Void> listening = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try (Jedis listener = pool.getResource()) {
                listener.subscribe(new JedisPubSub() {
                    @Override
                    public void onSubscribe(String channel, int count) {
                        listening.complete(null);
                    }

                    @Override
                    public void onMessage(String channel, String text) {
                        message.complete(text);
                        unsubscribe();
                    }
                }, "java:news");
            }
        });
        thread.start();
        listening.get(20, TimeUnit.SECONDS);
        equal(jedis.publish("java:news", "hello"), 1L);
        equal(message.get(20, TimeUnit.SECONDS), "hello");
        thread.join();
        ok("pub/sub");
    }
}
