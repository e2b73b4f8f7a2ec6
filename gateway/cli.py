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


@main.group()
def users() -> None:
    """Who may log in."""


@users.command()
@click.argument("name")
@click.option("--token", is_flag=True, help="Make a personal access token, too; the password may be empty then.")
def add(name: str, token: bool) -> None:
    """Print the [users.NAME] section for the configuration file.

    The password is asked for, or is the first line of standard input.  A token is shown on standard error, once.
    """
    from gateway.configuration import user_section
    from gateway.net.users import new_password, new_token

    secret = _ask_password()
    if not secret and not token:
        sys.stderr.write("gateway users add: a password is needed\n")
        sys.exit(2)
    made, digest = new_token()
    try:
        section = user_section(name, new_password(secret) if secret else None, [digest] if token else [])
    except ValueError as error:
        sys.stderr.write(f"gateway users add: {error}\n")
        sys.exit(2)
    if token:
        sys.stderr.write(f"{made}\n")
    sys.stdout.write(section)


def _ask_password() -> str:
    """Twice and hidden, or one line where nobody can be asked."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    asked = click.prompt(
        "Password", default="", show_default=False, hide_input=True, confirmation_prompt=True, err=True
    )
    return str(asked)


@main.command(context_settings=_PASS_ON, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench(arguments: tuple[str, ...]) -> None:
    """Measure this gateway against plain references.  `gateway bench --help` lists the options."""
    from gateway.bench.report import main as report

    sys.exit(report(list(arguments)))


if __name__ == "__main__":
    main()
