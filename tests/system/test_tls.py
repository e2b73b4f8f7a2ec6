"""TLS over real sockets: who gets in, who does not and how soon, and what is read again while others are served."""

from __future__ import annotations

import ssl
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import wire
from gateway import dialects
from gateway.core import commands as q
from gateway.core.faults import CommandFailed, Fault
from gateway.core.replies import Authenticated, CommittedOffsets, Outcome, SessionDescription
from gateway.dialects import Request
from gateway.dialects.cursus.terms import Spoken
from gateway.net.users import new_password
from net.certificates import Authority
from system.configured import PROMPT, Configured, about, listener, refusal, secured, trusting
from system.peers import Frames, Lines, Stream, line
from system.speaking import Speaking

NAMES = sorted(path.parent.name for path in Path(dialects.__file__).parent.glob("*/__init__.py"))
WORD = "Word-that-nobody-is-to-see-93c1"
LOGIN = q.Authenticate("plain", "ann", WORD)
LIST = q.ListTopics("default")
DESCRIBE = q.DescribeTopic(q.Topic("default", "orders"))


def fault(outcome: Outcome) -> Fault | None:
    """Why it failed, if it did."""
    return outcome.fault if isinstance(outcome, CommandFailed) else None


class Place(NamedTuple):
    gateway: Configured
    authority: Authority
    stranger: Authority
    ann: tuple[Path, Path]
    eve: tuple[Path, Path]
    nobody: tuple[Path, Path]


def tls(directory: Path, *more: str) -> str:
    said = [f'certificate = "{directory}/gateway.pem"', f'key = "{directory}/gateway.key"', *more]
    return "{ " + ", ".join(said) + " }"


def user(name: str, *principals: str, password: str = "") -> str:
    lines = [f"[users.{name}]", *([f'password = "{new_password(password, log_n=4).text()}"'] if password else [])]
    return "\n".join([*lines, f"principals = {list(principals)!r}"]) + "\n"


RULES = """
[[access]]
allow = true
who = ["ann"]
topic = ["orders", "new"]
[[access]]
allow = true
who = ["ann"]
command = ["DescribeSession"]
"""
USERS = user("ann", "client-ann", password=WORD) + user("tom", "client-tom")


