"""Patterns of topic names: which of several owners a name belongs to.  Pure; knows no backend.

A pattern is an exact name, `PREFIX*`, or `*`.  What it is matched against is the topic's name in the namespace
`default`, and `NAMESPACE/NAME` in every other: so `sales/*` is all of the namespace `sales`, and `s*` is every topic of
`default` and every topic of every other namespace that begins with an s.  No name has two owners: an exact pattern
wins, else the longest prefix.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.core.commands import DEFAULT_NAMESPACE


class _Branch:
    """A place in the tree of prefixes.  owner: whose names pass here, None = nobody's pattern ends here."""

    __slots__ = ("branches", "owner")

    def __init__(self) -> None:
        self.owner: int | None = None
        self.branches: dict[str, _Branch] = {}


class Patterns:
    """owners: pattern -> who owns the names that match it; `*` among them.  Raises ValueError, with a sentence."""

    def __init__(self, owners: Mapping[str, int]) -> None:
        self._owners = dict(owners)
        if "*" not in owners:
            raise ValueError("a route for all other topics is wanted: the pattern *")
        self._all = owners["*"]
        self._exact: dict[str, int] = {}
        self._prefixes = _Branch()
        for pattern, owner in owners.items():
            self._add(pattern, owner)

    def owner(self, namespace: str, name: str) -> int:
        """Whose the topic is.  Takes time as the name is long, however many patterns there are."""
        full = name if namespace == DEFAULT_NAMESPACE else f"{namespace}/{name}"
        exact = self._exact.get(full)
        return self._longest(full) if exact is None else exact

    def owners(self, namespace: str) -> list[int]:
        """Who could own topics of a namespace, lowest first; the owner of `*` always could."""
        if namespace == DEFAULT_NAMESPACE:
            return sorted(set(self._owners.values()))
        within = f"{namespace}/"
        return sorted({owner for pattern, owner in self._owners.items() if _meets(pattern, within)})

    def _longest(self, full: str) -> int:
        branch, found = self._prefixes, self._all
        for letter in full:
            further = branch.branches.get(letter)
            if further is None:
                break
            branch = further
            found = found if branch.owner is None else branch.owner
        return found

    def _add(self, pattern: str, owner: int) -> None:
        prefix, star, rest = pattern.partition("*")
        if not pattern or rest:
            raise ValueError(f"a pattern is a name, PREFIX* or *, not {pattern!r}")
        if not star:
            self._exact[pattern] = owner
            return
        branch = self._prefixes
        for letter in prefix:
            branch = branch.branches.setdefault(letter, _Branch())
        branch.owner = owner


def _meets(pattern: str, within: str) -> bool:
    """Whether a pattern may match something that begins so."""
    prefix = pattern.removesuffix("*")
    return prefix.startswith(within) or (prefix != pattern and within.startswith(prefix))
