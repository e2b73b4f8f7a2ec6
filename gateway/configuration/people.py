"""Who may log in, and who may do what: `[users.NAME]` and `[[access]]`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, TypeVar, get_args

import msgspec
from msgspec import Meta

from gateway.configuration.lines import Place
from gateway.configuration.names import check_name, key
from gateway.configuration.told import Told
from gateway.configuration.words import suggestion
from gateway.core.commands import Command
from gateway.net.access import ANONYMOUS, AccessRule
from gateway.net.users import Password, User, parse_password, parse_token

ANYBODY = ("*", ANONYMOUS)
"""What may stand for who is no user."""

COMMANDS = tuple(command.__name__ for command in get_args(Command))

NO_PROOF = "there is neither a password nor a token nor a principal; `gateway users add NAME` makes one"

Word = Annotated[str, Meta(min_length=1)]
Words = Word | Annotated[tuple[Word, ...], Meta(min_length=1)]

T = TypeVar("T")


class _User(msgspec.Struct, frozen=True):
    password: str | None = None
    password_file: str | None = None
    tokens: tuple[str, ...] = ()
    principals: tuple[str, ...] = ()


class _Access(msgspec.Struct, frozen=True):
    allow: bool | None = None
    deny: bool | None = None
    who: Words = "*"
    command: Words = "*"
    topic: Words = "*"


def read_users(told: Told, sections: Mapping[str, dict[str, object]]) -> tuple[User, ...]:
    """Every `[users.NAME]`, numbered from 1.  Raises ValueError: where, and what is wrong, without a secret."""
    users: list[User] = []
    owners: dict[bytes, str] = {}
    for id, (name, section) in enumerate(sections.items(), 1):
        place: Place = ("users", name)
        said = told.convert(section, _User, place)
        _check_user(told, place, name, said)
        password = _password(told, place, said)
        tokens = tuple(_token(told, place, at, text) for at, text in enumerate(said.tokens))
        for token in tokens:
            _alone(told, (*place, "tokens"), owners, token, name)
        users.append(User(name, id, password, tokens))
    return tuple(users)


def read_principals(told: Told, sections: Mapping[str, dict[str, object]]) -> dict[str, str]:
    """Name of a client's certificate -> user.  Raises ValueError if two users have the same."""
    owners: dict[str, str] = {}
    for name, section in sections.items():
        said = told.convert(section, _User, ("users", name))
        for principal in said.principals:
            _alone(told, ("users", name, "principals"), owners, principal, name)
    return owners


def read_access(told: Told, rules: Iterable[object], users: Iterable[User]) -> tuple[AccessRule, ...]:
    """Every `[[access]]`, in their order.  Raises ValueError: where, and what is wrong."""
    known = {user.principal for user in users}
    return tuple(_rule(told, told.convert(rule, _Access, ("access", at)), at, known) for at, rule in enumerate(rules))


def user_section(name: str, password: Password | None, tokens: Iterable[bytes]) -> str:
    """What `read_configuration` wants to see of a user.  Raises ValueError for a name that no user can have."""
    check_name(name, "a user's")
    lines = [f"[users.{key(name)}]"]
    if password is not None:
        lines.append(f'password = "{password.text()}"')
    digests = ", ".join(f'"{token.hex()}"' for token in tokens)
    if digests:
        lines.append(f"tokens = [{digests}]")
    return "".join(f"{line}\n" for line in lines)


def _check_user(told: Told, place: Place, name: str, said: _User) -> None:
    try:
        check_name(name, "a user's")
    except ValueError as error:
        told.refuse(place, str(error), error)
    if name in ANYBODY:
        told.refuse(place, f"{name} stands for other people in [[access]]; call this user something else")
    if said.password is not None and said.password_file is not None:
        told.refuse((*place, "password_file"), "say password or password_file, not both")
    if said.password is None and said.password_file is None and not said.tokens and not said.principals:
        told.refuse(place, NO_PROOF)


def _password(told: Told, place: Place, said: _User) -> Password | None:
    try:
        text = said.password if said.password_file is None else _first_line(said.password_file)
        return None if text is None else parse_password(text)
    except ValueError as error:
        told.refuse((*place, "password" if said.password_file is None else "password_file"), str(error), error)


def _token(told: Told, place: Place, at: int, text: str) -> bytes:
    try:
        return parse_token(text)
    except ValueError as error:
        told.refuse((*place, "tokens", at), str(error), error)


def _first_line(path: str) -> str:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{path} is no text") from error
    return text.partition("\n")[0].strip()


def _alone(told: Told, place: Place, owners: dict[T, str], one: T, name: str) -> None:
    if owners.setdefault(one, name) != name:
        told.refuse(place, f"one of them is {owners[one]}'s, too; give each to one user")


def _rule(told: Told, said: _Access, at: int, users: set[str]) -> AccessRule:
    place: Place = ("access", at)
    if (said.allow is None) is (said.deny is None):
        told.refuse(place, "a rule says allow = true or deny = true, one of them")
    who, command, topic = _words(said.who), _words(said.command), _words(said.topic)
    if users:  # where nobody was named, whoever logs in is believed
        _known(told, (*place, "who"), who, {*users, *ANYBODY}, "user")
    _known(told, (*place, "command"), command, {*COMMANDS, "*"}, "command")
    for pattern in topic:
        if "*" in pattern[:-1]:
            told.refuse((*place, "topic"), f"a pattern is NAME, PREFIX* or *, not {pattern!r}")
    return AccessRule(said.allow is True or said.deny is False, who, command, topic)


def _words(said: Words) -> tuple[str, ...]:
    return (said,) if isinstance(said, str) else said


def _known(told: Told, place: Place, words: Iterable[str], known: set[str], what: str) -> None:
    for word in words:
        if word not in known:
            told.refuse(place, f"there is no {what} {word!r}{suggestion(word, known)}")
