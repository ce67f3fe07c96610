"""What the checks of clients share: counts that end the program, and free ports."""

import socket
import sys

passed = 0
failed = []


def check(name, actual, expected=True):
    """Counts one check: `actual` has to equal `expected`."""
    global passed
    if actual == expected:
        passed += 1
    else:
        failed.append(f"{name}: {actual!r} instead of {expected!r}")


def raises(name, error, call):
    """Counts one check: `call` has to raise `error`."""
    try:
        call()
    except error:
        check(name, True)
    else:
        check(name, False)


def refused(name, error, call):
    """Counts one check: `call` has to raise `error`, or to return false."""
    try:
        check(name, call(), False)
    except error:
        check(name, True)


def finish():
    """Prints what failed and how many passed."""
    for line in failed:
        print(line)
    print(f"{passed} passed, {len(failed)} failed")
    sys.exit(1 if failed else 0)


def free_port():
    """A port of this machine at which no process listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]