@pytest.fixture(scope="module")
def mutual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A gateway of all dialects that wants to see certificates."""
    directory = tmp_path_factory.mktemp("mutual")
    authority, stranger = Authority(directory), Authority(directory, "stranger")
    authority.sign("gateway")
    asks = tls(directory, f'client_ca = "{authority.pem}"', 'client = "required"')
    text = 'backend.spec = "memory"\n' + "".join(listener(name, tls=asks, auth='"required"') for name in NAMES)
    with Configured(directory, text + USERS + RULES) as gateway:
        signed = authority.sign("client-ann"), stranger.sign("client-eve"), authority.sign("client-nobody")
        yield Place(gateway, authority, stranger, *signed)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Configured]:
    """A gateway of all dialects without TLS."""
    text = 'backend.spec = "memory"\n' + "".join(listener(name) for name in NAMES)
    with Configured(tmp_path_factory.mktemp("plain"), text) as gateway:
        yield gateway


# -- versions


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_of_today_is_served(mutual: Place, version: ssl.TLSVersion) -> None:
    context = trusting(mutual.authority.pem, mutual.ann)
    context.minimum_version = context.maximum_version = version
    with secured(Lines(mutual.gateway.ports["pipe"]), context) as peer:
        peer.produce("orders", "k", "v")


def test_tls_before_1_2_is_refused(mutual: Place) -> None:
    context = trusting(mutual.authority.pem, mutual.ann)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")  # else our own end would not even ask
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    began = time.monotonic()
    with pytest.raises(ssl.SSLError, match="ALERT_PROTOCOL_VERSION"):
        secured(Stream(mutual.gateway.ports["pipe"]), context)
    assert time.monotonic() - began < PROMPT


# -- who is refused, and how soon


@pytest.mark.parametrize("wrong", ["another authority's", "none"])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_without_the_right_certificate_is_refused_at_once(
    mutual: Place, wrong: str, version: ssl.TLSVersion
) -> None:
    context = trusting(mutual.authority.pem, mutual.eve if wrong != "none" else None)
    context.minimum_version = context.maximum_version = version
    began = time.monotonic()
    with (
        pytest.raises((ssl.SSLError, ConnectionResetError, EOFError)),
        secured(Lines(mutual.gateway.ports["pipe"]), context) as peer,
    ):
        peer.produce("orders", "k", "v")
    assert time.monotonic() - began < PROMPT


def test_a_client_that_looks_for_another_name_does_not_go_on(mutual: Place) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        secured(Stream(mutual.gateway.ports["pipe"]), trusting(mutual.authority.pem, mutual.ann), "gateway.example.org")
    with pytest.raises(ssl.SSLCertVerificationError, match=r"unable to get local issuer|self-signed"):
        secured(Stream(mutual.gateway.ports["pipe"]), trusting(mutual.stranger.pem, mutual.ann))
    with secured(Lines(mutual.gateway.ports["pipe"]), trusting(mutual.authority.pem, mutual.ann)) as peer:
        peer.produce("orders", "k", "v")  # and others are served


FIRST = {name: wire.request(name, command, 1) for name, command in about("orders").items()}


@pytest.mark.parametrize("name", NAMES)
def test_plaintext_on_a_tls_port_is_refused_at_once_and_told_nothing(mutual: Place, name: str) -> None:
    with Stream(mutual.gateway.ports[name]) as peer:
        peer.send(FIRST[name])
        answer, seconds = refusal(peer)
    assert seconds < PROMPT
    assert answer == b"" or (answer[:1] == b"\x15" and len(answer) <= 16), "nothing but an alert of TLS"


@pytest.mark.parametrize("hello", ["long", "short"])
@pytest.mark.parametrize("name", NAMES)
def test_tls_on_a_plaintext_port_is_refused_at_once(plain: Configured, name: str, hello: str) -> None:
    """A short hello looks to Iggy like the beginning of 64 KiB, which it would wait for."""
    context = ssl.create_default_context()
    if hello == "short":
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    began = time.monotonic()
    with pytest.raises((ssl.SSLError, ConnectionError)):
        secured(Stream(plain.ports[name], 5.0), context)
    assert time.monotonic() - began < PROMPT
    with Stream(plain.ports[name]) as peer:
        peer.send(FIRST[name])
        assert peer.socket.recv(1), "and others are served"


# -- who a certificate makes of its bearer


@pytest.mark.parametrize("name", NAMES)
def test_a_certificate_is_a_login_in_every_dialect(mutual: Place, name: str) -> None:
    outcomes = []
    for bearer in (mutual.ann, mutual.nobody):
        with secured(Speaking(name, mutual.gateway.ports[name]), trusting(mutual.authority.pem, bearer)) as peer:
            outcomes.append(peer.ask(about("orders")[name]))
    code = dialects.load(name).faults
    faults = [fault(outcome) for outcome in outcomes]
    assert faults[0] in (None, Fault.NO_SUCH_TOPIC, Fault.TOPIC_EXISTS, Fault.STALE_GENERATION), "what it asks, it may"
    assert faults[1] is not None and code[faults[1]] == code[Fault.UNAUTHENTICATED], "and nobody may not"


def test_a_certificate_names_the_session(mutual: Place) -> None:
    with secured(
        Speaking("native", mutual.gateway.ports["native"]), trusting(mutual.authority.pem, mutual.ann)
    ) as peer:
        mine = peer.ask(q.DescribeSession())
    assert isinstance(mine, SessionDescription)
    assert (mine.principal, mine.user) == ("ann", 1)


def test_a_certificate_that_is_nobodys_finds_the_barrier_shut(mutual: Place) -> None:
    context = trusting(mutual.authority.pem, mutual.nobody)
    with secured(Lines(mutual.gateway.ports["pipe"]), context) as peer:
        assert fault(peer.ask(line("orders", "k", "v"))) is Fault.UNAUTHENTICATED
    with secured(Speaking("mlog", mutual.gateway.ports["mlog"]), context) as peer:
        assert isinstance(peer.ask(q.CreateTopic(q.Topic("default", "new"), 1)), CommandFailed)
    with secured(Frames(mutual.gateway.ports["cursus"]), context) as peer:
        assert fault(peer.ask(LIST)) is Fault.UNAUTHENTICATED
        claim = q.Authenticate("plain", "ann", WORD + "x")
        assert fault(peer.ask(DESCRIBE, Spoken("METADATA", proof=claim))) is Fault.BAD_CREDENTIALS
        made = q.CreateTopic(q.Topic("default", "new"), 1, if_exists=q.IfExists.GROW)
        assert fault(peer.ask(made, Spoken("CREATE", proof=LOGIN))) is None


def test_access_rules_are_those_of_the_bearer(mutual: Place) -> None:
    ports, context = mutual.gateway.ports, trusting(mutual.authority.pem, mutual.ann)
    with secured(Lines(ports["pipe"]), context) as peer:
        peer.produce("orders", "k", "v")
        assert fault(peer.ask(line("secrets", "k", "v"))) is Fault.FORBIDDEN
    with secured(Speaking("mlog", ports["mlog"]), context) as mlog:
        told = mlog.ask(q.CreateTopic(q.Topic("default", "new"), 1))
        assert not isinstance(told, CommandFailed) or told.fault is Fault.TOPIC_EXISTS
        refused = mlog.ask(q.CreateTopic(q.Topic("default", "secrets"), 1))
        assert isinstance(refused, CommandFailed) and refused.detail == "not allowed"


# -- read again


def test_ssl_endpoints_of_listener_console_and_page_are_read_again_too(tmp_path: Path) -> None:
    old, new = Authority(tmp_path), Authority(tmp_path, "new")
    old.sign("gateway")
    endpoint = f"ssl:0:privateKey={tmp_path}/gateway.key:certKey={tmp_path}/gateway.pem:interface=127.0.0.1"
    heads = ("[listener.pipe]\ndialect = 'pipe'", "[console]", "[web]")
    sections = [f"{head}\nendpoint = '{endpoint}'\n" for head in heads]
    with Configured(tmp_path, 'backend.spec = "memory"\n' + "".join(sections)) as gateway:
        asked = {
            "pipe": (FIRST["pipe"], wire.reply("pipe", Request(about("orders")["pipe"], 1), CommittedOffsets({}))),
            "console": (b"quit\n", b""),
            "web": (b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", b"HTTP/1.1 200"),
        }
        for authority in (old, new):
            for name, (request, answer) in asked.items():
                with secured(Stream(gateway.ports[name]), trusting(authority.pem)) as peer:
                    peer.send(request)
                    assert peer.exactly(len(answer)) == answer
            if authority is old:
                new.sign("gateway")  # into the same files
                gateway.reload()
        for name in asked:
            with pytest.raises(ssl.SSLCertVerificationError):
                secured(Stream(gateway.ports[name]), trusting(old.pem))
        assert gateway.terminate() == 0


def test_certificates_users_and_rules_are_read_again_and_no_session_is_dropped(tmp_path: Path) -> None:
    old, new = Authority(tmp_path), Authority(tmp_path, "new")
    old.sign("gateway")
    asks = tls(tmp_path, f'client_ca = "{old.pem}"', 'client = "optional"')
    head = 'backend.spec = "memory"\n' + "".join(listener(name, tls=asks, auth='"required"') for name in NAMES)
    every = "[[access]]\nallow = true\n"
    with Configured(tmp_path, head + USERS + every) as gateway:
        port, context = gateway.ports["cursus"], trusting(old.pem)
        with secured(Frames(port), context) as ann:
            ann.sure(LOGIN, Authenticated)
            ann.create("orders", 1)
            new.sign("gateway")  # into the same files
            assert ann.topics() == ["orders"]
            gateway.reload()
            assert ann.topics() == ["orders"], "an open session goes on, under the old certificate"
            with pytest.raises(ssl.SSLCertVerificationError):
                secured(Stream(port), context)
            with secured(Frames(port), trusting(new.pem)) as later:
                later.sure(LOGIN, Authenticated)  # and a new one gets the new certificate

            gateway.reload(head + USERS + '[[access]]\nallow = true\ncommand = ["ListTopics"]\n')
            assert ann.topics() == ["orders"]
            assert fault(ann.ask(DESCRIBE)) is Fault.FORBIDDEN, "a rule holds for open sessions at once"

            gateway.reload(head + user("tom", "client-tom", password="another") + every)
            assert fault(ann.ask(DESCRIBE)) is None, "who is removed stays where he is"
            with secured(Frames(port), trusting(new.pem)) as later:
                assert fault(later.ask(LOGIN)) is Fault.BAD_CREDENTIALS
                assert fault(later.ask(LIST, Spoken("LIST", proof=LOGIN))) is Fault.BAD_CREDENTIALS
            assert fault(ann.ask(LOGIN)) is Fault.BAD_CREDENTIALS, "and gets in nowhere again"

            gateway.reload("nonsense = true\n" + head, "not read again")
            (tmp_path / "gateway.pem").write_text("no certificate")
            gateway.reload(head + USERS + every, "not read again")
            with secured(Frames(port), trusting(new.pem)) as later:
                later.sure(q.Authenticate("plain", "tom", "another"), Authenticated)  # what is wrong changes nothing
        assert gateway.terminate() == 0
        assert WORD not in "\n".join(gateway.log)
