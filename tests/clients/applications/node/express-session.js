// Express with express-session, kept by connect-redis over node-redis.
'use strict';

const assert = require('node:assert');
const express = require('express');
const session = require('express-session');
const { RedisStore } = require('connect-redis');
const { createClient } = require('redis');

const url = `redis://127.0.0.1:${process.argv[2]}/1`;

(async () => {
  const client = await createClient({ url }).connect();
  const store = new RedisStore({ client, prefix: 'visits:', ttl: 60 });
  const app = express();
  app.use(session({ store, secret: 'checked', resave: false, saveUninitialized: false }));
  app.get('/visit', (request, response) => {
    request.session.visits = (request.session.visits ?? 0) + 1;
    response.json(request.session.visits);
  });
  app.get('/leave', (request, response) => request.session.destroy(() => response.json('bye')));
  const server = app.listen(0, '127.0.0.1');
  await new Promise((done) => server.once('listening', done));
  const get = (path, cookie) => fetch(`http://127.0.0.1:${server.address().port}${path}`, { headers: cookie ? { cookie } : {} });

  const first = await get('/visit');
  const cookie = first.headers.get('set-cookie').split(';')[0];
  assert.equal(await first.json(), 1);
  for (let n = 2; n <= 20; n += 1) assert.equal(await (await get('/visit', cookie)).json(), n);
  await Promise.all(Array.from({ length: 30 }, () => get('/visit')));
  assert.equal(await store.length(), 31);
  assert.equal((await store.ids()).length, 31);
  assert.equal((await store.all()).filter((one) => one.visits === 20).length, 1);
  const id = decodeURIComponent(cookie.split('=')[1]).slice(2).split('.')[0];
  const ttl = await client.ttl(`visits:${id}`);
  assert.ok(ttl > 50 && ttl <= 60, `the session lives ${ttl} s`);
  assert.equal(await (await get('/leave', cookie)).json(), 'bye');
  assert.equal(await client.exists(`visits:${id}`), 0);
  assert.equal(await (await get('/visit', cookie)).json(), 1);
  await store.clear();
  assert.equal(await client.dbSize(), 0);
  console.log('ok: express-session keeps, lists, ends and clears sessions');
  process.exit(0);
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
