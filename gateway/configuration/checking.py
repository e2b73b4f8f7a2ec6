"""`gateway check`: what a configuration would serve, and what is odd about it.  Opens nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from gateway.backends import find_maker
from gateway.backends.interface import IBackend, IBackendMaker
from gateway.configuration.endpoints import address_of
from gateway.configuration.environment import near_misses
from gateway.configuration.exposure import exposures
from gateway.configuration.lines import Place
from gateway.configuration.plans import TLS, Configuration, ListenerPlan
from gateway.configuration.told import Told
from gateway.net.descriptions import unseal
from gateway.net.security import Certificates

SECRET = ("key", "password_file", "host_key")
"""Keys of files that are nobody else's to read."""


def check_files(configuration: Configuration, file: str | None) -> None:
    """Raises ValueError for what has to be read at the start and cannot be: where it is named, and why.

    file: the configuration file, None = there is none.
    """
    told = Told.read(file) if file else Told()
    for place, path in _files(configuration):
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            told.refuse(place, f"{path}: {error.strerror}; it has to be there when the gateway starts", error)
    for plan in configuration.listeners:
        if plan.tls is not None:
            _check_certificates(told, plan.name, plan.tls)


def summary(configuration: Configuration, environment: Mapping[str, str]) -> dict[str, object]:
    """What would be served, for `--json`: numbers, words and lists only, without a secret."""
    maker, _ = find_maker(configuration.backend)
    return {
        "node": _plain(configuration.node),
        "backend": {"spec": configuration.backend, "durability": durability(maker)},
        "listeners": [_listener(plan) for plan in configuration.listeners],
        "users": len(configuration.users),
        "access": [_plain(rule) for rule in configuration.access],
        "limits": _plain(configuration.limits),
        "console": _plain(configuration.console),
        "web": _plain(configuration.web),
        "capture": _plain(configuration.capture),
        "insecure": configuration.insecure,
        "warnings": warnings(configuration, environment),
    }


def lines(configuration: Configuration, environment: Mapping[str, str]) -> list[str]:
    """The same for a person, a line each."""
    told: dict[str, Any] = summary(configuration, environment)
    backend = told["backend"]
    kept = f", durability {backend['durability']}" if backend["durability"] else ""
    shown = [
        _line("node", told["node"]["name"], _pairs({"advertise": told["node"]["advertise"]})),
        _line("backend", backend["spec"] + kept),
        *_table("listener", [_listener_cells(plan) for plan in configuration.listeners]),
        _line("users", str(told["users"] or "nobody was named")),
        *_table("access", [_rule_cells(rule) for rule in told["access"]]),
        _line("limits", _pairs(told["limits"])),
    ]
    for part in ("console", "web", "capture"):
        shown.append(_line(part, _pairs(told[part]) if told[part] else "none"))
    return shown + [f"warning: {sentence}" for sentence in told["warnings"]]


def warnings(configuration: Configuration, environment: Mapping[str, str]) -> list[str]:
    """What is allowed, and perhaps not meant."""
    found = list(exposures(configuration))
    for plan in configuration.listeners:
        found += _about(plan, configuration)
    settings, spec = configuration.backend_settings, configuration.backend
    if settings.user is not None and "remote:" not in spec:
        found.append(f"backend: user and password are for remote:, which {spec} is not")
    secrets = [path for place, path in _files(configuration) if place[-1] in SECRET]
    found += [f"{path} can be read by everybody on this machine; chmod 600 {path}" for path in secrets if _bare(path)]
    return found + near_misses(environment)


def durability(maker: IBackendMaker) -> str | None:
    """What a write has reached when it is answered, if the backend's class says it in the module of its maker."""
    module = vars(sys.modules[type(maker).__module__])
    kinds = [found for found in module.values() if isinstance(found, type) and IBackend.implementedBy(found)]
    stated = {said for kind in kinds if isinstance(said := getattr(kind, "durability", None), str)}
    return stated.pop() if len(stated) == 1 else None


