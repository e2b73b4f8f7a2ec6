"""A frame of each code in each generation of Iggy, out of its cases."""

from __future__ import annotations

from gateway.conformance import vectors
from gateway.dialects import load


def _every() -> list[tuple[str, bytes]]:
    found: dict[tuple[str, int], bytes] = {}
    for case in vectors.load("iggy"):
        generation = str(case.settings.get("generation", "g0"))
        if case.refusal is None and load("iggy").measure_request(case.when, 0, 0) == len(case.when):
            found.setdefault((generation, int.from_bytes(case.when[4:8], "little")), case.when)
    return [(generation, data) for (generation, _), data in sorted(found.items())]


REQUESTS = _every()
"""(generation, frame)."""

IDS = [f"{generation}-{int.from_bytes(data[4:8], 'little')}" for generation, data in REQUESTS]
