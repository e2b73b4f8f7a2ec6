"""What an operator asked for: the configuration file, the defaults, and nothing that opens a socket."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from gateway import dialects
from gateway.core.commands import MAX_NAME
from gateway.dialects import Dialect, Settings
from gateway.net.login import Auth
from gateway.net.users import Password, User, parse_password, parse_token

DEFAULT_BACKEND = "sqlite:./gateway-data"


class TLS(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Files in PEM.  certificate: the server's, followed by its chain.

    plaintext: connections without TLS are served too, told apart by their first byte.  The Java and Go clients of
               Cursus need that: with TLS set they still open some of their connections without it.
    """

    certificate: str
    key: str
    plaintext: bool = False


class ListenerPlan(msgspec.Struct, frozen=True):
    """One port to open.  endpoint: a Twisted server endpoint description.  auth: what it asks of who comes in."""

    name: str
    dialect: Dialect
    endpoint: str
    settings: Settings
    tls: TLS | None = None
    auth: Auth = "optional"


class Configuration(msgspec.Struct, frozen=True):
    """A whole process.  backend: `NAME` or `NAME:ARGUMENT`.  users: who may log in, by id; () = nobody was named."""

    listeners: tuple[ListenerPlan, ...] = ()
    backend: str = DEFAULT_BACKEND
    users: tuple[User, ...] = ()


def default_listeners() -> tuple[ListenerPlan, ...]:
    """Every dialect on its own port of the loopback address."""
    return tuple(
        ListenerPlan(name, dialect, f"tcp:{dialect.port}:interface=127.0.0.1", dialect.settings())
        for name in dialects.names()
        for dialect in [dialects.load(name)]
    )


def parse_listen(values: list[str]) -> tuple[ListenerPlan, ...]:
    """`DIALECT=ENDPOINT` as on the command line.  Raises ValueError with a sentence."""
    plans: list[ListenerPlan] = []
    for value in values:
        name, equals, endpoint = value.partition("=")
        if not equals:
            raise ValueError(f"--listen wants DIALECT=ENDPOINT, such as cursus=tcp:9000, not {value!r}")
        dialect = find_dialect(name)
        known = [plan.name for plan in plans]
        unique = name if name not in known else f"{name}-{len(known) + 1}"
        plans.append(ListenerPlan(unique, dialect, endpoint, dialect.settings()))
    return tuple(plans)


def read_configuration(path: str) -> Configuration:
    """A TOML file.  Raises ValueError: `file key: what is wrong`."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    _only(_File.__struct_fields__, table, path)
    try:
        whole = msgspec.convert(table, _File)
    except msgspec.ValidationError as error:
        raise ValueError(f"{path}: {error}") from error
    plans = tuple(_plan(path, name, section) for name, section in whole.listener.items())
    users = _users(path, whole.users)
    for plan in plans:
        _check_login(path, plan, users)
    return Configuration(plans, whole.backend.spec, users)


def user_section(name: str, password: Password | None, tokens: Iterable[bytes]) -> str:
    """What `read_configuration` wants to see of a user.  Raises ValueError for a name that no user can have."""
    _check_user_name(name)
    lines = [f"[users.{_key(name)}]"]
    if password is not None:
        lines.append(f'password = "{password.text()}"')
    digests = ", ".join(f'"{token.hex()}"' for token in tokens)
    if digests:
        lines.append(f"tokens = [{digests}]")
    return "".join(f"{line}\n" for line in lines)


def find_dialect(name: str) -> Dialect:
    """Raises ValueError, with the dialects there are."""
    try:
        return dialects.load(name)
    except KeyError:
        raise ValueError(f"there is no dialect {name!r}; there are {', '.join(dialects.names())}") from None


class _Backend(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    spec: str = DEFAULT_BACKEND


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    backend: _Backend = _Backend()
    listener: dict[str, dict[str, object]] = {}
    users: dict[str, dict[str, object]] = {}


class _User(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    password: str | None = None
    tokens: tuple[str, ...] = ()


class _Listener(msgspec.Struct, frozen=True):
    """What every listener has; the other keys are its dialect's settings."""

    dialect: str
    endpoint: str = ""
    tls: TLS | None = None
    auth: Auth = "optional"


def _only(keys: tuple[str, ...], table: dict[str, object], where: str) -> None:
    for key in table:
        if key not in keys:
            raise ValueError(f"{where}: there is no key {key!r}; there are {', '.join(sorted(keys))}")


def _plan(path: str, name: str, section: dict[str, object]) -> ListenerPlan:
    try:
        common = msgspec.convert(section, _Listener)
        dialect = find_dialect(common.dialect)
        shared = _Listener.__struct_fields__
        _only(shared + dialect.settings.__struct_fields__, section, dialect.name)
        own = {key: value for key, value in section.items() if key not in shared}
        settings = msgspec.convert(own, dialect.settings)
    except ValueError as error:  # msgspec.ValidationError is one
        raise ValueError(f"{path} [listener.{name}]: {error}") from error
    endpoint = common.endpoint or f"tcp:{dialect.port}:interface=127.0.0.1"
    return ListenerPlan(name, dialect, endpoint, settings, common.tls, common.auth)


def _check_login(path: str, plan: ListenerPlan, users: tuple[User, ...]) -> None:
    if plan.auth == "required" and not users and plan.dialect.development is None:
        sentence = "without users everybody who logs in is believed; `gateway users add NAME` makes one"
        raise ValueError(f'{path} [listener.{plan.name}]: auth = "required" protects nothing: {sentence}')


def _users(path: str, sections: Mapping[str, dict[str, object]]) -> tuple[User, ...]:
    users: list[User] = []
    owners: dict[bytes, str] = {}
    for id, (name, section) in enumerate(sections.items(), 1):
        try:
            user = _user(name, id, section)
            for token in user.tokens:
                if owners.setdefault(token, name) != name:
                    raise ValueError(f"one of its tokens is {owners[token]}'s, too")  # noqa: TRY301
        except ValueError as error:
            raise ValueError(f"{path} [users.{_key(name)}]: {error}") from error
        users.append(user)
    return tuple(users)


def _user(name: str, id: int, section: dict[str, object]) -> User:
    _check_user_name(name)
    said = msgspec.convert(section, _User)
    if said.password is None and not said.tokens:
        raise ValueError("there is neither a password nor a token; `gateway users add NAME` makes one")
    password = None if said.password is None else parse_password(said.password)
    return User(name, id, password, tuple(map(parse_token, said.tokens)))


def _key(name: str) -> str:
    """A name as TOML wants it among the keys of a table."""
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _check_user_name(name: str) -> None:
    if not name.isprintable() or not 1 <= len(name.encode()) <= MAX_NAME:
        raise ValueError(f"a user's name is 1 to {MAX_NAME} bytes long and can be printed")
