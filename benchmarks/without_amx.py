"""Refuse AMX to this process and those that it starts, so that runtimes do as on the many processors with VNNI but without it.

Linux gives AMX's registers to a process that asks for them by ``arch_prctl(ARCH_REQ_XCOMP_PERM)``. A seccomp filter (``man 2
seccomp``) answers that call with EPERM and lets all others pass.
"""

from __future__ import annotations

import ctypes
import os
import struct

ARCH_PRCTL, ARCH_REQ_XCOMP_PERM = 158, 0x1023
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
NUMBER, FIRST_ARGUMENT = 0, 16
"""Offsets in ``struct seccomp_data``."""
EPERM, ALLOW = 0x0005_0001, 0x7FFF_0000


class Program(ctypes.Structure):
    """``struct sock_fprog``."""

    _fields_ = (("count", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def forbid_amx() -> None:
    """Install the filter. Raises ``OSError`` where there is none to be had."""
    # Code, instructions to skip where it holds and where not, operand.
    steps = [
        (LOAD, 0, 0, NUMBER),
        (EQUAL, 0, 3, ARCH_PRCTL),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (EQUAL, 0, 1, ARCH_REQ_XCOMP_PERM),
        (RETURN, 0, 0, EPERM),
        (RETURN, 0, 0, ALLOW),
    ]
    program = Program(len(steps), b"".join(struct.pack("=HBBI", *step) for step in steps))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program)
    ):
        number = ctypes.get_errno()
        raise OSError(number, f"AMX cannot be refused here: {os.strerror(number)}")
