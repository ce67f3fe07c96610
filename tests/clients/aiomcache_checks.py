"""Checks aiomcache: every command of its client, and a hundred tasks at a time."""

import asyncio
import sys

import aiomcache

from checks import check, finish

host, port = sys.argv[1:]


async def commands(client):
    check("version", (await client.version()).startswith(b"1.6."))
    check("flush_all", await client.flush_all(), None)
    check("get of nothing", await client.get(b"a"), None)
    check("set", await client.set(b"a", b"one"))
    check("get", await client.get(b"a"), b"one")
    check("add of a present key", await client.add(b"a", b"two"), False)
    check("add", await client.add(b"b", b"two"))
    check("replace", await client.replace(b"b", b"new"))
    check("replace of nothing", await client.replace(b"c", b"new"), False)
    check("append", await client.append(b"b", b"er"))
    check("prepend", await client.prepend(b"b", b"re"))
    check("multi_get", await client.multi_get(b"a", b"b", b"c"), (b"one", b"renewer", None))
    value, number = await client.gets(b"a")
    check("gets", value, b"one")
    check("cas", await client.cas(b"a", b"two", number))
    check("cas once more", await client.cas(b"a", b"three", number), False)
    check("set of a number", await client.set(b"n", b"10"))
    check("incr", await client.incr(b"n", 5), 15)
    check("decr", await client.decr(b"n", 20), 0)
    await refuses("incr of nothing", client.incr(b"m", 1))
    check("touch", await client.touch(b"a", 1000))
    check("touch of nothing", await client.touch(b"c", 1000), False)
    check("delete", await client.delete(b"a"))
    check("delete of nothing", await client.delete(b"a"), False)
    check("stats", int((await client.stats())[b"pid"]) > 0)
    large = b"x" * 900_000
    check("large value", await client.set(b"large", large))
    check("get of the large value", await client.get(b"large") == large)


async def refuses(name, call):
    try:
        await call
        check(name, False)
    except aiomcache.ClientException:
        check(name, True)


async def at_once(client):
    async def one(number):
        key = f"task{number}".encode()
        await client.set(key, key * 100)
        return await client.get(key) == key * 100

    check("a hundred tasks", all(await asyncio.gather(*(one(n) for n in range(100)))))


async def main():
    client = aiomcache.Client(host, int(port), pool_size=4)
    await commands(client)
    await at_once(client)
    await client.close()


asyncio.run(main())
finish()
