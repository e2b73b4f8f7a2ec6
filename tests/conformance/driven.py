"""Run as a process of its own: has a driver make its client do all client cases of a dialect, and tells the verdicts.

Arguments: dialect, driver, the folder of its client or "", and ways of playing.  Says JSON: {id: [verdict, why]}.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from gateway.conformance.cases import load
from gateway.conformance.clients import Kind, drive_clients
from gateway.dialects import load as dialect_of


async def main(reactor: Any, dialect: str, driver: str, path: str, *ways: Any) -> None:
    spoken = dialect_of(dialect)
    cases = [case for case in load(dialect) if case.role == "client"]
    where = Path(path) if path else None
    _, results = await drive_clients(
        reactor, Kind(spoken, spoken.settings()), cases, driver=driver, client_path=where, ways=ways, patience=30.0
    )
    json.dump({each.case.id: [each.verdict, each.why] for each in results}, sys.stdout)


if __name__ == "__main__":
    react(lambda reactor: Deferred.fromCoroutine(main(reactor, *sys.argv[1:])))
