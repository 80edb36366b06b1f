// Connects ioredis's client of clusters, kills a primary, and checks that the client goes on and nothing is lost.
'use strict';

const assert = require('node:assert/strict');
const { setTimeout: sleep } = require('node:timers/promises');
const { Cluster } = require('ioredis');
const slotOf = require('cluster-key-slot');

const COUNTERS = 6;
// The longest time without an acknowledged step, on a busy machine.
const GAP_MAX_MS = 20_000;

// Counts a key up. A step without an answer may have been done or not; an acknowledged one is never lost.
async function countUp(redis, counter) {
  let heard = Date.now();
  while (!counter.ends) {
    let now;
    try {
      now = await redis.incr(counter.key);
    } catch {
      // The library has tried again by itself, so several steps may be done.
      counter.open += 20;
      await sleep(20);
      continue;
    }
    // It also tries again without a word when a connection breaks.
    assert.ok(counter.last < now && now <= counter.last + 1 + counter.open + 20,
      `${counter.key}: ${now} after ${counter.last}`);
    counter.gap = Math.max(counter.gap, Date.now() - heard);
    Object.assign(counter, { last: now, open: 0, steps: counter.steps + 1 });
    heard = Date.now();
  }
}

async function waitForSteps(counters, more) {
  const wanted = counters.map((counter) => counter.steps + more);
  const until = Date.now() + 60_000;
  while (counters.some((counter, i) => counter.steps < wanted[i])) {
    assert.ok(Date.now() < until, `steps: ${counters.map((counter) => counter.steps)}`);
    await sleep(10);
  }
}

async function ownerOf(redis, key) {
  const slot = slotOf(key);
  const [, , [host, port]] = (await redis.cluster('SLOTS'))
    .find(([first, last]) => first <= slot && slot <= last);
  return `${host}:${port}`;
}

const numbers = [...Array(300).keys()];

async function readAll(redis) {
  const values = await Promise.all(numbers.map((i) => redis.get(`node:k:${i}`)));
  assert.deepEqual(values, numbers.map(String));
}

const steps = {
  'keys in all shards': async (redis) => {
    await Promise.all(numbers.map((i) => redis.set(`node:k:${i}`, i)));
    await readAll(redis);
    assert.equal(redis.nodes('master').length, 3);
  },
  'a hash tag': async (redis) => {
    assert.equal(await redis.mset('{node}a', 1, '{node}b', 2), 'OK');
    assert.deepEqual(await redis.mget('{node}a', '{node}b'), ['1', '2']);
    const replies = await redis.multi().incr('{node}a').incr('{node}b').exec();
    assert.deepEqual(replies, [[null, 2], [null, 3]]);
  },
  'keys of several slots are refused': async (redis) => {
    await assert.rejects(redis.mget('node:1', 'node:2'), /hash to the same slot/);
  },
  'a primary is killed': async (redis, nodes) => {
    const counters = [...Array(COUNTERS).keys()].map((i) => (
      { key: `node:counter:${i}`, last: 0, open: 0, steps: 0, gap: 0, ends: false }));
    const counting = Promise.all(counters.map((counter) => countUp(redis, counter)));
    // A failure must end the program even while others are waited for.
    counting.catch((error) => fail('counting', error));
    await waitForSteps(counters, 50);
    const owners = await Promise.all(counters.map(({ key }) => ownerOf(redis, key)));
    const [first] = nodes.keys();
    const doomed = owners.find((owner) => owner !== first);
    const primary = redis.nodes('master').find(({ options }) => `${options.host}:${options.port}` === doomed);
    // A replica that was held up may not take over.
    while (!/cluster_copies_in_sync:2/.test(await primary.info('cluster'))) await sleep(10);
    process.kill(nodes.get(doomed), 'SIGKILL');
    await waitForSteps(counters, 50);
    for (const counter of counters) counter.ends = true;
    await counting;
    for (const { key, last } of counters) assert.ok(Number(await redis.get(key)) >= last, key);
    const gap = Math.max(...counters.map((counter) => counter.gap));
    assert.ok(gap < GAP_MAX_MS, `a gap of ${gap} ms`);
    console.log(`the longest wait was ${gap} ms`);
    await readAll(redis);
  },
};

async function main() {
  const nodes = new Map(process.argv.slice(2).map((argument) => {
    const [address, pid] = argument.split('=');
    return [address, Number(pid)];
  }));
  if (nodes.size === 0) {
    console.error('usage: node cluster.js ADDRESS=PID ...');
    process.exit(2);
  }
  const [host, port] = nodes.keys().next().value.split(':');
  const redis = new Cluster([{ host, port: Number(port) }]);
  // Without a listener an error of a node would be printed.
  redis.on('error', () => {});
  for (const [what, run] of Object.entries(steps)) {
    await run(redis, nodes).catch((error) => fail(what, error));
    console.log(`ok: ioredis in a cluster: ${what}`);
  }
  redis.disconnect();
}

function fail(what, error) {
  console.error(`FAILED: ioredis in a cluster: ${what}: ${error.message}`);
  process.exit(1);
}

setTimeout(() => fail('all steps', new Error('took longer than 120 s')), 120_000).unref();
main().catch((error) => fail('the end', error));
