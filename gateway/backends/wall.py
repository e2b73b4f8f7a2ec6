"""The wall clock, as records are stamped with it.  Time-outs run on the reactor's clock instead."""

from __future__ import annotations

import time


def microseconds() -> int:
    """us since the epoch."""
    return time.time_ns() // 1000
