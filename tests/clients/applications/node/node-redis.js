// node-redis: the types, transactions, scripts, pub/sub, pools and its cache on the client's side.
'use strict';

const assert = require('node:assert');
const { createClient, createClientPool, defineScript, WatchError } = require('redis');

const port = Number(process.argv[2]);
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function typesOf(client) {
  await client.set('text', 'value', { expiration: { type: 'EX', value: 60 } });
  assert.ok((await client.ttl('text')) > 50);
  await client.rPush('list', ['a', 'b', 'c']);
  assert.equal(await client.lMove('list', 'other', 'LEFT', 'RIGHT'), 'a');
  assert.deepEqual(await client.lRange('list', 0, -1), ['b', 'c']);
  await client.hSet('hash', { a: '1', b: '2' });
  assert.deepEqual({ ...(await client.hGetAll('hash')) }, { a: '1', b: '2' });
  assert.deepEqual(await client.hExpire('hash', ['a', 'none'], 60), [1, -2]);
  await client.sAdd('set', ['x', 'y']);
  assert.deepEqual((await client.sMembers('set')).sort(), ['x', 'y']);
  await client.zAdd('board', [{ score: 1.5, value: 'one' }, { score: 3, value: 'three' }]);
  assert.deepEqual(await client.zRangeWithScores('board', 0, -1), [{ value: 'one', score: 1.5 }, { value: 'three', score: 3 }]);
  assert.deepEqual(await client.zPopMax('board'), { value: 'three', score: 3 });
  const keys = new Set();
  for await (const part of client.scanIterator({ COUNT: 2 })) part.forEach((key) => keys.add(key));
  assert.deepEqual([...keys].sort(), ['board', 'hash', 'list', 'other', 'set', 'text']);
  const fields = [];
  for await (const part of client.hScanIterator('hash')) fields.push(...part.map(({ field }) => field));
  assert.deepEqual(fields.sort(), ['a', 'b']);
  const waiting = await client.duplicate().connect();
  const popped = waiting.blPop('queue', 5);
  await client.rPush('queue', 'job');
  assert.deepEqual({ ...(await popped) }, { key: 'queue', element: 'job' });
  await waiting.close();
}

async function transactions(client) {
  assert.deepEqual(await client.multi().set('n', '1').incrBy('n', 4).get('n').exec(), ['OK', 5, '5']);
  const pool = await createClientPool({ url: `redis://127.0.0.1:${port}/1` }).connect();
  await assert.rejects(pool.execute(async (own) => {
    await own.watch('n');
    await client.set('n', '9');
    return own.multi().set('n', '10').exec();
  }), WatchError);
  assert.equal(await client.get('n'), '9');
  await Promise.all(Array.from({ length: 200 }, () => pool.incr('n')));
  assert.equal(await client.get('n'), '209');
  await pool.close();
}

async function messages(client) {
  const listener = await client.duplicate().connect();
  const got = [];
  await listener.subscribe('news', (message) => got.push(message));
  await listener.pSubscribe('n*', (message, channel) => got.push(`${channel}:${message}`));
  assert.equal(await client.publish('news', 'hello'), 2);
  while (got.length < 2) await sleep(5);
  assert.deepEqual(got.sort(), ['hello', 'news:hello']);
  await listener.close();
}

async function cachesOnItsSide() {
  const cached = await createClient({ url: `redis://127.0.0.1:${port}/0`, RESP: 3, clientSideCache: { ttl: 0, maxEntries: 100 } }).connect();
  const other = await createClient({ url: `redis://127.0.0.1:${port}/0` }).connect();
  await other.set('cached', '1');
  assert.equal(await cached.get('cached'), '1');
  assert.equal(await cached.get('cached'), '1');
  await other.set('cached', '2');
  for (let n = 0; (await cached.get('cached')) !== '2'; n += 1) {
    assert.ok(n < 200, 'the change is never seen');
    await sleep(10);
  }
  await other.del('cached');
  await Promise.all([cached.close(), other.close()]);
}

(async () => {
  const ADD = defineScript({
    NUMBER_OF_KEYS: 1,
    SCRIPT: 'return redis.call("INCRBY", KEYS[1], ARGV[1])',
    parseCommand(parser, key, by) { parser.pushKey(key); parser.push(by); },
    transformReply: (reply) => reply,
  });
  for (const RESP of [2, 3]) {
    const client = await createClient({ url: `redis://127.0.0.1:${port}/1`, RESP, scripts: { add: ADD } }).connect();
    await client.flushDb();
    await typesOf(client);
    assert.equal(await client.add('sum', '5'), 5);
    await transactions(client);
    await messages(client);
    await client.flushDb();
    await client.close();
    console.log(`ok: node-redis with version ${RESP} of the protocol`);
  }
  await cachesOnItsSide();
  console.log('ok: the cache of node-redis forgets what changes');
  process.exit(0);
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
