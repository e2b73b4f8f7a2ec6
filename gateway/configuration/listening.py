"""Which ports to open: those of the command line, of `[listener.NAME]`, or every dialect on its own."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

import msgspec

from gateway import dialects
from gateway.configuration.endpoints import address_of, check_endpoint
from gateway.configuration.lines import Place
from gateway.configuration.names import check_name
from gateway.configuration.plans import TLS, ListenerPlan, Node
from gateway.configuration.told import Told
from gateway.configuration.words import no_such_key, suggestion
from gateway.dialects import Dialect, Settings
from gateway.net.addresses import Network
from gateway.net.descriptions import Sealed, unseal
from gateway.net.limits import Limits
from gateway.net.login import Auth

LOGIN_NEEDED = (
    'auth = "required" protects nothing: without users everybody who logs in is believed; '
    "`gateway users add NAME` makes one"
)


class _Listener(msgspec.Struct, frozen=True):
    """What every listener has; the other keys are its dialect's settings."""

    dialect: str
    endpoint: str = ""
    tls: TLS | None = None
    auth: Auth = "optional"
    allow: tuple[str, ...] = ()


SHARED = _Listener.__struct_fields__


def default_listeners() -> tuple[ListenerPlan, ...]:
    """Every dialect on its own port of the loopback address."""
    return tuple(
        ListenerPlan(name, dialect, default_endpoint(dialect), dialect.settings())
        for name in dialects.names()
        for dialect in [dialects.load(name)]
    )


def default_endpoint(dialect: Dialect) -> str:
    """Where a dialect listens if nothing else is said."""
    return f"tcp:{dialect.port}:interface=127.0.0.1"


def parse_listen(values: Sequence[str], origin: str = "--listen") -> tuple[ListenerPlan, ...]:
    """`DIALECT=ENDPOINT` as on the command line.  Raises ValueError with a sentence."""
    plans: list[ListenerPlan] = []
    for value in values:
        name, equals, endpoint = value.partition("=")
        if not equals:
            raise ValueError(f"{origin} wants DIALECT=ENDPOINT, such as cursus=tcp:9000, not {value!r}")
        dialect = find_dialect(name)
        known = [plan.name for plan in plans]
        unique = name if name not in known else f"{name}-{len(known) + 1}"
        try:
            sealed = unseal(endpoint)
        except ValueError as error:
            raise ValueError(f"{origin} {name}: {error}") from error
        plans.append(_with_tls(ListenerPlan(unique, dialect, endpoint, dialect.settings()), sealed))
    return tuple(plans)


def split_listen(value: str) -> list[str]:
    """`DIALECT=ENDPOINT,DIALECT=ENDPOINT` as in the environment."""
    return [one.strip() for one in value.split(",") if one.strip()]


def find_dialect(name: str) -> Dialect:
    """Raises ValueError, with the dialects there are."""
    try:
        return dialects.load(name)
    except KeyError:
        raise ValueError(f"there is no dialect {name!r}{suggestion(name, dialects.names())}") from None


def read_listeners(
    told: Told, sections: dict[str, dict[str, object]], node: Node, limits: Limits
) -> tuple[ListenerPlan, ...]:
    """Every `[listener.NAME]`.  Raises ValueError: where, and what is wrong."""
    return tuple(_plan(told, name, section, node, limits) for name, section in sections.items())


def with_defaults(plans: Iterable[ListenerPlan], node: Node, limits: Limits) -> tuple[ListenerPlan, ...]:
    """Listeners that no section describes, with what `[node]` and `[limits]` say for all."""
    return tuple(
        msgspec.structs.replace(plan, settings=msgspec.structs.replace(plan.settings, **_common(plan, node, limits)))
        for plan in plans
    )


