"""From what was said to a Configuration.  defaults < file < environment < command line."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from gateway.admin.plan import ConsolePlan, WebPlan
from gateway.capture.plan import CapturePlan
from gateway.configuration.endpoints import check_endpoint
from gateway.configuration.environment import LISTEN, say_environment
from gateway.configuration.lines import Place
from gateway.configuration.listening import (
    LOGIN_NEEDED,
    default_listeners,
    parse_listen,
    read_endpoint,
    read_listeners,
    split_listen,
    with_defaults,
)
from gateway.configuration.people import read_access, read_principals, read_users
from gateway.configuration.plans import (
    DEFAULT_BACKEND,
    Backend,
    Configuration,
    ListenerPlan,
    Node,
)
from gateway.configuration.told import Said, Told
from gateway.net.limits import Limits

_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_.])?")


class _Backend(Backend, frozen=True):
    spec: str = DEFAULT_BACKEND


class _File(msgspec.Struct, frozen=True):
    """What a file may have; of listeners and users only that they are tables."""

    insecure: bool = False
    node: Node = Node()
    backend: _Backend = _Backend()
    listener: dict[str, dict[str, object]] = {}
    users: dict[str, dict[str, object]] = {}
    access: tuple[dict[str, object], ...] = ()
    limits: Limits = Limits()
    console: ConsolePlan | None = None
    web: WebPlan | None = None
    capture: CapturePlan | None = None


def read_configuration(path: str) -> Configuration:
    """A TOML file, alone.  Raises ValueError: `file:line key: what is wrong`."""
    return _configuration(Told.read(path), None)


def configure(
    path: str | None, environment: Mapping[str, str], options: Iterable[Said] = (), listen: Sequence[str] = ()
) -> Configuration:
    """A whole process: what a file, the environment and the command line say, each over the one before.

    listen: `DIALECT=ENDPOINT`, instead of the listeners of the environment or the file.  Without any every dialect
    listens on loopback, and so do console and page.

    Raises ValueError: where, and what is wrong.
    """
    told = Told.read(path) if path else Told()
    variable = split_listen(environment.get(LISTEN, ""))
    if not (listen or variable or told.table.get("listener")):
        for section in ("console", "web"):
            told.table.setdefault(section, {})
    say_environment(told, environment)
    for said in options:
        told.say(said)
    plans = _listening(listen, "--listen") if listen else _listening(variable, LISTEN)
    found = _configuration(told, plans or None)
    if found.listeners:
        return found
    plans = with_defaults(default_listeners(), found.node, found.limits)
    return msgspec.structs.replace(found, listeners=plans)


def _listening(values: Sequence[str], origin: str) -> tuple[ListenerPlan, ...]:
    plans = parse_listen(values, origin)
    for plan in plans:
        try:
            check_endpoint(plan.endpoint)
        except ValueError as error:
            raise ValueError(f"{origin} {plan.dialect.name}: {error}") from error
    return plans


def _configuration(told: Told, plans: tuple[ListenerPlan, ...] | None) -> Configuration:
    whole = told.convert(told.table, _File, ())
    _check_node(told, whole.node)
    _check_backend(told, whole.backend)
    users = read_users(told, whole.users)
    if plans is None:
        plans = read_listeners(told, whole.listener, whole.node, whole.limits)
    else:
        plans = with_defaults(plans, whole.node, whole.limits)
    for plan in plans:
        if plan.auth == "required" and not users and plan.dialect.development is None:
            told.refuse(("listener", plan.name, "auth"), LOGIN_NEEDED)
    settings = Backend(whole.backend.user, whole.backend.password, whole.backend.password_file)
    return Configuration(
        plans,
        whole.backend.spec,
        users,
        node=whole.node,
        backend_settings=settings,
        access=read_access(told, whole.access, users),
        principals=read_principals(told, whole.users),
        limits=whole.limits,
        console=_console(told, whole.console),
        web=_web(told, whole.web),
        capture=whole.capture,
        insecure=whole.insecure,
    )


def _check_node(told: Told, node: Node) -> None:
    place: Place = ("node", "advertise")
    if not node.advertise or _HOST.fullmatch(node.advertise):
        return
    try:
        ipaddress.ip_address(node.advertise)
    except ValueError as error:
        told.refuse(place, 'wants a host without a port, such as "broker.example.org"', error)


def _check_backend(told: Told, backend: Backend) -> None:
    if backend.password is not None and backend.password_file is not None:
        told.refuse(("backend", "password_file"), "say password or password_file, not both")
    if backend.user is None and (backend.password is not None or backend.password_file is not None):
        key = "password" if backend.password is not None else "password_file"
        told.refuse(("backend", key), 'whose password is that? say user = "NAME", too')


def _console(told: Told, console: ConsolePlan | None) -> ConsolePlan | None:
    """None where both of its endpoints are blank."""
    if console is None or not (console.endpoint or console.ssh):
        return None
    for key, endpoint in (("endpoint", console.endpoint), ("ssh", console.ssh)):
        if endpoint:
            read_endpoint(told, endpoint, ("console", key))
    return console


def _web(told: Told, web: WebPlan | None) -> WebPlan | None:
    if web is None or not web.endpoint:
        return None
    read_endpoint(told, web.endpoint, ("web", "endpoint"))
    return web
