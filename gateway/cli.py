"""The `gateway` command: thin."""

from __future__ import annotations

import json
import os
import sys

import click
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

    from gateway.logging import begin_log
    from gateway.service import Options, makeService

    options = Options()
    try:
        options.parseOptions(list(arguments))  # type: ignore[no-untyped-call]
    except usage.UsageError as error:
        sys.stderr.write(f"gateway run: {error}\n")
        sys.exit(2)
    begin_log(options.log_form)
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


@main.command(context_settings=_PASS_ON, add_help_option=False)
@click.option("--json", "as_json", is_flag=True)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def check(as_json: bool, arguments: tuple[str, ...]) -> None:
    """Say what `gateway run` with the same options would serve, as lines or with --json.  Opens nothing."""
    from gateway.configuration.checking import check_files, lines, summary
    from gateway.service import Options

    options = Options()
    try:
        options.parseOptions(list(arguments))  # type: ignore[no-untyped-call]
        check_files(options.configuration, options.file)
    except (usage.UsageError, ValueError) as error:
        sys.stderr.write(f"gateway check: {error}\n")
        sys.exit(2)
    if as_json:
        click.echo(json.dumps(summary(options.configuration, os.environ), indent=2))
    else:
        click.echo("\n".join(lines(options.configuration, os.environ)))


@main.command()
@click.argument("address", default="127.0.0.1:2323", metavar="[HOST:PORT]")
def console(address: str) -> None:
    """Open the admin console of a running gateway.

    Not on a terminal it sends the lines of standard input and prints the answers: echo topics | gateway console
    """
    from gateway.admin.calling import call, parse_address

    try:
        host, port = parse_address(address, 2323)
    except ValueError as error:
        sys.stderr.write(f"gateway console: {error}\n")
        sys.exit(2)
    sys.exit(call(host, port))


@main.command(context_settings=_PASS_ON, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def capture(arguments: tuple[str, ...]) -> None:
    """Show what `gateway run --capture DIR` has written, or replay it.  `gateway capture --help` lists the options."""
    from gateway.capture.commands import main as look

    sys.exit(look(list(arguments)))


@main.command(context_settings=_PASS_ON, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def conformance(arguments: tuple[str, ...]) -> None:
    """Judge a client or a server, byte by byte.  `gateway conformance --help` lists the ways."""
    from gateway.conformance.commands import main as judge

    sys.exit(judge(list(arguments)))


@main.command(context_settings=_PASS_ON, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def pipeline(arguments: tuple[str, ...]) -> None:
    """Run a job on Spark over topics or captured traffic.  `gateway pipeline --help` lists the jobs."""
    from gateway.pipeline.commands import main as work

    sys.exit(work(list(arguments)))


if __name__ == "__main__":
    main()
