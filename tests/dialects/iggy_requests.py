"""A frame of each code in each generation of Iggy, out of its cases."""

from __future__ import annotations

from gateway.conformance import vectors
from gateway.dialects.iggy.spec import parse_grammar


def code_of(frame: bytes, generation: str) -> int:
    """What a request asks for."""
    request = parse_grammar(frame, generation)
    assert request is not None, frame.hex()
    return int(request.code)


def _every() -> list[tuple[str, int, bytes]]:
    found: dict[tuple[str, int], bytes] = {}
    for case in vectors.load("iggy"):
        generation = str(case.settings.get("generation", "g0"))
        if case.refusal is None:
            found.setdefault((generation, code_of(case.when, generation)), case.when)
    return [(*key, found[key]) for key in sorted(found)]


REQUESTS = _every()
"""(generation, code, frame)."""

IDS = [f"{generation}-{code}" for generation, code, _ in REQUESTS]
