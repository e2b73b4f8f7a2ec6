"""What a server of a dialect can be asked for by our client role: what the proxy and its documentation go by.

Declared as data beside each dialect.  docs/backends.md is made from it, and a test holds `encode_request` to it: every
command arrives at the other end as it was asked, but for the fields named here, or is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from gateway.core.commands import Command

if TYPE_CHECKING:
    from gateway.dialects.dialect import Request, Terms

Kind = type[Command]


class Upstream(msgspec.Struct, frozen=True, kw_only=True):
    """One declaration.  Sentences are for a table: they begin small and have no period.

    commands: kinds that the wire has words for; any other is UNSUPPORTED.
    refused:  kind -> what of it there are no words for, which is UNSUPPORTED, or a value UNREPRESENTABLE.
    unsaid:   kind -> field -> what holds there whatever the field says.  Every other field arrives as it was asked.
    unheard:  kind -> what of its reply the wire does not say, and so is 0 or empty.
    waits:    kinds whose `wait` arrives.
    remembers: a connection goes on where it last read a partition, whatever a later read on it says.
    describes: what it says of a topic has all partitions, and where each of them ends.
    login:    nothing but a greeting is heard before somebody logged in.
    hello:    what is said before anything else.
    """

    commands: frozenset[Kind]
    refused: Mapping[Kind, str] = {}
    unsaid: Mapping[Kind, Mapping[str, str]] = {}
    unheard: Mapping[Kind, str] = {}
    waits: frozenset[Kind] = frozenset()
    remembers: bool = False
    describes: bool = False
    login: bool = False
    hello: Callable[[Terms], Request] | None = None
