// A group of clients for the nemesis, with Jedis: it does what clients.go does, by the same lines.
//
// Each line of the input is a round to begin, or "pause"; each line of the output is an operation, as Op in history.go
// describes it, or a word that answers a command.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisCluster;
import redis.clients.jedis.exceptions.JedisClusterException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisRedirectionException;

public class Clients {
    // As in clients.go.
    static final int KEYS_OF_ROUND = 12;
    static final int KEYS_OF_ONE = 6;
    static final String LONG = "1".repeat(2000);
    static final String NONE = "-";
    static final int REST_MS = 8;
    static final int ANSWER_MAX_MS = 750;
    static final int CONNECT_MAX_MS = 500;
    static final long PATIENCE_NS = 30_000_000_000L;
    static final String COMPARE_AND_SET =
        "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2]) return 1 end return 0";
    static final List<String> REFUSALS = List.of("TRYAGAIN", "LOADING", "READONLY", "MASTERDOWN", "CROSSSLOT");

    /** An operation. System.nanoTime is CLOCK_MONOTONIC on Linux. */
    static class Op {
        final int client;
        String kind = "get";
        final String key;
        String old = "";
        String fresh = "";
        long start;
        long end;
        String value = "";
        boolean isUnknown;
        int tries;

        Op(int client, String key) {
            this.client = client;
            this.key = key;
        }

        /** None of the texts needs quoting. Long values are abridged, so that histories stay small. */
        String json() {
            return String.format(
                "{\"client\":%d,\"key\":\"%s\",\"kind\":\"%s\",\"old\":\"%s\",\"new\":\"%s\",\"start\":%d,\"end\":%d,"
                    + "\"value\":\"%s\",\"unknown\":%b,\"tries\":%d}",
                client, key, kind, old, abridged(fresh), start, end, abridged(value), isUnknown, tries);
        }
    }

    static String abridged(String value) {
        return value.equals(LONG) ? "1" : value;
    }

    static synchronized void tell(String line) {
        System.out.println(line);
    }

    /** Whether the exception means that nothing was done. With a single attempt the library hides it in another one. */
    static boolean isRefusal(Throwable why) {
        for (Throwable hidden : why.getSuppressed()) {
            if (isRefusal(hidden)) {
                return true;
            }
        }
        if (why instanceof JedisRedirectionException || why instanceof JedisClusterException) {
            return true;
        }
        String text = String.valueOf(why.getMessage());
        if (why instanceof JedisDataException) {
            return REFUSALS.stream().anyMatch(text::startsWith);
        }
        // No connection, so nothing was sent.
        return text.startsWith("Failed to connect to") || text.startsWith("No reachable node");
    }

    static String ask(JedisCluster cluster, Op op) {
        switch (op.kind) {
            case "get":
                String value = cluster.get(op.key);
                return value == null ? NONE : value;
            case "set", "once":
                cluster.set(op.key, op.fresh);
                return "";
            case "incr":
                return String.valueOf(cluster.incr(op.key));
            case "del":
                return String.valueOf(cluster.del(op.key));
            default:
                return String.valueOf(cluster.eval(COMPARE_AND_SET, List.of(op.key), List.of(op.old, op.fresh)));
        }
    }

    /** Asks until there is an answer or the fate is open. False if nothing was done for too long. */
    static boolean insist(JedisCluster cluster, Op op) throws InterruptedException {
        long begun = System.nanoTime();
        while (true) {
            op.start = System.nanoTime();
            try {
                op.value = ask(cluster, op);
                op.end = System.nanoTime();
                return true;
            } catch (RuntimeException why) {
                op.end = System.nanoTime();
                if (!isRefusal(why)) {
                    op.isUnknown = true;
                    return true;
                }
            }
            if (System.nanoTime() - begun > PATIENCE_NS) {
                return false;
            }
            op.tries++;
            Thread.sleep(5);
        }
    }

