<?php
// phpredis: sessions kept by its handler, a cache in database 1, transactions, scans and scripts.
declare(strict_types=1);

$port = (int) $argv[1];

function check(bool $ok, string $what): void
{
    if (!$ok) {
        fwrite(STDERR, "failed: $what\n");
        exit(1);
    }
}

function session(string $id, callable $do): void
{
    session_id($id);
    check(session_start(), 'the session does not start');
    $do();
    session_write_close();
}

function sessions(int $port): void
{
    ini_set('session.save_handler', 'redis');
    ini_set('session.save_path', "tcp://127.0.0.1:$port?database=2&prefix=visits:");
    ini_set('session.use_cookies', '0');
    ini_set('session.cache_limiter', '');
    ini_set('session.gc_maxlifetime', '60');
    ini_set('redis.session.locking_enabled', '1');
    ini_set('redis.session.lock_expire', '10');
    for ($n = 1; $n <= 20; $n++) {
        session('ann', function () use ($n) {
            $_SESSION['visits'] = ($_SESSION['visits'] ?? 0) + 1;
            check($_SESSION['visits'] === $n, "the session has {$_SESSION['visits']} visits, not $n");
        });
    }
    session('bob', fn () => check(!isset($_SESSION['visits']), 'the session of another'));
    $redis = new Redis();
    $redis->connect('127.0.0.1', $port);
    $redis->select(2);
    $ttl = $redis->ttl('visits:ann');
    check($ttl > 50 && $ttl <= 60, "the session lives $ttl s");
    check($redis->exists('visits:ann_LOCK') === 0, 'the session stays locked');
    session('ann', fn () => session_destroy());
    check($redis->exists('visits:ann') === 0, 'an ended session is there');
    $redis->flushDB();
}

function cache(Redis $redis): void
{
    $redis->setOption(Redis::OPT_SERIALIZER, (string) Redis::SERIALIZER_PHP);
    $redis->setOption(Redis::OPT_PREFIX, 'app:');
    check($redis->set('object', ['a' => 1, 'b' => [true, null]], ['nx', 'ex' => 60]), 'set');
    check($redis->set('object', 1, ['nx', 'ex' => 60]) === false, 'set twice');
    check($redis->get('object') === ['a' => 1, 'b' => [true, null]], 'get');
    check($redis->mset(['x' => 1.5, 'y' => 'z']) && $redis->mget(['x', 'none', 'y']) === [1.5, false, 'z'], 'mget');
    check($redis->hMSet('hash', ['f' => [1], 'g' => 'h']) && $redis->hGetAll('hash') === ['f' => [1], 'g' => 'h'], 'hash');
    check($redis->rPush('list', 'a', 'b', 'c') === 3 && $redis->lRange('list', 0, -1) === ['a', 'b', 'c'], 'list');
    check($redis->sAdd('set', 'a', 'b') === 2 && $redis->sIsMember('set', 'a'), 'set of members');
    check($redis->zAdd('board', 1, 'one', 2.5, 'two') === 2, 'sorted set');
    check($redis->zRevRange('board', 0, -1, true) === ['two' => 2.5, 'one' => 1.0], 'sorted set, from its end');
    $redis->setOption(Redis::OPT_SERIALIZER, (string) Redis::SERIALIZER_NONE);
    for ($n = 0; $n < 500; $n++) {
        $redis->set("key:$n", (string) $n);
    }
    $redis->setOption(Redis::OPT_SCAN, (string) Redis::SCAN_RETRY);
    $cursor = null;
    $seen = [];
    while ($keys = $redis->scan($cursor, 'app:key:*', 50)) {
        $seen += array_flip($keys);
    }
    check(count($seen) === 500, count($seen) . ' of 500 keys are scanned');
    check($redis->unlink(array_map(fn ($n) => "key:$n", range(0, 499))) === 500, 'unlink');
}

function transactions(Redis $redis, int $port): void
{
    $results = $redis->multi()->set('n', '1')->incrBy('n', 4)->lPush('queue', 'job')->exec();
    check($results === [true, 5, 1], 'the transaction');
    $redis->watch('n');
    $other = new Redis();
    $other->connect('127.0.0.1', $port);
    $other->select(1);
    $other->set('app:n', '9');
    check($redis->multi()->set('n', '10')->exec() === false, 'a watched key changes unseen');
    check($redis->brPop(['none', 'queue'], 1) === ['app:queue', 'job'], 'the blocking pop');
    check($redis->eval('return redis.call("INCRBY", KEYS[1], ARGV[1])', ['n', '1'], 1) === 10, 'the script');
    $pipe = $redis->pipeline();
    for ($n = 0; $n < 100; $n++) {
        $pipe->incr('n');
    }
    check($pipe->exec()[99] === 110, 'the pipeline');
    check($redis->flushDB() && $redis->dbSize() === 0, 'the database is not flushed');
}

$redis = new Redis();
$redis->connect('127.0.0.1', $port);
$redis->select(1);
// A session's settings must be made before the first line is printed.
sessions($port);
echo "ok: phpredis keeps sessions\n";
cache($redis);
echo "ok: phpredis caches in database 1\n";
transactions($redis, $port);
echo "ok: phpredis transactions, scripts and blocking pops\n";
