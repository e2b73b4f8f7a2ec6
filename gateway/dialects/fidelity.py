"""How faithful a dialect is to a record: what of it its producers can say, and what of it its readers are shown.

Declared as data.  docs/translation.md is made from it, losses are counted by it, and a test holds every pair of
dialects to it: what one can say and the other shows is the product of two declarations, not a table of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from gateway.core.records import Header, HeaderKind, Record
from gateway.dialects.losses import Losses, lose

Way = Literal["kept", "partly", "changed", "dropped", "unsaid", "given"]


class Fate(msgspec.Struct, frozen=True):
    """What becomes of one field of a record.

    way: `kept`     as it is.
         `partly`   as it is, but for what `how` says; that is counted when it happens.
         `changed`  always, as `how` says.
         `dropped`  this wire has no place for it.
         `unsaid`   no producer of this dialect can write it.
         `given`    nor this, but every record gets one from the gateway.
    how: a short phrase, for the reader of a table.
    """

    way: Way
    how: str = ""


KEPT, DROPPED, UNSAID, GIVEN = Fate("kept"), Fate("dropped"), Fate("unsaid"), Fate("given")

FIELDS: dict[str, str] = {
    "value": "the payload",
    "tombstone": "no value: the key was removed from a table",
    "key": "what partitions and tables go by; an empty one is none",
    "headers": "names and values beside the payload, in their order",
    "header_kinds": "what types the names and values of headers have",
    "timestamp": "when it was appended, or when it was somewhere else before it was moved here",
    "origin_timestamp": "when it was made, as its producer says",
    "id": "16 bytes that are no other record's",
    "producer": "the id of an idempotent producer",
    "epoch": "of that producer",
    "sequence": "the number that this producer gave it",
    "event_type": "of an event",
    "schema_version": "of an event",
    "aggregate_version": "of what the event happened to",
    "metadata": "of an event",
    "expiry": "when tables stop showing it",
}
"""What a record has, and what that is: the fields of core.records.Record, but that a tombstone is apart from a value
and the kinds of headers from headers.  Losses are counted under these names."""

PLACE: dict[str, str] = {
    "partition": "where it is",
    "offset": "its number there",
}
"""What a batch knows of its records.  Nothing of it is ever counted as lost."""

Fates = Mapping[str, Fate]


class Fidelity(msgspec.Struct, frozen=True, kw_only=True):
    """One dialect.

    writing: field -> what becomes of it on the way from a producer into the store.
    reading: field -> what becomes of it on the way from the store to a reader.
    by:      the requests that both speak of, writing first.
    notes:   sentences on other ways to write and read, and older generations.
    """

    writing: Fates
    reading: Fates
    by: tuple[str, str]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises ValueError unless every field is spoken of, in both directions."""
        for fates in (self.writing, self.reading):
            if fates.keys() != {**FIELDS, **PLACE}.keys():
                raise ValueError(f"left out or unheard of: {sorted(fates.keys() ^ {**FIELDS, **PLACE}.keys())}")

    def writers(self, dialect: str) -> Tally:
        """Counts what is lost of records that a client writes in this dialect."""
        return Tally(dialect, self.writing)

    def readers(self, dialect: str) -> Tally:
        """Counts what readers do not get, of records that other dialects wrote: what its own servers do not show of its
        own producers' records either is no loss of translation.
        """
        return Tally(dialect, self.reading, spared=dialect)


def fates(otherwise: Fate, **said: Fate) -> dict[str, Fate]:
    """Every field of a record in its order, with the fate said or else that one.  A place is kept unless it is said."""
    return {field: said.get(field, otherwise) for field in FIELDS} | {at: said.get(at, KEPT) for at in PLACE}


_LOST: tuple[Way, ...] = ("dropped", "unsaid", "given")
_RANKS: tuple[Way, ...] = ("kept", "partly", "changed", "dropped")


def journey(writing: Fate, reading: Fate) -> Fate:
    """What becomes of a field between a producer of one dialect and a reader of another."""
    if writing.way == "unsaid" or (writing.way == "given" and reading.way == "dropped"):
        return UNSAID
    if writing.way == "given":
        return Fate("given", reading.how)
    if reading.way == "dropped":
        return reading
    way = max(writing.way, reading.way, key=_RANKS.index)
    return Fate(way, "; ".join(dict.fromkeys(how for how in (writing.how, reading.how) if how)))


class Tally:
    """Counts the records whose fields one direction of a dialect drops, for who loses nothing but by dropping it.

    dialect: whose wire it is.  spared: the dialect whose records are not counted.
    """

    def __init__(self, dialect: str, fates: Fates, spared: str | None = None) -> None:
        names = Record.__struct_fields__
        self._dialect = dialect
        self._spared = spared
        self._tombstones = fates["tombstone"].way != "kept"
        self._kinds = fates["header_kinds"].way in _LOST
        self._dropped = [(at, name, _PLAIN[at]) for at, name in enumerate(names) if fates[name].way in _LOST]

    def count(self, records: Sequence[Record], origin: str, losses: Losses) -> None:
        """Of these records.  origin: the dialect that wrote them, "" = not known."""
        if origin != self._spared:
            self.count_columns(list(zip(*map(msgspec.structs.astuple, records), strict=True)), origin, losses)

    def count_columns(self, columns: Sequence[Sequence[object]], origin: str, losses: Losses) -> None:
        """Of records taken apart: a column for each field of Record, or none if there are no records."""
        if origin == self._spared:
            return
        for name, times in self._lost(columns):
            lose(losses, origin, self._dialect, name, times)

    def of(self, record: Record) -> list[str]:
        """The fields that this one loses."""
        return [name for name, _ in self._lost([(value,) for value in msgspec.structs.astuple(record)])]

    def _lost(self, columns: Sequence[Sequence[object]]) -> list[tuple[str, int]]:
        if not columns:
            return []
        found = []
        count = len(columns[0])
        for at, name, plain in self._dropped:  # 6 ns a value, since what is plain mostly is the same object
            if times := count - columns[at].count(plain):
                times -= columns[at].count(b"") if plain is None else 0
                found += [(name, times)] if times else []
        if self._kinds and columns[_HEADERS].count(()) < count:
            times = sum(map(_typed, columns[_HEADERS]))  # type: ignore[arg-type]  # they are that record field
            found += [("header_kinds", times)] if times else []
        if self._tombstones and (times := columns[_VALUE].count(None)):
            found.append(("tombstone", times))
        return found


_PLAIN = msgspec.structs.astuple(Record())
_VALUE, _HEADERS = Record.__struct_fields__.index("value"), Record.__struct_fields__.index("headers")


def _typed(headers: tuple[Header, ...]) -> bool:
    """Whether the kinds of headers say anything."""
    return any(at.kind is not HeaderKind.RAW or at.key_kind is not HeaderKind.TEXT for at in headers)
