<?php
// Predis, of Debian: its iterators, transactions, pipelines and scripts, over the types.
declare(strict_types=1);

require 'Predis/autoload.php';

function check(bool $ok, string $what): void
{
    if (!$ok) {
        fwrite(STDERR, "failed: $what\n");
        exit(1);
    }
}

$client = new Predis\Client("tcp://127.0.0.1:{$argv[1]}?database=1", ['prefix' => 'app:']);
$client->rpush('list', ['a', 'b', 'c']);
check($client->lrange('list', 0, -1) === ['a', 'b', 'c'], 'the list');
$client->hmset('hash', ['f' => '1', 'g' => '2']);
check($client->hgetall('hash') === ['f' => '1', 'g' => '2'] && $client->hincrby('hash', 'f', 4) === 5, 'the hash');
$client->zadd('board', ['one' => 1.5, 'two' => 3]);
check(array_keys($client->zrevrange('board', 0, -1, ['withscores' => true])) === ['two', 'one'], 'the sorted set');
check($client->brpop(['none', 'list'], 1) === ['app:list', 'c'], 'the blocking pop');
for ($n = 0; $n < 500; $n++) {
    $client->sadd('set', ["member:$n"]);
    $client->set("key:$n", $n, 'EX', 60);
}
check(iterator_count(new Predis\Collection\Iterator\SetKey($client, 'set')) === 500, 'the scan of a set');
$keys = iterator_to_array(new Predis\Collection\Iterator\Keyspace($client, 'app:key:*', 50), false);
check(count(array_unique($keys)) === 500, 'the scan of keys');
echo "ok: Predis: the types and its iterators\n";

$results = $client->transaction(function ($transaction) {
    $transaction->set('n', 1);
    $transaction->incrby('n', 4);
});
check((string) $results[0] === 'OK' && $results[1] === 5, 'the transaction');
$tries = 0;
$client->transaction(['cas' => true, 'watch' => 'n', 'retry' => 3], function ($transaction) use ($client, $argv, &$tries) {
    $n = (int) $transaction->get('n');
    if ($tries++ === 0) {
        (new Predis\Client("tcp://127.0.0.1:{$argv[1]}?database=1"))->set('app:n', 9);
    }
    $transaction->multi();
    $transaction->set('n', $n + 1);
});
check($client->get('n') === '10' && $tries === 2, "a watched key changes unseen: {$client->get('n')} after $tries tries");
$counts = $client->pipeline(function ($pipe) {
    for ($n = 0; $n < 100; $n++) {
        $pipe->incr('n');
    }
});
check($counts[99] === 110, 'the pipeline');
check($client->eval('return redis.call("INCRBY", KEYS[1], ARGV[1])', 1, 'n', 1) === 111, 'the script');
$client->flushdb();
echo "ok: Predis: transactions, pipelines and scripts\n";
