// rate-limiter-flexible: windows, blocks, penalties, rewards, bursts and queues, over ioredis and node-redis.
'use strict';

const assert = require('node:assert');
const Redis = require('ioredis');
const { createClient } = require('redis');
const { BurstyRateLimiter, RateLimiterQueue, RateLimiterRedis } = require('rate-limiter-flexible');

const port = Number(process.argv[2]);
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function consumed(limiter, key, times) {
  const results = await Promise.allSettled(Array.from({ length: times }, () => limiter.consume(key)));
  return results.filter((result) => result.status === 'fulfilled').length;
}

async function limits(storeClient, name) {
  const limiter = new RateLimiterRedis({ storeClient, keyPrefix: name, points: 5, duration: 1, ...(name === 'node-redis' ? { useRedisPackage: true } : {}) });
  assert.equal(await consumed(limiter, 'ann', 20), 5);
  assert.equal(await consumed(limiter, 'bob', 3), 3);
  assert.equal((await limiter.get('bob')).remainingPoints, 2);
  await sleep(1100);
  assert.equal(await consumed(limiter, 'ann', 2), 2);
  assert.equal((await limiter.penalty('ann', 2)).consumedPoints, 4);
  assert.equal((await limiter.reward('ann', 1)).consumedPoints, 3);
  await limiter.block('cid', 30);
  assert.equal(await consumed(limiter, 'cid', 1), 0);
  const { msBeforeNext } = await limiter.get('cid');
  assert.ok(msBeforeNext > 25_000 && msBeforeNext <= 30_000, `it is blocked for ${msBeforeNext} ms`);
  assert.equal(await limiter.delete('cid'), true);
  assert.equal(await consumed(limiter, 'cid', 1), 1);
  await limiter.set('dan', 4, 60);
  assert.equal(await consumed(limiter, 'dan', 3), 1);

  const burst = new RateLimiterRedis({ ...options(name, storeClient, 'burst'), points: 3, duration: 60 });
  const bursty = new BurstyRateLimiter(new RateLimiterRedis({ ...options(name, storeClient, 'base'), points: 2, duration: 60 }), burst);
  assert.equal(await consumed(bursty, 'eve', 10), 5);

  const queue = new RateLimiterQueue(new RateLimiterRedis({ ...options(name, storeClient, 'queue'), points: 4, duration: 1 }));
  const start = Date.now();
  await Promise.all(Array.from({ length: 8 }, () => queue.removeTokens(1, 'f')));
  assert.ok(Date.now() - start >= 500, 'the queue lets too many pass');
}

function options(name, storeClient, part) {
  return { storeClient, keyPrefix: `${name}:${part}`, ...(name === 'node-redis' ? { useRedisPackage: true } : {}) };
}

(async () => {
  const ioredis = new Redis({ host: '127.0.0.1', port, db: 1, enableOfflineQueue: false });
  await new Promise((done) => ioredis.once('ready', done));
  await limits(ioredis, 'ioredis');
  console.log('ok: rate-limiter-flexible over ioredis');
  const redis = await createClient({ url: `redis://127.0.0.1:${port}/1` }).connect();
  await limits(redis, 'node-redis');
  console.log('ok: rate-limiter-flexible over node-redis');
  await redis.flushDb();
  process.exit(0);
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
