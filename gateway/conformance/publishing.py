"""`make conformance`: this gateway in all its dialects and the real clients, judged and published.

    python -m gateway.conformance.publishing DIRECTORY CLIENTS

DIRECTORY gets the report and a badge; CLIENTS holds a directory NAME==VERSION for each client that is installed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from twisted.internet.endpoints import clientFromString
from twisted.internet.interfaces import IReactorCore, IReactorTime

from gateway import __version__
from gateway.backends.wall import microseconds
from gateway.bench.children import gateway, serving
from gateway.conformance.cases import load
from gateway.conformance.clients import Kind, drive_clients
from gateway.conformance.reporting import write
from gateway.conformance.results import Result, Run
from gateway.conformance.servers import Judge, Subject
from gateway.conformance.telling import tell
from gateway.core.commands import Authenticate
from gateway.dialects import load as dialect_of
from gateway.running import finished

OURS = f"gateway {__version__}"

DIALECTS = ("cursus", "pipe", "iggy", "grid", "mlog")

DRIVERS = {
    "cursus-client": ("cursus", "cursus_client"),
    "iggy-py": ("iggy", "iggy_py"),
    "apache-iggy": ("iggy", "apache_iggy"),
}
"""Package -> its dialect, and the driver for it."""

BADGE = "badge.svg"


def main(argv: Sequence[str]) -> int:
    """0 = every MUST that we are held to is met: what real clients do is published, and no failure of ours."""
    from twisted.internet import reactor

    directory, clients = map(Path, argv)
    runs = finished(cast(IReactorCore, reactor), _all(reactor, clients))
    write(directory, runs)
    ours = [run for run in runs if run.agent.startswith(OURS)]
    (directory / BADGE).write_text(badge(ours), encoding="utf-8")
    failed = [result for run in ours for result in run.results if result.failed]
    for run in runs:
        sys.stdout.write(f"{run.agent:24} {run.dialect:7} {run.role:7} {run.counts()} in {run.seconds:.1f} s\n")
    return 1 if failed else 0


async def _all(reactor: object, clients: Path) -> list[Run]:
    runs: list[Run] = []
    with tempfile.TemporaryDirectory() as directory, serving(gateway("memory", DIALECTS), Path(directory)) as server:
        ports = server.ports()
        for name, port in ports.items():  # not at once: they share topics, and some cases list them twice
            runs.append(await _ours(reactor, name, port))
    driven: list[tuple[str, str, Path | None]] = [(dialect, "ours", None) for dialect in DIALECTS]
    driven += [(dialect, driver, path) for path, (dialect, driver) in installed(clients)]
    for dialect, driver, path in driven:
        run = await _driven(reactor, dialect, driver, path)
        if any(result.rulings for result in run.results):  # our client half has words for some dialects' cases only
            runs.append(run)
    return runs


async def _ours(reactor: object, name: str, port: int) -> Run:
    spoken = dialect_of(name)
    login = Authenticate("plain", *spoken.development) if spoken.development else None
    subject = Subject(
        spoken,
        clientFromString(reactor, f"tcp:127.0.0.1:{port}"),
        name,
        cast(IReactorTime, reactor),
        spoken.settings(),
        login,
        guest=True,
    )
    judge = Judge(subject, told=_told, seed=port)  # all share topics, so names have to differ
    began, started = microseconds(), time.monotonic()
    try:
        results = await judge.judge([case for case in load(name) if case.role == "server"])
    finally:
        judge.close()
    return _run(name, "server", OURS, began, started, results)


async def _driven(reactor: object, dialect: str, driver: str, path: Path | None) -> Run:
    spoken = dialect_of(dialect)
    cases = [case for case in load(dialect) if case.role == "client"]
    began, started = microseconds(), time.monotonic()
    known, results = await drive_clients(
        reactor, Kind(spoken, spoken.settings()), cases, driver=driver, client_path=path, told=_told
    )
    agent = OURS if path is None else path.name.replace("==", " ")
    return _run(dialect, "client", agent or known.name, began, started, results)


def _run(dialect: str, role: str, agent: str, began: int, started: float, results: Sequence[Result]) -> Run:
    return Run(
        dialect=dialect,
        role=role,  # type: ignore[arg-type]  # one of the two
        agent=agent,
        began=began,
        seconds=time.monotonic() - started,
        results=tuple(results),
    )


def _told(result: Result) -> None:
    if result.failed:
        tell(result)


def installed(clients: Path) -> Iterator[tuple[Path, tuple[str, str]]]:
    """The clients that are there and can be driven, by name and version."""
    for path in sorted(clients.iterdir() if clients.is_dir() else ()):
        driver = DRIVERS.get(path.name.partition("==")[0])
        if driver is not None:
            yield path, driver


def badge(runs: Sequence[Run]) -> str:
    """SVG: how many cases this gateway meets, of those that were played."""
    played = [result for run in runs for result in run.results if result.rulings]
    met = sum(result.verdict in ("PASS", "LENIENT") for result in played)
    color = "#1a7f4b" if not any(result.failed for result in played) else "#bf2c47"
    text = f"{met} of {len(played)} cases"
    left, right = 88, 14 + 7 * len(text)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img"'
        f' aria-label="conformance: {text}"><title>conformance: {text}</title>'
        f'<rect width="{left + right}" height="20" rx="3" fill="#4a5260"/>'
        f'<path d="M{left} 0h{right - 3}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3H{left}z" fill="{color}"/>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f'<text x="{left / 2}" y="14">conformance</text><text x="{left + right / 2}" y="14">{text}</text></g></svg>\n'
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
