// Checks memjs: every command of its client.

const assert = require('assert');
const memjs = require('memjs');

const client = memjs.Client.create(process.argv[2], { retries: 1, timeout: 5 });
let passed = 0;
const failed = [];

function check(name, actual, expected = true) {
  try {
    assert.deepStrictEqual(actual, expected);
    passed += 1;
  } catch (error) {
    failed.push(`${name}: ${JSON.stringify(actual)} instead of ${JSON.stringify(expected)}`);
  }
}

async function text(key) {
  const { value } = await client.get(key);
  return value === null ? null : value.toString();
}

async function refused(call) {
  return call.then((stored) => !stored, () => true);
}

async function commands() {
  check('flush', Object.values((await client.flush())), [true]);
  check('get of nothing', await text('a'), null);
  check('set', await client.set('a', 'one', {}));
  check('get', await text('a'), 'one');
  check('add of a present key', await client.add('a', 'two', {}), false);
  check('add', await client.add('b', 'two', {}));
  check('replace', await client.replace('b', 'new', {}));
  check('replace of nothing', await client.replace('c', 'new', {}), false);
  check('append', await client.append('b', 'er'));
  // `prepend` of memjs 1.3.2 sends the opcode of `append`.
  check('get of the parts', await text('b'), 'newer');
  check('append to nothing', await refused(client.append('c', 'x')));
  check('increment of nothing', (await client.increment('n', 5, { initial: 10 })).value, 10);
  check('increment', (await client.increment('n', 5, {})).value, 15);
  check('decrement', (await client.decrement('n', 20, {})).value, 0);
  check('touch', await client.touch('a', 1000));
  check('touch of nothing', await client.touch('c', 1000), false);
  check('delete', await client.delete('a'));
  check('delete of nothing', await client.delete('a'), false);
  const large = 'x'.repeat(900000);
  check('large value', await client.set('large', large, {}));
  check('get of the large value', (await text('large')) === large);
  check('key with spaces', await client.set('a b\r\nc', 'd', {}));
  check('get of it', await text('a b\r\nc'), 'd');
  const keys = Array.from({ length: 100 }, (_, number) => `many${number}`);
  check('sets at once', (await Promise.all(keys.map((key) => client.set(key, key, {})))).every(Boolean));
  check('gets at once', await Promise.all(keys.map(text)), keys);
  const stats = await new Promise((resolve, reject) => {
    client.stats((error, server, found) => (error ? reject(error) : resolve(found)));
  });
  check('stats', Number(stats.pid) > 0);
  check('expires', await client.set('short', 'x', { expires: 1 }));
  const deadline = Date.now() + 5000;
  while ((await text('short')) !== null && Date.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  check('has expired', await text('short'), null);
}

commands()
  .catch((error) => failed.push(String(error)))
  .finally(() => {
    client.close();
    failed.forEach((line) => console.log(line));
    console.log(`${passed} passed, ${failed.length} failed`);
    process.exitCode = failed.length === 0 ? 0 : 1;
  });
