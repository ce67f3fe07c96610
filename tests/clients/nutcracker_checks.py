"""Checks a memcached behind twemproxy: the commands that the proxy forwards, and pipelines."""

import os
import socket
import subprocess
import sys
import time

from checks import check, finish, free_port

host, port, folder = sys.argv[1:]

CONFIGURATION = """\
pool:
  listen: 127.0.0.1:{listen}
  hash: fnv1a_64
  distribution: ketama
  preconnect: true
  servers:
   - {host}:{port}:1
"""


def start(listen):
    """Starts the proxy and returns it with a connection."""
    path = os.path.join(folder, "nutcracker.yml")
    with open(path, "w") as file:
        file.write(CONFIGURATION.format(listen=listen, host=host, port=port))
    log = os.path.join(folder, "nutcracker.log")
    command = ["nutcracker", "-c", path, "-o", log, "-s", str(free_port()), "-a", "127.0.0.1"]
    proxy = subprocess.Popen(command)
    deadline = time.monotonic() + 10
    while True:
        try:
            return proxy, socket.create_connection(("127.0.0.1", listen), timeout=10)
        except ConnectionRefusedError:
            if proxy.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"nutcracker does not listen, see {log}")
            time.sleep(0.02)


def commands(connection):
    replies = connection.makefile("rb")

    def says(request, *expected):
        connection.sendall(request)
        got = b"".join(replies.readline() for _ in expected)
        check(request[:40], got, b"".join(line + b"\r\n" for line in expected))

    says(b"delete p1\r\n", b"NOT_FOUND")
    says(b"set p1 7 0 3\r\none\r\n", b"STORED")
    says(b"get p1\r\n", b"VALUE p1 7 3", b"one", b"END")
    says(b"add p1 0 0 1\r\nx\r\n", b"NOT_STORED")
    says(b"replace p1 1 0 3\r\ntwo\r\n", b"STORED")
    says(b"append p1 0 0 1\r\n!\r\n", b"STORED")
    says(b"prepend p1 0 0 1\r\n>\r\n", b"STORED")
    says(b"get p1\r\n", b"VALUE p1 1 5", b">two!", b"END")
    says(b"set p2 0 0 2\r\n10\r\n", b"STORED")
    says(b"incr p2 5\r\n", b"15")
    says(b"decr p2 20\r\n", b"0")
    says(b"incr none 1\r\n", b"NOT_FOUND")
    says(b"touch p1 100\r\n", b"TOUCHED")
    connection.sendall(b"gets p2\r\n")
    number = replies.readline().split()[4]
    check("gets", [replies.readline(), replies.readline()], [b"0 \r\n", b"END\r\n"])
    says(b"cas p2 0 0 1 %s\r\n3\r\n" % number, b"STORED")
    says(b"cas p2 0 0 1 %s\r\n4\r\n" % number, b"EXISTS")
    large = b"x" * 900_000
    says(b"set p3 0 0 900000\r\n" + large + b"\r\n", b"STORED")
    says(b"get p3\r\n", b"VALUE p3 0 900000", large, b"END")
    sets = b"".join(b"set q%d 0 0 1\r\n%d\r\n" % (n, n % 10) for n in range(100))
    says(sets, *[b"STORED"] * 100)
    # The proxy divides a request for many keys, and merges the replies in any order.
    connection.sendall(b"get" + b"".join(b" q%d" % n for n in range(100)) + b"\r\n")
    got = {}
    while (line := replies.readline()) != b"END\r\n":
        got[line.split()[1]] = replies.readline()
    check("get of many", got, {b"q%d" % n: b"%d\r\n" % (n % 10) for n in range(100)})
    says(b"delete p1\r\n", b"DELETED")


proxy, connection = start(free_port())
try:
    commands(connection)
finally:
    connection.close()
    proxy.terminate()
    proxy.wait()
finish()
