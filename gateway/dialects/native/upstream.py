"""What a native server can be asked for: everything there is, and nothing of it is lost on the way."""

from __future__ import annotations

from typing import get_args

from gateway.core.commands import Command, Fetch, Take
from gateway.dialects.native.session import hello
from gateway.dialects.upstream import Upstream

UPSTREAM = Upstream(commands=frozenset(get_args(Command)), waits=frozenset({Fetch, Take}), hello=hello)