    static Op choose(Random random, int number, String key, String seen) {
        Op op = new Op(number, key);
        String unique = String.valueOf(number * 1_000_000L + random.nextInt(1_000_000) * 100L);
        int what = random.nextInt(10);
        if (what < 2) {
            op.kind = "set";
            op.fresh = unique;
        } else if (what < 5) {
            op.kind = "incr";
        } else if (what < 6) {
            op.kind = "del";
        } else if (what < 7 && seen != null && !seen.equals(NONE)) {
            op.kind = "cas";
            op.old = seen;
            op.fresh = unique;
        }
        return op;
    }

    /** Works on keys of the round. It leaves a key alone after an operation of unknown fate. */
    static void work(JedisCluster cluster, int number, String round, AtomicBoolean ends) throws InterruptedException {
        Random random = new Random(System.nanoTime() + number);
        List<String> keys = new ArrayList<>();
        for (int at = 0; at < KEYS_OF_ONE; at++) {
            keys.add(String.format("r%s:k%d", round, (number * 5 + at) % KEYS_OF_ROUND));
        }
        Map<String, String> values = new HashMap<>();
        for (int n = 0; !ends.get(); n++) {
            Op op = new Op(number, String.format("r%s:once:%d:%d", round, number, n));
            op.kind = "once";
            op.fresh = LONG;
            if (n % 4 != 0 && !keys.isEmpty()) {
                String key = keys.get(random.nextInt(keys.size()));
                op = choose(random, number, key, values.get(key));
            }
            boolean isDone = insist(cluster, op);
            if (op.kind.equals("get") && !op.isUnknown) {
                values.put(op.key, op.value);
            }
            if (op.kind.equals("set") || op.kind.equals("cas") && op.value.equals("1")) {
                values.put(op.key, op.fresh);
            }
            if (isDone && !(op.kind.equals("once") && op.isUnknown)) {
                tell(op.json());
            }
            if (op.isUnknown && !op.kind.equals("get")) {
                keys.remove(op.key);
            }
            Thread.sleep(REST_MS);
        }
    }

    static JedisCluster connect(String addresses) {
        Set<HostAndPort> nodes = new HashSet<>();
        for (String address : addresses.split(",")) {
            nodes.add(HostAndPort.from(address));
        }
        DefaultJedisClientConfig config = DefaultJedisClientConfig.builder()
            .connectionTimeoutMillis(CONNECT_MAX_MS)
            .socketTimeoutMillis(ANSWER_MAX_MS)
            .build();
        // The library complains at its start that nothing takes its log lines.
        PrintStream errors = System.err;
        System.setErr(new PrintStream(PrintStream.nullOutputStream()));
        try {
            // A write without an answer must not be sent again, as its fate would be open twice.
            return new JedisCluster(nodes, config, 1, new ConnectionPoolConfig());
        } finally {
            System.setErr(errors);
        }
    }

    /** Takes "--addresses HOST:PORT,... --numbers N,...". */
    public static void main(String[] args) throws Exception {
        JedisCluster cluster = connect(args[1]);
        String[] numbers = args[3].split(",");
        AtomicBoolean ends = new AtomicBoolean();
        List<Thread> running = new ArrayList<>();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            if (line.startsWith("round ")) {
                String round = line.substring("round ".length());
                AtomicBoolean end = new AtomicBoolean();
                ends = end;
                running.clear();
                for (String number : numbers) {
                    Thread thread = new Thread(() -> {
                        try {
                            work(cluster, Integer.parseInt(number), round, end);
                        } catch (InterruptedException why) {
                            throw new IllegalStateException(why);
                        }
                    });
                    thread.start();
                    running.add(thread);
                }
            } else if (line.equals("pause")) {
                ends.set(true);
                for (Thread thread : running) {
                    thread.join();
                }
                tell("paused");
            }
        }
        cluster.close();
    }
}
