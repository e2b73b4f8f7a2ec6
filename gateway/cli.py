"""The `gateway` command: thin."""

from __future__ import annotations

import sys

import click
from twisted.logger import (
    FilteringLogObserver,
    LogLevel,
    LogLevelFilterPredicate,
    globalLogBeginner,
    textFileLogObserver,
)
from twisted.python import usage

from gateway import __version__

_PASS_ON = {"ignore_unknown_options": True}


@click.group()
@click.version_option(__version__, prog_name="gateway")
def main() -> None:
    """Several broker dialects over one command model."""


@main.command(context_settings=_PASS_ON, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(arguments: tuple[str, ...]) -> None:
    """Serve in the foreground until interrupted.  `gateway run --help` lists the options."""
    from twisted.internet import reactor

    from gateway.service import Options, makeService

    options = Options()
    try:
        options.parseOptions(list(arguments))  # type: ignore[no-untyped-call]
    except usage.UsageError as error:
        sys.stderr.write(f"gateway run: {error}\n")
        sys.exit(2)
    shown = LogLevelFilterPredicate(LogLevel.info)
    shown.setLogLevelForNamespace("log_legacy", LogLevel.warn)  # "starting on", which the start-up lines say better
    levels = FilteringLogObserver(textFileLogObserver(sys.stderr), [shown])
    globalLogBeginner.beginLoggingTo([levels], redirectStandardIO=False)
    service = makeService(options)
    service.privilegedStartService()
    service.startService()
    reactor.addSystemEventTrigger("before", "shutdown", service.stopService)
    reactor.run()


@main.command(context_settings=_PASS_ON, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench(arguments: tuple[str, ...]) -> None:
    """Measure this gateway against plain references.  `gateway bench --help` lists the options."""
    from gateway.bench.report import main as report

    sys.exit(report(list(arguments)))


if __name__ == "__main__":
    main()
