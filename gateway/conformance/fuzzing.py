"""The fuzz stage: valid requests, damaged field by field, and what a server makes of them.

Hypothesis chooses and makes failures smaller; the same seed sends the same requests.  It runs in a thread of its own
and waits for the reactor, which has the connections: calling.py.
"""

from __future__ import annotations

import random
import string
import time
from collections.abc import Callable
from functools import cache

import msgspec
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st

from gateway.conformance.calling import Gone, Interrupted
from gateway.conformance.damage import DAMAGES
from gateway.conformance.fields import cut
from gateway.conformance.grammars import Grammar
from gateway.conformance.trials import PATIENCE, Failure, Trial

COUNT = 4000
"""Requests, by default: about 20 s against a gateway on the same two cores."""

MOST = 20
"""Failures after which nobody looks for more."""

SHRINK_SECONDS = 10.0
SHRINK_PATIENCE = 0.5
"""In which a failure is made smaller, and how long each attempt at a silence takes."""

MOST_DAMAGES = 3

LONGEST = 8192
"""Bytes of a request: specifications take their time, and limits are a matter of cases."""

ROUNDS = 1000
"""More than there are rounds of one seed: each has a seed of its own."""

Attempt = Callable[[Trial, float], Failure | None]
Choice = tuple[int, list[tuple[str, int, int, int]], bool]
"""The number of a valid request; damages, with which field, which way, and whose fields; whether the frame's own length
is put right again."""

_LETTERS = string.ascii_lowercase + string.digits


class Found(msgspec.Struct, frozen=True):
    """One failure, as small as it became.

    octets: the request.  origin: the valid one that it was.
    seed:   with which it was found.  again: it happened a second time.
    """

    failure: Failure
    octets: bytes
    origin: bytes
    seed: int
    again: bool = True

    @property
    def at(self) -> int:
        """The first byte of the request that is not what it was."""
        pairs = enumerate(zip(self.octets, self.origin, strict=False))
        return next((at for at, (one, other) in pairs if one != other), min(len(self.octets), len(self.origin)))


class Fuzzer:
    """Asks a server.

    attempt: a Trial, and the seconds it may take -> what came of it.  Raises Gone.
    told:    is called after each request with how many there were, and with the failure that is behind it.
    """

    def __init__(
        self,
        grammar: Grammar,
        attempt: Attempt,
        *,
        seed: int = 0,
        told: Callable[[int, Found | None], None] = lambda _, __: None,
    ) -> None:
        self.found: list[Found] = []
        self.tried = 0
        self._grammar = grammar
        self._attempt = attempt
        self._told = told
        self._seed = seed
        self._random = random.Random(seed)
        self._choices = choices(len(grammar.seeds))
        terms = grammar.greeted()
        self._fields = cache(lambda number: cut(grammar.seeds[number], lambda frame: grammar.parse(frame, terms)))

    def run(self, count: int = COUNT) -> list[Found]:
        """Send so many requests, and those that make a failure smaller."""
        for number in range(ROUNDS):
            try:
                found = _Round(self, self._seed * ROUNDS + number, count - self.tried).run()
            except Interrupted:
                break
            if found is not None:
                self.found.append(found)
                self._told(self.tried, found)
            if self.tried >= count or len(self.found) >= MOST or (found and found.failure.kind == "gone"):
                break
        return self.found

    def strategy(self) -> st.SearchStrategy[Choice]:
        """What there is to choose from."""
        return self._choices

    def damaged(self, choice: Choice) -> bytes:
        """The request that is meant."""
        number, damages, mended = choice
        fields = list(self._fields(number))
        for name, at, which, other in damages:
            fields = DAMAGES[name](fields, at % len(fields), which, list(self._fields(other))) or [b""]
        octets = b"".join(fields)[:LONGEST]
        return self._grammar.mended(octets) if mended else octets

    def origin(self, choice: Choice) -> bytes:
        """The valid request that it was."""
        return self._grammar.seeds[choice[0]]

    def known(self, failure: Failure) -> bool:
        """It was found before."""
        return any((it.failure.kind, it.failure.about) == (failure.kind, failure.about) for it in self.found)

    def ask(self, octets: bytes, patience: float = PATIENCE, *, counted: bool = True) -> Failure | None:
        """What comes of it.  counted: it is none of those that make a failure smaller."""
        names = {name: self._own(letter) for name, letter in (("topic", b"t"), ("group", b"g"))}
        failure = self._attempt(Trial(self._grammar, octets, names), patience)
        if counted:
            self.tried += 1
            self._told(self.tried, None)
        return failure

    def _own(self, letter: bytes) -> bytes:
        """Eight letters that nobody else has."""
        return letter + b"-" + "".join(self._random.choices(_LETTERS, k=6)).encode()


def choices(seeds: int) -> st.SearchStrategy[Choice]:
    """Out of so many valid requests."""
    numbers = st.integers(0, seeds - 1)
    octet = st.integers(0, 255)
    damages = st.lists(
        st.tuples(st.sampled_from(list(DAMAGES)), octet, octet, numbers), min_size=1, max_size=MOST_DAMAGES
    )
    return st.tuples(numbers, damages, st.booleans())


class _Unmet(Exception):
    """Has hypothesis look for a smaller one."""


class _Over(BaseException):
    """Goes past hypothesis, which would have more questions to a server that is gone."""


class _Round:
    """Looks for one failure, and makes that smaller."""

    def __init__(self, fuzzer: Fuzzer, number: int, count: int) -> None:
        self._fuzzer = fuzzer
        self._number = number
        self._count = count
        self._known: dict[bytes, Failure | None] = {}
        self._found: Found | None = None
        self._until = 0.0
        self._last: Found | None = None

    def run(self) -> Found | None:
        """The failure, or None after as many requests."""
        asking = settings(
            max_examples=self._count,
            database=None,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
            verbosity=Verbosity.quiet,
        )(given(self._fuzzer.strategy())(self._tried))
        try:
            seed(self._number)(asking)()
        except _Unmet:
            return self._sure()
        except _Over:
            return self._found
        return None

    def _tried(self, choice: Choice) -> None:
        octets = self._fuzzer.damaged(choice)
        found = Found(Failure("gone", "nobody listens any more"), octets, self._fuzzer.origin(choice), self._number)
        try:
            failure = self._asked(octets)
        except Gone as gone:  # which is due to what was asked before
            self._found = msgspec.structs.replace(self._last or found, failure=Failure("gone", str(gone)))
            raise _Over from gone
        self._last = found
        if failure is None or self._fuzzer.known(failure):
            return
        if self._found is None:
            self._until = time.monotonic() + SHRINK_SECONDS
        elif (failure.kind, failure.about) != (self._found.failure.kind, self._found.failure.about):
            return
        self._found = msgspec.structs.replace(found, failure=failure)
        raise _Unmet

    def _asked(self, octets: bytes) -> Failure | None:
        """Nothing is asked twice, so hypothesis sees the same each time; nothing new once there is no more time."""
        if octets not in self._known:
            if self._found is not None and time.monotonic() > self._until:
                return None
            patience = SHRINK_PATIENCE if self._found else PATIENCE
            self._known[octets] = self._fuzzer.ask(octets, patience, counted=self._found is None)
        return self._known[octets]

    def _sure(self) -> Found:
        assert self._found is not None, "it was raised for one"
        try:
            failure = self._fuzzer.ask(self._found.octets, counted=False)
        except Gone as gone:
            failure = Failure("gone", str(gone))
        return msgspec.structs.replace(self._found, failure=failure or self._found.failure, again=failure is not None)
