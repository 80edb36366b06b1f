import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.Redisson;
import org.redisson.api.*;
import org.redisson.config.Config;

/** Redisson: its locks, queues, maps, limits and sets, whose work its scripts do. */
public class RedissonCheck {
    static RedissonClient client;

    static void ensure(boolean ok, String what) {
        if (!ok) {
            throw new AssertionError(what);
        }
    }

    static void queues() throws Exception {
        RQueue<String> queue = client.getQueue("queue");
        queue.addAll(List.of("a", "b", "c"));
        ensure(queue.poll().equals("a") && queue.readAll().equals(List.of("b", "c")), "the queue's order");
        RBlockingQueue<Integer> blocking = client.getBlockingQueue("blocking");
        ExecutorService threads = Executors.newFixedThreadPool(4);
        List<Future<Integer>> sums = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            sums.add(threads.submit(() -> {
                int sum = 0;
                for (Integer n = blocking.poll(10, TimeUnit.SECONDS); n != 0; n = blocking.poll(10, TimeUnit.SECONDS)) {
                    sum += n;
                }
                return sum;
            }));
        }
        for (int n = 1; n <= 200; n++) {
            blocking.put(n);
        }
        for (int i = 0; i < 4; i++) {
            blocking.put(0);
        }
        int sum = 0;
        for (Future<Integer> one : sums) {
            sum += one.get(30, TimeUnit.SECONDS);
        }
        ensure(sum == 20_100, "the workers have taken " + sum + ", not 20100");
        RBlockingQueue<String> target = client.getBlockingQueue("late");
        RDelayedQueue<String> delayed = client.getDelayedQueue(target);
        delayed.offer("later", 1, TimeUnit.SECONDS);
        ensure(target.poll() == null, "a delayed element is there at once");
        ensure("later".equals(target.poll(10, TimeUnit.SECONDS)), "a delayed element never comes");
        delayed.destroy();
        RPriorityQueue<Integer> sorted = client.getPriorityQueue("priority");
        sorted.addAll(List.of(3, 1, 2));
        ensure(sorted.poll() == 1 && sorted.poll() == 2, "the priority queue's order");
        RBoundedBlockingQueue<Integer> bounded = client.getBoundedBlockingQueue("bounded");
        ensure(bounded.trySetCapacity(2) && bounded.offer(1) && bounded.offer(2) && !bounded.offer(3), "the bound");
        threads.shutdown();
    }

    static void maps() throws Exception {
        RMapCache<String, Integer> cache = client.getMapCache("cache");
        cache.put("short", 1, 500, TimeUnit.MILLISECONDS);
        cache.put("long", 2, 1, TimeUnit.MINUTES);
        ensure(cache.putIfAbsent("long", 3) == 2 && cache.get("short") == 1, "the cache's values");
        Thread.sleep(700);
        ensure(cache.get("short") == null && cache.remainTimeToLive("long") > 50_000, "the cache's times");
        cache.setMaxSize(10);
        for (int i = 0; i < 50; i++) {
            cache.put("key" + i, i);
        }
        ensure(cache.size() <= 10, "the cache's size");
        RMap<String, Integer> map = client.getMap("map", new org.redisson.codec.CompositeCodec(
            org.redisson.client.codec.StringCodec.INSTANCE, org.redisson.client.codec.IntegerCodec.INSTANCE));
        ensure(map.put("a", 1) == null && map.addAndGet("a", 4).equals(5) && map.replace("a", 5, 6), "the map's values");
        ensure(map.merge("a", 10, Integer::sum) == 16 && map.readAllMap().size() == 1, "the map's merge");
        for (int i = 0; i < 1_000; i++) {
            map.fastPutAsync("n" + i, i);
        }
        client.getKeys().count();
        int seen = 0;
        for (var entry : map.entrySet("n*", 50)) {
            seen += entry.getKey().startsWith("n") ? 1 : 0;
        }
        ensure(seen == 1_000, "an iterator has seen " + seen + " of 1000");
        RListMultimap<String, Integer> many = client.getListMultimap("multi");
        many.put("x", 1);
        many.put("x", 2);
        ensure(many.getAll("x").equals(List.of(1, 2)) && many.size() == 2, "the multimap");
        RLocalCachedMap<String, String> local =
            client.getLocalCachedMap(org.redisson.api.options.LocalCachedMapOptions.<String, String>name("local"));
        local.put("k", "v");
        ensure(local.get("k").equals("v"), "the local cache");
    }

    static void locks() throws Exception {
        AtomicInteger inside = new AtomicInteger();
        int[] counted = {0};
        ExecutorService threads = Executors.newFixedThreadPool(8);
        List<Future<?>> turns = new ArrayList<>();
        for (RLock lock : List.of(client.getLock("lock"), client.getFairLock("fair"),
                client.getReadWriteLock("both").writeLock())) {
            for (int i = 0; i < 8; i++) {
                turns.add(threads.submit(() -> {
                    for (int n = 0; n < 5; n++) {
                        lock.lock();
                        ensure(inside.incrementAndGet() == 1, "two hold the lock");
                        counted[0]++;
                        inside.decrementAndGet();
                        lock.unlock();
                    }
                    return null;
                }));
            }
            for (Future<?> turn : turns) {
                turn.get(60, TimeUnit.SECONDS);
            }
            turns.clear();
        }
        ensure(counted[0] == 120, counted[0] + " of 120 turns are counted");
        RLock lock = client.getLock("mine");
        ensure(lock.tryLock(0, 30, TimeUnit.SECONDS) && lock.tryLock() && lock.getHoldCount() == 2, "the lock is entered twice");
        ensure(!threads.submit(() -> lock.tryLock(200, 1_000, TimeUnit.MILLISECONDS)).get(), "a held lock is had");
        lock.unlock();
        lock.unlock();
        ensure(!lock.isLocked(), "the lock is free");
        RSemaphore semaphore = client.getSemaphore("semaphore");
        ensure(semaphore.trySetPermits(2) && semaphore.tryAcquire(2) && !semaphore.tryAcquire(), "the semaphore's permits");
        Future<Boolean> waiting = threads.submit(() -> semaphore.tryAcquire(10, TimeUnit.SECONDS));
        Thread.sleep(100);
        semaphore.release();
        ensure(waiting.get(), "the semaphore wakes nobody");
        RPermitExpirableSemaphore permits = client.getPermitExpirableSemaphore("permits");
        permits.trySetPermits(1);
        String permit = permits.acquire(300, TimeUnit.MILLISECONDS);
        ensure(permit != null && permits.tryAcquire(5, 1, TimeUnit.SECONDS) != null, "the permit does not expire");
        RCountDownLatch latch = client.getCountDownLatch("latch");
        latch.trySetCount(2);
        Future<Boolean> open = threads.submit(() -> latch.await(10, TimeUnit.SECONDS));
        latch.countDown();
        latch.countDown();
        ensure(open.get(), "the latch does not open");
        threads.shutdown();
    }

    static void limitsAndSets() throws Exception {
        RRateLimiter limiter = client.getRateLimiter("limiter");
        ensure(limiter.trySetRate(RateType.OVERALL, 5, Duration.ofSeconds(2)), "the rate is set");
        int allowed = 0;
        for (int i = 0; i < 20; i++) {
            allowed += limiter.tryAcquire() ? 1 : 0;
        }
        ensure(allowed == 5, allowed + " are allowed, not 5");
        ensure(limiter.tryAcquire(1, Duration.ofSeconds(10)), "none is allowed later");
        RScoredSortedSet<String> board = client.getScoredSortedSet("board");
        for (int i = 0; i < 100; i++) {
            board.add(i, "player" + i);
        }
        ensure(board.addScore("player3", 1_000) == 1_003.0 && board.revRank("player3") == 0, "the rank");
        ensure(board.valueRange(0, 1).equals(List.of("player0", "player1")), "the range");
        ensure(board.count(10, true, 20, false) == 10 && board.pollFirst().equals("player0"), "the count");
        ensure(board.pollLast(5, TimeUnit.SECONDS).equals("player3"), "the last");
        RSetCache<String> set = client.getSetCache("set");
        set.add("short", 300, TimeUnit.MILLISECONDS);
        set.add("long");
        Thread.sleep(400);
        ensure(!set.contains("short") && set.contains("long"), "the set's times");
        RSet<Integer> numbers = client.getSet("numbers");
        for (int i = 0; i < 500; i++) {
            numbers.add(i);
        }
        Set<Integer> seen = new HashSet<>();
        numbers.iterator(20).forEachRemaining(seen::add);
        ensure(seen.size() == 500, "an iterator has seen " + seen.size() + " of 500");
        RBloomFilter<String> bloom = client.getBloomFilter("bloom");
        bloom.tryInit(1_000, 0.01);
        bloom.add("there");
        ensure(bloom.contains("there") && !bloom.contains("not there"), "the filter");
        RBitSet bits = client.getBitSet("bits");
        bits.set(3, 9);
        ensure(bits.cardinality() == 6 && bits.get(8) && !bits.get(9), "the bits");
        RAtomicLong number = client.getAtomicLong("number");
        ensure(number.compareAndSet(0, 5) && number.incrementAndGet() == 6, "the number");
        RIdGenerator ids = client.getIdGenerator("ids");
        ids.tryInit(10, 5);
        ensure(ids.nextId() == 10 && ids.nextId() == 11, "the ids");
    }

    static void messagesAndTransactions() throws Exception {
        CountDownLatch heard = new CountDownLatch(2);
        RTopic topic = client.getTopic("news");
        topic.addListener(String.class, (channel, message) -> heard.countDown());
        client.getPatternTopic("n*").addListener(String.class, (pattern, channel, message) -> heard.countDown());
        ensure(topic.publish("hello") == 2 && heard.await(10, TimeUnit.SECONDS), "the message is not heard");
        RTransaction transaction = client.createTransaction(TransactionOptions.defaults());
        transaction.getBucket("bucket").set("written");
        ensure(client.getBucket("bucket").get() == null, "a transaction is seen before its end");
        transaction.commit();
        ensure(client.getBucket("bucket").get().equals("written"), "a transaction is lost");
        RBatch batch = client.createBatch(BatchOptions.defaults().executionMode(BatchOptions.ExecutionMode.REDIS_WRITE_ATOMIC));
        for (int i = 0; i < 50; i++) {
            batch.getAtomicLong("batched").incrementAndGetAsync();
        }
        batch.execute();
        ensure(client.getAtomicLong("batched").get() == 50, "a batch is lost");
    }

    interface Step {
        void run() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + args[0]).setDatabase(1)
            .setConnectionMinimumIdleSize(2).setConnectionPoolSize(16);
        client = Redisson.create(config);
        String[] names = {"queues", "maps", "locks", "limits and sets", "messages and transactions"};
        Step[] steps = {RedissonCheck::queues, RedissonCheck::maps, RedissonCheck::locks, RedissonCheck::limitsAndSets,
            RedissonCheck::messagesAndTransactions};
        try {
            for (int i = 0; i < steps.length; i++) {
                steps[i].run();
                System.out.println("ok: Redisson: " + names[i]);
            }
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
        client.getKeys().flushdb();
        client.shutdown();
    }
}
