import io.github.bucket4j.BucketConfiguration;
import io.github.bucket4j.distributed.BucketProxy;
import io.github.bucket4j.distributed.ExpirationAfterWriteStrategy;
import io.github.bucket4j.distributed.proxy.ProxyManager;
import io.github.bucket4j.redis.lettuce.Bucket4jLettuce;
import io.lettuce.core.KeyValue;
import io.lettuce.core.RedisClient;
import io.lettuce.core.ScanIterator;
import io.lettuce.core.ScoredValue;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.codec.RedisCodec;
import io.lettuce.core.codec.StringCodec;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** Lettuce with the types, and Bucket4j's token buckets over it. */
public class Bucket4jCheck {
    static void ensure(boolean ok, String what) {
        if (!ok) {
            throw new AssertionError(what);
        }
    }

    static void types(RedisClient client) throws Exception {
        RedisCommands<String, String> redis = client.connect().sync();
        redis.rpush("list", "a", "b", "c");
        ensure(redis.lrange("list", 0, -1).equals(List.of("a", "b", "c")) && redis.lpop("list").equals("a"), "the list");
        redis.hset("hash", Map.of("f", "1", "g", "2"));
        ensure(redis.hgetall("hash").equals(Map.of("f", "1", "g", "2")), "the hash");
        ensure(redis.hexpire("hash", Duration.ofSeconds(60), "f", "none").equals(List.of(1L, -2L)), "the field's expiry");
        redis.zadd("board", ScoredValue.just(1.5, "one"), ScoredValue.just(3, "three"));
        ensure(redis.zrevrangeWithScores("board", 0, 0).equals(List.of(ScoredValue.just(3, "three"))), "the sorted set");
        ensure(redis.bzpopmax(1, "board").getValue().getValue().equals("three"), "the highest");
        for (int i = 0; i < 500; i++) {
            redis.sadd("set", "member" + i);
        }
        int seen = 0;
        for (ScanIterator<String> i = ScanIterator.sscan(redis, "set"); i.hasNext(); i.next()) {
            seen++;
        }
        ensure(seen == 500, "a scan has seen " + seen + " of 500");
        redis.multi();
        redis.set("n", "1");
        redis.incrby("n", 4);
        TransactionResult results = redis.exec();
        ensure(results.size() == 2 && results.get(1).equals(5L), "the transaction");
        ExecutorService thread = Executors.newSingleThreadExecutor();
        Future<KeyValue<String, String>> popped = thread.submit(() -> client.connect().sync().blpop(10, "queue"));
        Thread.sleep(100);
        redis.rpush("queue", "job");
        ensure(popped.get(10, TimeUnit.SECONDS).getValue().equals("job"), "the blocking pop");
        thread.shutdown();
    }

    static void buckets(RedisClient client) throws Exception {
        StatefulRedisConnection<String, byte[]> connection =
            client.connect(RedisCodec.of(StringCodec.UTF8, ByteArrayCodec.INSTANCE));
        ProxyManager<String> manager = Bucket4jLettuce.casBasedBuilder(connection).expirationAfterWrite(
            ExpirationAfterWriteStrategy.basedOnTimeForRefillingBucketUpToMax(Duration.ofSeconds(10))).build();
        BucketConfiguration limit = BucketConfiguration.builder()
            .addLimit(l -> l.capacity(100).refillGreedy(1, Duration.ofMinutes(1))).build();
        BucketProxy bucket = manager.builder().build("bucket", () -> limit);
        ExecutorService threads = Executors.newFixedThreadPool(8);
        List<Future<Integer>> counts = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            counts.add(threads.submit(() -> {
                int taken = 0;
                for (int n = 0; n < 25; n++) {
                    taken += bucket.tryConsume(1) ? 1 : 0;
                }
                return taken;
            }));
        }
        int taken = 0;
        for (Future<Integer> count : counts) {
            taken += count.get(60, TimeUnit.SECONDS);
        }
        threads.shutdown();
        ensure(taken == 100, taken + " tokens are taken, not 100");
        ensure(bucket.getAvailableTokens() == 0 && bucket.estimateAbilityToConsume(1).getNanosToWaitForRefill() > 0, "none is left");
        bucket.addTokens(5);
        ensure(bucket.tryConsumeAsMuchAsPossible() == 5, "the added tokens");
        BucketConfiguration fast = BucketConfiguration.builder()
            .addLimit(l -> l.capacity(2).refillIntervally(2, Duration.ofMillis(500))).build();
        BucketProxy refilled = manager.builder().build("fast", () -> fast);
        ensure(refilled.tryConsume(2) && !refilled.tryConsume(1), "the small bucket");
        ensure(refilled.asBlocking().tryConsume(1, Duration.ofSeconds(5)), "the small bucket is not refilled");
        manager.removeProxy("bucket");
        ensure(manager.getProxyConfiguration("bucket").isEmpty(), "a removed bucket is there");
    }

    public static void main(String[] args) throws Exception {
        RedisClient client = RedisClient.create("redis://127.0.0.1:" + args[0] + "/1");
        try {
            types(client);
            System.out.println("ok: Lettuce: the types, transactions and blocking pops");
            buckets(client);
            System.out.println("ok: Bucket4j: buckets that are shared, filled and removed");
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
        client.connect().sync().flushdb();
        client.shutdown();
    }
}
