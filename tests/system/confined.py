"""Starts a program under the system call filter that a unit asks systemd for, with systemd's own sets of calls.

    python -m system.confined UNIT PROGRAM ...

It needs libseccomp, which systemd itself is linked with, and `systemd-analyze`.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import mmap
import os
import subprocess
import sys
from pathlib import Path

from system.holding import directives, value_of

ALLOW = 0x7FFF0000
DENY = 0x00050000 | errno.EPERM
MASKED_EQ = 7
MMAP, MPROTECT = b"mmap", b"mprotect"


class _Comparison(ctypes.Structure):
    """struct scmp_arg_cmp of seccomp.h."""

    _fields_ = (("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64))


def calls(filters: list[str]) -> set[str]:
    """The system calls that SystemCallFilter= lets through; later lines with ~ take away."""
    found: set[str] = set()
    for line in filters:
        named = {call for word in line.removeprefix("~").split() for call in _members(word)}
        found = found - named if line.startswith("~") else found | named
    return found


def confine(unit: Path) -> None:
    """From now on this process, and what it starts, may make the unit's system calls alone."""
    seccomp = ctypes.CDLL(ctypes.util.find_library("seccomp"), use_errno=True)
    seccomp.seccomp_init.restype = ctypes.c_void_p
    told = ctypes.c_void_p(seccomp.seccomp_init(DENY))
    plain = calls([value for key, value in directives(unit) if key == "SystemCallFilter"])
    guarded = value_of(unit, "MemoryDenyWriteExecute") == "yes"
    for name in plain - ({"mmap", "mprotect"} if guarded else set()):
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:
            assert seccomp.seccomp_rule_add(told, ALLOW, number, 0) == 0, name
    if guarded:  # no memory that can be written and executed, and none that becomes executable
        _allow(seccomp, told, MMAP, mmap.PROT_EXEC, 0)
        _allow(seccomp, told, MMAP, mmap.PROT_EXEC | mmap.PROT_WRITE, mmap.PROT_EXEC)
        _allow(seccomp, told, MPROTECT, mmap.PROT_EXEC, 0)
    assert seccomp.seccomp_load(told) == 0


def _allow(seccomp: ctypes.CDLL, told: ctypes.c_void_p, name: bytes, mask: int, equal: int) -> None:
    """That call, where those bits of its third argument are so."""
    number = seccomp.seccomp_syscall_resolve_name(name)
    protection = _Comparison(2, MASKED_EQ, mask, equal)
    assert seccomp.seccomp_rule_add(told, ALLOW, number, 1, protection) == 0, name


def _members(word: str) -> set[str]:
    if not word.startswith("@"):
        return {word}
    said = subprocess.run(["systemd-analyze", "syscall-filter", word], capture_output=True, text=True, check=True)
    lines = [line.strip() for line in said.stdout.splitlines()[1:]]
    return {call for line in lines if line and not line.startswith("#") for call in _members(line)}


if __name__ == "__main__":
    confine(Path(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])