def _check_certificates(told: Told, name: str, tls: TLS) -> None:
    try:
        Certificates(tls.certificate, tls.key, tls.client_ca, required=tls.client == "required")
    except ValueError as error:
        told.refuse(("listener", name, "tls"), str(error), error)


def _about(plan: ListenerPlan, configuration: Configuration) -> list[str]:
    found = []
    name = f"listener {plan.name}"
    if configuration.node.advertise and not plan.settings.advertise:
        found.append(f"{name}: [node] advertise needs a port that is known; give the listener its own advertise")
    asked = plan.tls is not None and plan.tls.client != "none"
    if asked and not configuration.principals:
        found.append(f"{name}: certificates of clients are asked for, and no user has principals; so they name nobody")
    if configuration.principals and not any(one.tls and one.tls.client != "none" for one in configuration.listeners):
        found.append("users have principals, and no listener asks for certificates (client, client_ca)")
    return found


def _files(configuration: Configuration) -> Iterable[tuple[Place, str]]:
    """What has to be readable at the start, and where it is named."""
    for plan in configuration.listeners:
        files = {} if plan.tls is None else plan.tls.files
        yield from ((("listener", plan.name, "tls", key), path) for key, path in files.items())
    if configuration.backend_settings.password_file is not None:
        yield ("backend", "password_file"), configuration.backend_settings.password_file
    console = configuration.console
    if console is not None and console.ssh:
        yield ("console", "host_key"), console.host_key
        yield ("console", "authorized_keys"), console.authorized_keys
    for section, plan_of in (("console", console), ("web", configuration.web)):
        sealed = None if plan_of is None else unseal(plan_of.endpoint)
        if sealed is not None:
            yield from (((section, "endpoint"), path) for path in (sealed.certificate, sealed.key))


def _bare(path: str) -> bool:
    try:
        return bool(os.stat(path).st_mode & 0o004)
    except OSError:
        return False


def _listener(plan: ListenerPlan) -> dict[str, object]:
    address = address_of(plan.endpoint)
    return {
        "name": plan.name,
        "dialect": plan.dialect.name,
        "endpoint": plan.endpoint,
        "host": address.host,
        "port": address.port,
        "auth": plan.auth,
        "tls": _plain(plan.tls),
        "allow": [str(network) for network in plan.allow],
        "settings": _plain(plan.settings),
    }


def _listener_cells(plan: ListenerPlan) -> list[str]:
    tls = "no tls"
    if plan.tls is not None:
        beside = ", plaintext too" if plan.tls.plaintext else ""
        clients = "" if plan.tls.client == "none" else f", client certificates {plan.tls.client}"
        tls = f"tls {plan.tls.certificate}{beside}{clients}"
    allow = f"from {', '.join(map(str, plan.allow))}" if plan.allow else ""
    return [plan.name, plan.dialect.name, plan.endpoint, f"auth {plan.auth}", tls, allow]


def _rule_cells(rule: Mapping[str, Any]) -> list[str]:
    cells = [f"{key} {' '.join(rule[key])}" for key in ("who", "command", "topic")]
    return ["allow" if rule["allow"] else "deny", *cells]


def _table(title: str, rows: list[list[str]]) -> list[str]:
    """Lines with cells under each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [_line(title, "  ".join(map(str.ljust, row, widths)).rstrip()) for row in rows] or [_line(title, "none")]


def _line(title: str, *rest: str) -> str:
    return f"{title:9} {'  '.join(text for text in rest if text)}".rstrip()


def _pairs(table: Mapping[str, object]) -> str:
    said = {key: f"{value:g}" if isinstance(value, float) else value for key, value in table.items() if value != ""}
    return "  ".join(f"{key} {value}" for key, value in said.items())


def _plain(value: object) -> Any:
    return cast(object, msgspec.to_builtins(value))
