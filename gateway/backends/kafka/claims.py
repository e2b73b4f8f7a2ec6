"""Which names and ids are whose, out of the records of the registry's log.  Pure.

A claim is a record under a key of its own, never written again but to end it.  In the order of the log the first that
claims a name or an id has it; one that comes too late has nothing, and whoever wrote it ends it.  Because no live claim
is ever replaced by another record, a log that Kafka has compacted means what the whole one meant: everybody who reads
it, whenever he starts, sees the same owners.

A claim ends with a tombstone; that of the highest id of its scope leaves the id behind, so that none is given out
twice.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gateway.core.commands import TopicSettings

CLAIM = b"c/"
"""Begins the key of a claim; 16 random bytes in hex follow."""

SETTINGS = b"s/"
"""Begins the key of a topic's settings, `s/NAMESPACE/TOPIC` by their ids; the latest counts."""

NAMESPACES = ""
"""The scope of namespaces.  That of topics is their namespace's id, that of groups `NAMESPACE/TOPIC`."""

Written = tuple[bytes, bytes | None]
"""Key and value of a record; no value is a tombstone."""


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """scope: see NAMESPACES.  created: us since the epoch.

    gone:   only the id is left of it.
    native: of what was there already; what a gateway makes is claimed before.
    """

    scope: str
    name: str
    id: int
    created: int
    gone: bool = False
    native: bool = False


_claim = msgspec.msgpack.Decoder(Claim)
_settings = msgspec.msgpack.Decoder(TopicSettings)


def claimed(nonce: bytes, claim: Claim) -> Written:
    """The record that claims.  nonce: 16 bytes that nobody else takes."""
    return CLAIM + nonce.hex().encode(), msgspec.msgpack.encode(claim)


def settled(namespace: int, topic: int, settings: TopicSettings) -> Written:
    """The record of a topic's settings."""
    return _settings_key(namespace, topic), msgspec.msgpack.encode(settings)


def _settings_key(namespace: int, topic: int) -> bytes:
    return b"%s%d/%d" % (SETTINGS, namespace, topic)


class _Scope:
    """live: all claims by key, in the order of the log.  names and ids: the keys of those that own something.

    gone: ids left behind, by key.
    """

    __slots__ = ("gone", "ids", "live", "names")

    def __init__(self) -> None:
        self.live: dict[bytes, Claim] = {}
        self.gone: dict[bytes, int] = {}
        self.names: dict[str, bytes] = {}
        self.ids: dict[int, bytes] = {}

    def add(self, key: bytes, claim: Claim) -> None:
        self.live[key] = claim
        if claim.name not in self.names and claim.id not in self.ids:
            self.names[claim.name] = self.ids[claim.id] = key

    def end(self, key: bytes) -> None:
        self.gone.pop(key, None)
        claim = self.live.pop(key, None)
        if claim is None or not self.owns(key, claim):
            return
        del self.names[claim.name], self.ids[claim.id]
        if len(self.names) == len(self.live):
            return
        rest, self.live, self.names, self.ids = self.live, {}, {}, {}
        for other, held in rest.items():  # one that came too late for this one is not too late any more
            self.add(other, held)

    def owns(self, key: bytes, claim: Claim) -> bool:
        return self.ids.get(claim.id) == key

    def highest(self) -> int:
        return max((*(claim.id for claim in self.live.values()), *self.gone.values()), default=0)


class Claims:
    """The fold over the log.  Every method but `apply` only looks.

    settings: (namespace id, topic id) -> as they were last written.
    """

    def __init__(self) -> None:
        self._scopes: dict[str, _Scope] = {}
        self._of: dict[bytes, str] = {}
        self.settings: dict[tuple[int, int], TopicSettings] = {}

    def apply(self, key: bytes, value: bytes | None) -> str | None:
        """The next record of the log.  Returns the scope that it touched, None = none.

        A record that no gateway of this release could have written is passed over.
        """
        try:
            if key.startswith(CLAIM):
                return self._apply_claim(key, None if value is None else _claim.decode(value))
            if key.startswith(SETTINGS):
                return self._apply_settings(key, None if value is None else _settings.decode(value))
        except (msgspec.MsgspecError, ValueError):
            pass
        return None

    def find(self, scope: str, reference: int | str) -> Claim | None:
        """Who owns that name, or that id."""
        held = self._scopes.get(scope)
        if held is None:
            return None
        key = held.names.get(reference) if isinstance(reference, str) else held.ids.get(reference)
        return None if key is None else held.live[key]

    def owned(self, scope: str) -> Iterator[Claim]:
        """All that own something in a scope."""
        held = self._scopes.get(scope)
        for key in held.names.values() if held is not None else ():
            yield held.live[key]  # type: ignore[union-attr]

    def scopes(self) -> list[str]:
        """All scopes that were ever heard of."""
        return list(self._scopes)

    def owns(self, key: bytes) -> bool:
        """Whether the claim of that record is not too late."""
        held = self._scopes.get(self._of.get(key, NAMESPACES))
        claim = None if held is None else held.live.get(key)
        return held is not None and claim is not None and held.owns(key, claim)

    def next_id(self, scope: str) -> int:
        """The id after the highest that was ever claimed."""
        held = self._scopes.get(scope)
        return 1 if held is None else held.highest() + 1

    def late(self) -> list[bytes]:
        """The keys of claims that came too late."""
        return [key for held in self._scopes.values() for key, at in held.live.items() if not held.owns(key, at)]

    def ending(self, key: bytes) -> list[Written]:
        """The records that end a claim."""
        held = self._scopes.get(self._of.get(key, NAMESPACES))
        claim = None if held is None else held.live.get(key)
        if held is None or claim is None:
            return []
        if claim.id < held.highest():
            return [(key, None)]
        left = msgspec.structs.replace(claim, name="", gone=True)
        return [(key, msgspec.msgpack.encode(left)), *((older, None) for older in held.gone)]

    def freeing(self, scope: str, name: str) -> list[Written]:
        """The records that end every claim of a name, so that none that came too late comes to own it."""
        held = self._scopes.get(scope)
        named = [] if held is None else [key for key, claim in held.live.items() if claim.name == name]
        return [record for key in named for record in self.ending(key)]

    def key(self, scope: str, name: str) -> bytes | None:
        """The key of the claim that owns a name."""
        held = self._scopes.get(scope)
        return None if held is None else held.names.get(name)

    def emptying(self, scope: str) -> list[Written]:
        """The records that end all there is in a scope, and all it remembers."""
        held = self._scopes.get(scope)
        return [] if held is None else [(key, None) for key in (*held.live, *held.gone)]

    def forgetting(self, namespace: int, topic: int) -> list[Written]:
        """The records that forget a topic's settings."""
        return [(_settings_key(namespace, topic), None)] if (namespace, topic) in self.settings else []

    def _apply_claim(self, key: bytes, claim: Claim | None) -> str | None:
        scope = self._of.get(key) if claim is None else claim.scope
        if scope is None:
            return None
        held = self._scopes.setdefault(scope, _Scope())
        held.end(key)
        if claim is None:
            del self._of[key]
            return scope
        self._of[key] = scope
        if claim.gone:
            held.gone[key] = claim.id
        else:
            held.add(key, claim)
        return scope

    def _apply_settings(self, key: bytes, settings: TopicSettings | None) -> str | None:
        namespace, topic = (int(part) for part in key.removeprefix(SETTINGS).split(b"/"))
        if settings is None:
            self.settings.pop((namespace, topic), None)
        else:
            self.settings[namespace, topic] = settings
        return str(namespace)
