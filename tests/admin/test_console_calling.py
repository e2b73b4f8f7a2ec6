"""gateway.admin.calling: the other end of the console, without a terminal and without a network."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.seats import DO, DONT, ECHO, IAC, NAWS, SB, SE, SGA, WILL
from gateway.admin.calling import Telnet, parse_address, typed

WONT = b"\xfc"


def test_what_is_no_telnet_is_shown_as_it_is() -> None:
    telnet = Telnet()
    assert telnet.take(b"gateway> \x1b[K\xc3\xbc") == b"gateway> \x1b[K\xc3\xbc" and telnet.answers == b""


def test_options_are_answered_and_not_shown() -> None:
    telnet = Telnet()
    offered = IAC + WILL + ECHO + IAC + WILL + SGA + IAC + DO + NAWS
    assert telnet.take(b"a" + offered + b"b") == b"ab" and telnet.answers == b""
    others = IAC + WILL + b"\x22" + IAC + DO + b"\x18" + IAC + SB + b"\x18\x01" + IAC + SE + IAC + b"\xf1" + IAC + IAC
    assert telnet.take(others) == b"\xff"
    assert telnet.answers == IAC + DONT + b"\x22" + IAC + WONT + b"\x18"


@given(st.lists(st.sampled_from([b"text", IAC + IAC, IAC + DO + b"\x18", IAC + SB + b"\x18x" + IAC + SE])), st.data())
def test_it_makes_no_difference_where_the_stream_is_cut(parts: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(parts)
    at = data.draw(st.integers(0, len(stream)))
    whole, cut = Telnet(), Telnet()
    assert cut.take(stream[:at]) + cut.take(stream[at:]) == whole.take(stream)
    assert cut.answers == whole.answers


def test_keys_are_sent_as_telnet_has_them() -> None:
    assert typed(b"topics\r") == b"topics\r\0" and typed(b"\xff\x1b[A") == b"\xff\xff\x1b[A"


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("127.0.0.1:2323", ("127.0.0.1", 2323)),
        ("broker", ("broker", 99)),
        ("broker.example.org:1", ("broker.example.org", 1)),
        ("[::1]:23", ("::1", 23)),
        ("[::1]", ("::1", 99)),
    ],
)
def test_an_address_is_a_host_and_perhaps_a_port(address: str, found: tuple[str, int]) -> None:
    assert parse_address(address, 99) == found


@pytest.mark.parametrize("address", ["", ":23", "a:b", "a:0", "a:65536", "::1", "a b:1", "[::1", "a:1:2", "a:"])
def test_what_is_no_address_is_a_sentence(address: str) -> None:
    with pytest.raises(ValueError, match="is no HOST:PORT"):
        parse_address(address, 99)
