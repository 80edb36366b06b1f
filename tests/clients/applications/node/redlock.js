// ioredis with redlock: locks that exclude, extend and end.
'use strict';

const assert = require('node:assert');
const Redis = require('ioredis');
const Redlock = require('redlock');

const client = new Redis({ host: '127.0.0.1', port: Number(process.argv[2]), db: 1 });
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function locksExclude() {
  const redlock = new Redlock([client], { retryCount: 1000, retryDelay: 5, retryJitter: 5 });
  let inside = 0;
  let counted = 0;
  const turn = async () => {
    const lock = await redlock.lock('counted', 10_000);
    inside += 1;
    assert.equal(inside, 1, 'two hold the lock');
    const before = counted;
    await sleep(2);
    counted = before + 1;
    inside -= 1;
    await lock.unlock();
  };
  await Promise.all(Array.from({ length: 40 }, turn));
  assert.equal(counted, 40);
}

async function locksExtendAndEnd() {
  const redlock = new Redlock([client], { retryCount: 0 });
  const lock = await redlock.lock(['a', 'b'], 400);
  await assert.rejects(redlock.lock('b', 400), Redlock.LockError);
  const longer = await lock.extend(10_000);
  assert.ok((await client.pttl('a')) > 5_000);
  await client.set('b', 'another');
  await assert.rejects(longer.extend(10_000), Redlock.LockError);
  await client.del('a', 'b');
  const short = await redlock.lock('c', 200);
  await sleep(300);
  await redlock.lock('c', 200);
  await assert.rejects(short.unlock(), Redlock.LockError);
}

async function commandsAndScripts() {
  client.defineCommand('addAll', { numberOfKeys: 1, lua: 'for _, v in ipairs(ARGV) do redis.call("RPUSH", KEYS[1], v) end return redis.call("LRANGE", KEYS[1], 0, -1)' });
  assert.deepEqual(await client.addAll('list', 'x', 'y'), ['x', 'y']);
  await client.zadd('board', 1, 'one', 2, 'two', 3, 'three');
  assert.deepEqual(await client.zrange('board', 0, 1, 'REV', 'WITHSCORES'), ['three', '3', 'two', '2']);
  await client.hset('hash', { a: 1, b: 2 });
  assert.deepEqual(await client.hgetall('hash'), { a: '1', b: '2' });
  const waiting = client.duplicate();
  const popped = waiting.blpop('queue', 5);
  await sleep(50);
  await client.rpush('queue', 'job');
  assert.deepEqual(await popped, ['queue', 'job']);
  waiting.disconnect();
  for (let n = 0; n < 500; n += 1) await client.sadd('many', n);
  const seen = new Set();
  for await (const part of client.sscanStream('many')) part.forEach((member) => seen.add(member));
  assert.equal(seen.size, 500);
  await client.flushdb();
}

(async () => {
  await locksExclude();
  console.log('ok: redlock lets one at a time in');
  await locksExtendAndEnd();
  console.log('ok: redlock extends locks and notices lost ones');
  await commandsAndScripts();
  console.log('ok: ioredis scripts, containers and blocking pops');
  process.exit(0);
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