def _with_tls(plan: ListenerPlan, sealed: Sealed | None) -> ListenerPlan:
    """TLS of an `ssl:` endpoint is ours, like that of a `tls` table."""
    if sealed is None:
        return plan
    return msgspec.structs.replace(plan, endpoint=sealed.endpoint, tls=TLS(sealed.certificate, sealed.key))


def _common(plan: ListenerPlan, node: Node, limits: Limits) -> dict[str, object]:
    return {"frame_seconds": limits.frame_seconds, "advertise": _advertised(node.advertise, plan.endpoint)}


def _plan(told: Told, name: str, section: dict[str, object], node: Node, limits: Limits) -> ListenerPlan:
    place: Place = ("listener", name)
    try:
        check_name(name, "a listener's")
    except ValueError as error:
        told.refuse(place, str(error), error)
    dialect = _dialect(told, section, place)
    known = (*SHARED, *dialect.settings.__struct_fields__)
    for key in section:
        if key not in known:
            told.refuse((*place, key), no_such_key(key, known))
    common = told.convert({key: section[key] for key in SHARED if key in section}, _Listener, place)
    endpoint = common.endpoint or default_endpoint(dialect)
    read_endpoint(told, endpoint, (*place, "endpoint"))
    sealed = unseal(endpoint)
    if sealed is not None and common.tls is not None:
        told.refuse((*place, "endpoint"), "the ssl: endpoint and tls would both encrypt; write tcp: instead of ssl:")
    own = {key: value for key, value in section.items() if key not in SHARED}
    settings = _settings(told, own, dialect, place)
    plan = ListenerPlan(name, dialect, endpoint, settings, common.tls, common.auth, _networks(told, common, place))
    plan = _with_tls(plan, sealed)
    missing = {key: value for key, value in _common(plan, node, limits).items() if key not in own}
    return msgspec.structs.replace(plan, settings=msgspec.structs.replace(settings, **missing))


def _dialect(told: Told, section: dict[str, object], place: Place) -> Dialect:
    known = ", ".join(dialects.names())
    name = section.get("dialect")
    if not isinstance(name, str):
        wanted = f'dialect = "NAME" is missing; NAME is one of {known}' if name is None else f"wants one of {known}"
        told.refuse((*place, "dialect"), wanted)
    try:
        return find_dialect(name)
    except ValueError as error:
        told.refuse((*place, "dialect"), str(error), error)


def _settings(told: Told, own: dict[str, object], dialect: Dialect, place: Place) -> Settings:
    settings = told.convert(own, dialect.settings, place)
    if settings.frame_seconds <= 0:
        told.refuse((*place, "frame_seconds"), f"wants a number above 0, not {settings.frame_seconds:g}")
    if settings.max_frame < 0:
        told.refuse((*place, "max_frame"), f"wants a whole number, 0 or more, not {settings.max_frame}")
    host, _, port = settings.advertise.rpartition(":")
    if settings.advertise and not (host and port.isascii() and port.isdigit() and int(port) <= 0xFFFF):
        told.refuse((*place, "advertise"), 'wants "HOST:PORT", such as "broker.example.org:9000"')
    return settings


def read_endpoint(told: Told, endpoint: str, place: Place) -> None:
    """Raises ValueError, with the place, for what is no endpoint."""
    try:
        check_endpoint(endpoint)
    except ValueError as error:
        told.refuse(place, str(error), error)


def _networks(told: Told, common: _Listener, place: Place) -> tuple[Network, ...]:
    networks: list[Network] = []
    for at, text in enumerate(common.allow):
        try:
            networks.append(ipaddress.ip_network(text))
        except ValueError as error:
            sentence = f'{text!r} is no address or network; write one such as "10.1.2.3", "10.1.0.0/16" or "fd00::/8"'
            told.refuse((*place, "allow", at), sentence, error)
    return tuple(networks)


def _advertised(host: str, endpoint: str) -> str:
    """What clients of a listener dial if the node has that name; "" where the port is not known before it is open."""
    port = address_of(endpoint).port
    if not host or not port:
        return ""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
