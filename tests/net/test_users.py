"""gateway.net.users: who may log in, and with what."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed

from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Authenticated
from gateway.net.users import AT_ONCE, LOG_N, Run, User, Users, new_password, new_token, parse_password, parse_token

RFC_7914 = bytes.fromhex(
    "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2"
    "d5432955613f0fcf62d49705242a9af9e61e85dc0d651e40dfcf017b45575887"
)
"""Section 12: password "pleaseletmein", salt "SodiumChloride", N=16384, r=8, p=1."""

TOKEN, DIGEST = new_token()
ANN = User("ann", 1, new_password("correct horse", log_n=4), (DIGEST,))
BEN = User("ben", 2, new_password("Stra\u00dfe \U0001f40e", log_n=4))
EVE = User("eve", 3, None, (hashlib.sha256(b"eve's own").digest(),))


def at_once(work: Any) -> Deferred[bool]:
    return succeed(work())


def asked(users: Users, mechanism: str, principal: str, secret: str) -> Authenticated | Fault:
    """How it ends, at once."""
    try:
        outcome = users.check(q.Authenticate(mechanism, principal, secret))
    except CommandFailed as failure:
        return failure.fault
    if isinstance(outcome, Authenticated):
        return outcome
    ended: list[Any] = []
    outcome.addBoth(ended.append)
    return ended[0] if isinstance(ended[0], Authenticated) else ended[0].value.fault


@pytest.mark.parametrize(
    ("mechanism", "principal", "secret", "outcome"),
    [
        ("plain", "ann", "correct horse", Authenticated("ann", 1)),
        ("plain", "ben", "Stra\u00dfe \U0001f40e", Authenticated("ben", 2)),
        ("plain", "ann", "correct hors", Fault.BAD_CREDENTIALS),
        ("plain", "ann", "", Fault.BAD_CREDENTIALS),
        ("plain", "ann", "\ud800", Fault.BAD_CREDENTIALS),
        ("plain", "Ann", "correct horse", Fault.BAD_CREDENTIALS),
        ("plain", "nobody", "correct horse", Fault.BAD_CREDENTIALS),
        ("plain", "ben", "correct horse", Fault.BAD_CREDENTIALS),
        ("plain", "eve", "correct horse", Fault.BAD_CREDENTIALS),  # the password of another, where she has none
        ("plain", "ann", TOKEN, Fault.BAD_CREDENTIALS),
        ("token", "", TOKEN, Authenticated("ann", 1)),
        ("token", "ann", TOKEN, Authenticated("ann", 1)),
        ("token", "ben", TOKEN, Fault.BAD_CREDENTIALS),
        ("token", "", "eve's own", Authenticated("eve", 3)),
        ("token", "", TOKEN[:-1], Fault.BAD_CREDENTIALS),
        ("token", "", "", Fault.BAD_CREDENTIALS),
        ("token", "ann", "correct horse", Fault.BAD_CREDENTIALS),
        ("token", "", DIGEST.hex(), Fault.BAD_CREDENTIALS),
        ("magic", "ann", "correct horse", Fault.UNSUPPORTED),
    ],
)
def test_only_who_proves_it_is_a_user(mechanism: str, principal: str, secret: str, outcome: object) -> None:
    assert asked(Users([ANN, BEN, EVE], at_once), mechanism, principal, secret) == outcome


def test_who_is_believed_has_the_number_of_the_user_of_that_name_if_there_are_users() -> None:
    claim = q.Authenticate("plain", "ben", "whatever")
    assert Users().believe(claim) == Authenticated("ben", 1)
    assert Users([ANN, BEN]).believe(claim) == Authenticated("ben", 2)
    assert Users([ANN]).believe(claim) == Authenticated("ben", 0)


@pytest.mark.parametrize(
    ("principal", "secret"), [("nobody", "x"), ("eve", "x"), ("ann", "x"), ("ann", "correct horse")]
)
def test_an_unknown_user_costs_as_much_as_a_wrong_password(
    monkeypatch: pytest.MonkeyPatch, principal: str, secret: str
) -> None:
    costs: list[dict[str, Any]] = []
    scrypt = hashlib.scrypt

    def spy(password: bytes, **cost: Any) -> bytes:
        costs.append({name: value for name, value in cost.items() if name != "salt"})
        return scrypt(password, **cost)

    monkeypatch.setattr(hashlib, "scrypt", spy)
    asked(Users([ANN, EVE], at_once), "plain", principal, secret)
    (cost,) = costs
    assert (cost["n"], cost["r"], cost["p"], cost["dklen"]) == (1 << 4, 8, 1, 32)


def test_without_any_password_an_unknown_user_costs_what_a_new_one_would(monkeypatch: pytest.MonkeyPatch) -> None:
    costs: list[int] = []

    def spy(password: bytes, *, n: int, **cost: Any) -> bytes:
        costs.append(n)
        return b""

    monkeypatch.setattr(hashlib, "scrypt", spy)
    assert asked(Users([EVE], at_once), "plain", "nobody", "x") is Fault.BAD_CREDENTIALS
    assert costs == [1 << LOG_N]


class Later:
    """Work that is done when the test says so."""

    def __init__(self) -> None:
        self.open: list[tuple[Any, Deferred[bool]]] = []

    def __call__(self, work: Any) -> Deferred[bool]:
        self.open.append((work, Deferred()))
        return self.open[-1][1]

    def do(self) -> None:
        work, done = self.open.pop(0)
        done.callback(work())


def begun(run: Run, count: int) -> list[Deferred[Authenticated]]:
    users = Users([ANN], run)
    started = [users.check(q.Authenticate("plain", "ann", "correct horse")) for _ in range(count)]
    return [check for check in started if isinstance(check, Deferred)]


def test_only_so_many_passwords_are_checked_at_a_time() -> None:
    later, outcomes = Later(), list[Any]()
    for check in begun(later, AT_ONCE + 3):
        check.addCallback(outcomes.append)
    for left in (3, 2, 1, 0):
        assert len(later.open) == AT_ONCE
        assert len(outcomes) == 3 - left
        later.do()
    while later.open:
        later.do()
    assert outcomes == [Authenticated("ann", 1)] * (AT_ONCE + 3)


def test_who_gives_up_before_its_turn_costs_nothing_and_afterwards_makes_no_room_for_another() -> None:
    later, outcomes = Later(), list[Any]()
    checks = begun(later, AT_ONCE + 2)
    for check in checks:
        check.addBoth(outcomes.append)
    checks[-1].cancel()
    checks[0].cancel()
    assert len(outcomes) == 2
    assert len(later.open) == AT_ONCE
    for _ in range(AT_ONCE + 1):
        later.do()
    assert later.open == []
    assert outcomes[2:] == [Authenticated("ann", 1)] * AT_ONCE


def test_a_check_that_breaks_gives_its_turn_back() -> None:
    def broken(work: Any) -> Deferred[bool]:
        done: Deferred[bool] = Deferred()
        done.errback(MemoryError())
        return done

    failures: list[Any] = []
    for check in begun(broken, AT_ONCE + 1):
        check.addErrback(failures.append)
    assert [type(failure.value) for failure in failures] == [MemoryError] * (AT_ONCE + 1)


# -- what is kept


def test_what_is_kept_of_a_password_is_scrypt_of_it() -> None:
    kept = parse_password(
        "scrypt:14:8:1:U29kaXVtQ2hsb3JpZGU=:"
        "cCO9yzr9c0hGHAbNgf046/2o+7qQT44+qbVD9lRdofLVQylVYT8Pz2LUlwUkKpr55h6F3A1lHkDfzwF7RVdYhw=="
    )
    assert kept.hash == RFC_7914
    assert kept.matches("pleaseletmein")
    assert not kept.matches("pleaseletmeout")


def test_a_password_is_kept_with_a_salt_of_its_own_and_is_read_as_it_is_written() -> None:
    first, second = new_password("same"), new_password("same")
    assert first.salt != second.salt
    assert first.text().startswith("scrypt:14:8:1:")
    assert parse_password(first.text()) == first
    assert "hash" not in repr(ANN) and ANN.password is not None and ANN.password.salt.hex() not in repr(ANN)


GOOD = new_password("correct horse", log_n=4).text()
SALT, HASH = GOOD.split(":")[4:]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "correct horse",
        "$2b$12$abcdefghijklmnopqrstuv",
        GOOD.replace("scrypt", "bcrypt"),
        GOOD + ":",
        f"scrypt:x:8:1:{SALT}:{HASH}",
        f"scrypt:0:8:1:{SALT}:{HASH}",
        f"scrypt:4:0:1:{SALT}:{HASH}",
        f"scrypt:4:8:-1:{SALT}:{HASH}",
        f"scrypt:4:8:1:{SALT}:",
        f"scrypt:4:8:1:{SALT}:AAAA",
        f"scrypt:4:8:1:{SALT}:{HASH[:-1]}",
        f"scrypt:4:8:1:!!!!:{HASH}",
    ],
)
def test_a_password_that_is_no_scrypt_text_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_password(text)
    assert str(caught.value) == ("a password is written scrypt:LOGN:R:P:SALT:HASH; `gateway users add NAME` makes one")


@pytest.mark.parametrize("cost", ["18:8:1", "30:8:1", "31:1:1", "1000000:1:1", "14:200:1", "4:8:17"])
def test_a_password_that_would_take_too_much_to_check_is_refused(cost: str) -> None:
    with pytest.raises(ValueError, match=r"^checking that password would take more than 256 MiB or 16 rounds$"):
        parse_password(f"scrypt:{cost}:{SALT}:{HASH}")


@pytest.mark.parametrize("cost", ["17:8:1", "14:8:16"])
def test_a_password_may_take_more_than_ours_to_check(cost: str) -> None:
    assert not parse_password(f"scrypt:{cost}:{SALT}:{HASH}").matches("correct horse")


def test_tokens_are_random_and_kept_as_their_digest() -> None:
    made = {new_token() for _ in range(100)}
    assert len(made) == 100
    for token, digest in made:
        assert len(token) == 40
        assert parse_token(digest.hex()) == parse_token(digest.hex().upper()) == digest
        assert hashlib.sha256(token.encode()).digest() == digest


@pytest.mark.parametrize("text", ["", TOKEN, DIGEST.hex()[1:], DIGEST.hex() + "0", " " * 64, "g" * 64])
def test_a_digest_that_is_none_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_token(text)
    assert str(caught.value) == (
        "a token is written as its SHA-256 in 64 hexadecimal digits; `gateway users add NAME --token` makes one"
    )
