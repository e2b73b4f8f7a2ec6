"""docs/backends.md: what each backend is, and what can be asked of servers of each dialect behind the proxy.

The second half is made from what the dialects declare (dialects/upstream.py) and from how commands are composed
(backends/remote/composing.py); `make docs` writes it, and a test compares.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gateway import dialects
from gateway.backends.remote.composing import SAID, stands_for
from gateway.core import commands as q
from gateway.dialects.upstream import Kind, Upstream

KINDS: tuple[Kind, ...] = tuple(typing.get_args(q.Command))

MARK = "<!-- From here on made from the dialects' own declarations by `make docs`; a test compares it with them. -->"
"""What is above it in the page is written by hand, and kept."""

LOCAL: Mapping[Kind, str] = {
    q.EndSession: "closes what the session had of its own",
    q.Authenticate: "users are this gateway's; it logs in at the server as itself",
    q.Logout: "likewise",
    q.ListSessions: "the connections of this gateway",
    q.DescribeSession: "likewise",
    q.FindLeader: "this gateway, for every topic that is there",
}
"""What a server is not asked for a client, though it may have words for it."""

INTRODUCTION = """
## Behind `remote:`, by command

A command is said as it is (**yes**, or *in part* where the lists below name what cannot be said of it), else composed
of several requests (*composed*), else it fails UNSUPPORTED at once, in the words of the client's dialect. *here* is
answered by the gateway.
"""

COMPOSED = """
## How commands are composed

Where a server has no words for a command as it is, the gateway asks it in steps. What comes of it is what the command
means, but others may do something between the steps.
"""


def document(said: Mapping[str, Upstream | None]) -> str:
    """The half of the page that is made."""
    declared = {name: upstream for name, upstream in said.items() if upstream is not None}
    parts = [MARK, INTRODUCTION, _overview(declared), COMPOSED]
    parts += [*_table(["command", "steps"], ([_name(kind), steps] for kind, steps in SAID.items())), ""]
    parts += [_server(name, upstream) for name, upstream in declared.items()]
    return "\n".join(parts)


def declared() -> dict[str, Upstream | None]:
    """What the dialects that there are declare."""
    return {name: dialects.load(name).upstream for name in dialects.names()}


def _overview(declared: Mapping[str, Upstream]) -> str:
    rows = ([_name(kind), *(_word(kind, upstream) for upstream in declared.values())] for kind in KINDS)
    return "\n".join(_table(["command", *(f"[{name}](#a-server-of-{name})" for name in declared)], rows))


def _word(kind: Kind, upstream: Upstream) -> str:
    if kind in LOCAL:
        return "*here*"
    if kind is q.ListMemberships:
        return "—"
    if kind in upstream.commands:
        return "*in part*" if kind in upstream.refused or upstream.unsaid.get(kind) else "**yes**"
    return "*composed*" if kind is q.Ping or stands_for(kind, upstream) else "—"


def _server(name: str, upstream: Upstream) -> str:
    lines = [f"## A server of {name}", ""]
    lines += _list("**There are no words for**, so it is composed or UNSUPPORTED:", upstream.refused)
    unsaid = {kind: _fields(fields) for kind, fields in upstream.unsaid.items()}
    lines += _list("**Not said**, so that this holds whatever is asked:", unsaid)
    lines += _list("**Not heard** in its answers, so 0 or empty:", upstream.unheard)
    if len(lines) == 2:
        lines += ["Everything can be said, and everything is heard.", ""]
    if upstream.login:
        lines += ["Nothing is heard before a login; see above for whose.", ""]
    if upstream.remembers:
        lines += ["It remembers where a connection reads, so sessions that read have a connection of their own.", ""]
    return "\n".join(lines)


def _fields(said: Mapping[str, str]) -> str:
    return "; ".join(f"`{field}`: {what}" for field, what in said.items())


def _list(head: str, said: Mapping[Kind, str]) -> list[str]:
    return [head, "", *(f"- {_name(kind)}: {said[kind]}" for kind in KINDS if kind in said), ""] if said else []


def _name(kind: Kind) -> str:
    return f"`{kind.__name__}`"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def main() -> None:
    """Write the second half of the page of this checkout."""
    page = Path(__file__).parents[2] / "docs" / "backends.md"
    by_hand, _, _ = page.read_text().partition(MARK)
    page.write_text(by_hand + document(declared()))


if __name__ == "__main__":
    main()
