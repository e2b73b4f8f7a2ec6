"""Run as a process of its own: has a driver make its client do client cases of a dialect, and tells the verdicts.

Arguments: dialect, driver, the folder of its client or "", then ways of playing, and ids of cases, none = all of them.
Says JSON: {id: [verdict, why]}.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from gateway.conformance.cases import load
from gateway.conformance.clients import WAYS, Kind, drive_clients
from gateway.dialects import load as dialect_of


async def main(reactor: Any, dialect: str, driver: str, path: str, *more: Any) -> None:
    spoken = dialect_of(dialect)
    ways = [way for way in WAYS if way in more]
    ids = set(more) - set(ways)
    cases = [case for case in load(dialect) if case.role == "client" and (case.id in ids or not ids)]
    where = Path(path) if path else None
    _, results = await drive_clients(
        reactor, Kind(spoken, spoken.settings()), cases, driver=driver, client_path=where, ways=ways, patience=30.0
    )
    json.dump({each.case.id: [each.verdict, each.why] for each in results}, sys.stdout)


if __name__ == "__main__":
    react(lambda reactor: Deferred.fromCoroutine(main(reactor, *sys.argv[1:])))
