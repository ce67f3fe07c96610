"""Scrapes a memcached through memcached_exporter, and counts the metrics that have a value."""

import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

from checks import free_port

host, port, folder, program = sys.argv[1:]


def use():
    """Gives the server items of several sizes, so that there is something to report."""
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        replies = connection.makefile("rb")
        for length in (10, 1000, 100_000):
            connection.sendall(b"set e%d 0 0 %d\r\n%s\r\nget e%d\r\n" % (length, length, b"x" * length, length))
            assert replies.readline() == b"STORED\r\n"
            while replies.readline() != b"END\r\n":
                pass


def scrape(exporter, page):
    deadline = time.monotonic() + 10
    while True:
        try:
            with urllib.request.urlopen(page, timeout=10) as answer:
                return answer.read().decode()
        except urllib.error.URLError:
            if exporter.poll() is not None or time.monotonic() > deadline:
                sys.exit("memcached_exporter does not listen")
            time.sleep(0.02)


use()
address = f"127.0.0.1:{free_port()}"
log = os.path.join(folder, "exporter.log")
with open(log, "w") as errors:
    command = [
        program,
        f"--memcached.address={host}:{port}",
        f"--web.listen-address={address}",
    ]
    exporter = subprocess.Popen(command, stderr=errors)
    try:
        page = scrape(exporter, f"http://{address}/metrics")
    finally:
        exporter.terminate()
        exporter.wait()
with open(log) as errors:
    complaints = [line for line in errors if re.search(r"level=(error|warn)", line)]
names = set(re.findall(r"^(memcached_\w+)(?:\{[^}]*\})? \S+$", page, re.MULTILINE))
for line in complaints:
    print(line.rstrip())
with open(os.path.join(folder, "metrics.txt"), "w") as file:
    file.writelines(f"{name}\n" for name in sorted(names))
is_up = re.search(r"^memcached_up 1$", page, re.MULTILINE)
print(f"{len(names)} passed, {len(complaints)} failed")
sys.exit(0 if is_up and not complaints else 1)
