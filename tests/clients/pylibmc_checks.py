"""Checks pylibmc: every command of its client, in text and in binary."""

import sys
import time

import pylibmc

from checks import check, finish, raises, refused

host, port = sys.argv[1:]


def commands(client, mode):
    def key(name):
        return f"{mode}-{name}"

    check("flush_all", client.flush_all())
    check("get of nothing", client.get(key("a")), None)
    check("set", client.set(key("a"), "text"))
    check("get", client.get(key("a")), "text")
    check("add of a present key", client.add(key("a"), "other"), False)
    check("add", client.add(key("b"), b"bytes"))
    check("replace", client.replace(key("b"), b"new"))
    refused("replace of nothing", pylibmc.Error, lambda: client.replace(key("c"), b"new"))
    check("append", client.append(key("b"), b"er"))
    check("prepend", client.prepend(key("b"), b"re"))
    check("get of the parts", client.get(key("b")), b"renewer")
    refused("append to nothing", pylibmc.Error, lambda: client.append(key("c"), b"x"))
    check("get with a default", client.get(key("c"), 5), 5)
    check("integer", client.set(key("n"), 10))
    check("incr", client.incr(key("n"), 5), 15)
    check("decr", client.decr(key("n"), 20), 0)
    raises("incr of nothing", pylibmc.NotFound, lambda: client.incr(key("m")))
    check("delete", client.delete(key("a")))
    check("delete of nothing", client.delete(key("a")), False)
    check("list", client.set(key("list"), [1, "two", 3.0]))
    check("get of the list", client.get(key("list")), [1, "two", 3.0])
    many = {key(f"many{number}"): number for number in range(200)}
    check("set_multi", client.set_multi(many), [])
    check("get_multi", client.get_multi(list(many)), many)
    some = client.get_multi(["1", "2"], key_prefix=key("many"))
    check("get_multi with a prefix", some, {"1": 1, "2": 2})
    check("delete_multi", client.delete_multi(list(many)))
    check("get_multi of nothing", client.get_multi(list(many)), {})
    large = "x" * 900_000
    check("large value", client.set(key("large"), large))
    check("get of the large value", client.get(key("large")) == large)
    raises("too large value", pylibmc.TooBig, lambda: client.set(key("large"), "x" * 2_000_000))
    check("compressed", client.set(key("zip"), large, min_compress_len=1000))
    check("get of the compressed value", client.get(key("zip")) == large)
    check("touch", client.touch(key("b"), 1000))
    check("touch of nothing", client.touch(key("c"), 1000), False)
    check("long key", client.set("k" * 250, 1))
    check("get of the long key", client.get("k" * 250), 1)
    check("expires", client.set(key("short"), 1, time=1))
    deadline = time.monotonic() + 5
    while client.get(key("short")) is not None and time.monotonic() < deadline:
        time.sleep(0.05)
    check("has expired", client.get(key("short")), None)
    check("get_stats", int(client.get_stats()[0][1]["pid"]) > 0)


def compare_and_set(client):
    check("set for gets", client.set("cas", 1))
    value, number = client.gets("cas")
    check("gets", value, 1)
    check("cas", client.cas("cas", 2, number))
    check("cas once more", client.cas("cas", 3, number), False)
    check("get after cas", client.get("cas"), 2)


for binary in (False, True):
    client = pylibmc.Client([f"{host}:{port}"], binary=binary, behaviors={"cas": True})
    commands(client, "binary" if binary else "text")
    compare_and_set(client)
finish()
