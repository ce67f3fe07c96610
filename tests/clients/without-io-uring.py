#!/usr/bin/env python3
"""Runs a program that may not use io_uring, as in many a container.

    without-io-uring.py PROGRAM [ARGUMENT ...]

A filter of system calls (seccomp(2)) answers EPERM to io_uring_setup. Exits with 77 where no filter
can be set.
"""

import ctypes
import errno
import os
import struct
import sys

SKIPPED = 77
PR_SET_SECCOMP, SECCOMP_MODE_FILTER, PR_SET_NO_NEW_PRIVS = 22, 2, 38
# The same number on every architecture of Linux that has it.
IO_URING_SETUP = 425
LOAD_WORD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
RETURN_ERRNO, RETURN_ALLOW = 0x00050000, 0x7FFF0000


def instruction(code, yes, no, value):
    return struct.pack("HBBI", code, yes, no, value)


class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def main():
    instructions = [
        instruction(LOAD_WORD, 0, 0, 0),
        instruction(JUMP_EQUAL, 0, 1, IO_URING_SETUP),
        instruction(RETURN, 0, 0, RETURN_ERRNO | errno.EPERM),
        instruction(RETURN, 0, 0, RETURN_ALLOW),
    ]
    text = ctypes.create_string_buffer(b"".join(instructions))
    program = Program(len(instructions), ctypes.addressof(text))
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0 and libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        sys.exit(SKIPPED)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
        sys.exit(SKIPPED)
    os.execv(sys.argv[1], sys.argv[1:])


main()
