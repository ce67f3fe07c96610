"""pymemcache against two servers whose items are in one pool of memory.

    pool.py HOST PORT OTHER_PORT

What one server stores, the other one reads. Prints the number of checks, and fails at the first
that does not hold.
"""

import sys

from pymemcache.client.base import Client
from pymemcache.client.hash import HashClient
from pymemcache.exceptions import MemcacheServerError

HOST, PORTS = sys.argv[1], [int(port) for port in sys.argv[2:4]]
checks = 0


def check(found, expected):
    global checks
    assert found == expected, f"check {checks}: {found!r}, not {expected!r}"
    checks += 1


def fails(call):
    try:
        call()
    except MemcacheServerError as error:
        return error.args[0]
    return None


def both_ways(one, other, key):
    one.set(key, b"first", noreply=False)
    check(other.get(key), b"first")
    check(other.add(key, b"x", noreply=False), False)
    check(other.replace(key, b"second", noreply=False), True)
    value, cas = one.gets(key)
    check((value, other.gets(key)), (b"second", (value, cas)))
    check(other.cas(key, b"third", cas, noreply=False), True)
    check(one.cas(key, b"lost", cas, noreply=False), False)
    check(one.cas(key + b"-none", b"lost", cas, noreply=False), None)
    check(one.append(key, b"!", noreply=False), True)
    check(other.prepend(key, b"<", noreply=False), True)
    check(one.get(key), b"<third!")
    check(one.touch(key, 100, noreply=False), True)
    check(other.delete(key, noreply=False), True)
    check(one.delete(key, noreply=False), False)
    check(one.get(key, b"default"), b"default")

    one.set(key, b"41", noreply=False)
    check(other.incr(key, 1), 42)
    check(one.decr(key, 50), 0)
    check(other.incr(key + b"-none", 1), None)

    values = {key + str(number).encode(): b"v" * number for number in range(100)}
    check(one.set_many(values, noreply=False), [])
    check(other.get_many(values), values)
    check(other.gets_many(values).keys(), values.keys())
    check(other.delete_many(values, noreply=False), True)
    check(one.get_many(values), {})

    large = b"x" * 200_000
    one.set(key, large, noreply=False)
    check(other.get(key), large)
    check(fails(lambda: one.set(key, b"x" * 400_000, noreply=False)), b"object too large for cache")
    check(other.get(key), None)
    one.set(key, b"quiet", noreply=True)
    check(one.get(key), b"quiet")
    check(other.get(key), b"quiet")
    check(fails(one.flush_all), b"a memory pool cannot be flushed")
    check(one.version(), b"1.6.45")
    check(one.stats("curtail")[b"pool_clients"] > 0, True)


clients = [Client((HOST, port), default_noreply=False) for port in PORTS]
both_ways(clients[0], clients[1], b"a")
both_ways(clients[1], clients[0], b"b")
# A client that spreads its keys, of which each server sees a part.
spread = HashClient([(HOST, port) for port in PORTS])
spread.set_many({f"s{number}": str(number) for number in range(200)}, noreply=False)
for client in clients:
    keys = [f"s{number}" for number in range(200)]
    check(client.get_many(keys), {key: key[1:].encode() for key in keys})
print(f"{checks} checks passed")
