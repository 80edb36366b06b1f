// Connects ioredis with its defaults and checks that it gets what it expects.
'use strict';

const assert = require('node:assert/strict');
const { setTimeout: sleep } = require('node:timers/promises');
const Redis = require('ioredis');

const steps = {
  'ready check after connecting': async (redis) => {
    if (redis.status !== 'ready') await new Promise((done) => redis.once('ready', done));
    assert.equal(await redis.ping(), 'PONG');
  },
  'set and get': async (redis) => {
    assert.equal(await redis.set('node:greeting', 'hello\r\nworld'), 'OK');
    assert.equal(await redis.get('node:greeting'), 'hello\r\nworld');
    assert.equal(await redis.get('node:missing'), null);
  },
  'binary values': async (redis) => {
    const value = Buffer.from([0, 255, 13, 10, 36, 42]);
    await redis.set('node:binary', value);
    assert.deepEqual(await redis.getBuffer('node:binary'), value);
  },
  'pipeline of 200 commands': async (redis) => {
    await redis.del('node:counter');
    const pipeline = redis.pipeline();
    for (let i = 0; i < 100; i++) pipeline.set(`node:p:${i}`, i).incr('node:counter');
    const replies = await pipeline.exec();
    assert.deepEqual(replies[199], [null, 100]);
  },
  'transaction and watch': async (redis) => {
    await redis.mset('node:from', 90, 'node:to', 10);
    const replies = await redis.multi().decrby('node:from', 5).incrby('node:to', 5).exec();
    assert.deepEqual(replies, [[null, 85], [null, 15]]);
    await redis.watch('node:to');
    await redis.set('node:to', 1);
    assert.equal(await redis.multi().set('node:to', 2).exec(), null);
    assert.equal(await redis.get('node:to'), '1');
  },
  'pub/sub': async (redis) => {
    const listener = redis.duplicate();
    const got = new Promise((done) => listener.once('message', (...message) => done(message)));
    assert.equal(await listener.subscribe('node:news'), 1);
    assert.equal(await redis.publish('node:news', 'hello'), 1);
    assert.deepEqual(await got, ['node:news', 'hello']);
    assert.equal(await listener.unsubscribe('node:news'), 0);
    assert.equal(await listener.ping(), 'PONG');
    listener.disconnect();
  },
  'mset and mget': async (redis) => {
    await redis.mset('node:a', 1, 'node:b', 2);
    assert.deepEqual(await redis.mget('node:a', 'node:missing', 'node:b'), ['1', null, '2']);
  },
  expiry: async (redis) => {
    await redis.set('node:short', 'x', 'PX', 200);
    const left = await redis.pttl('node:short');
    assert.ok(left > 0 && left <= 200, `time left ${left}`);
    await sleep(250);
    assert.equal(await redis.exists('node:short'), 0);
  },
  'scan stream': async (redis) => {
    const seen = new Set();
    for await (const keys of redis.scanStream({ match: 'node:p:*', count: 10 })) {
      keys.forEach((key) => seen.add(key));
    }
    assert.equal(seen.size, 100);
  },
  'error text': async (redis) => {
    await redis.set('node:text', 'abc');
    await assert.rejects(redis.incr('node:text'), {
      message: 'ERR value is not an integer or out of range',
    });
  },
};

async function main() {
  const port = Number(process.argv[2]);
  if (!port) {
    console.error('usage: node check.js PORT');
    process.exit(2);
  }
  const redis = new Redis(port, '127.0.0.1');
  // Without a listener a connection error would be printed and tried again for ever.
  redis.on('error', (error) => fail('connecting', error));
  for (const [what, run] of Object.entries(steps)) {
    await run(redis).catch((error) => fail(what, error));
    console.log(`ok: ioredis: ${what}`);
  }
  assert.equal(await redis.quit(), 'OK');
  console.log('ok: ioredis: quit');
}

function fail(what, error) {
  console.error(`FAILED: ioredis: ${what}: ${error.message}`);
  process.exit(1);
}

setTimeout(() => fail('all steps', new Error('took longer than 30 s')), 30_000).unref();
main().catch((error) => fail('quit', error));
