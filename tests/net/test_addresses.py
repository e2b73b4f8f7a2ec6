"""gateway.net.addresses: where a peer is, and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.address import HostnameAddress, IPv4Address, IPv6Address, UNIXAddress

from gateway.net.addresses import is_loopback, shown


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (IPv4Address("TCP", "10.0.0.1", 9), "10.0.0.1:9"),
        (IPv6Address("TCP", "::1", 9), "[::1]:9"),
        (UNIXAddress("/run/gateway"), "/run/gateway"),
        (UNIXAddress(None), "local"),
    ],
)
def test_addresses_are_shown_so_that_they_can_be_dialed(address: Any, text: str) -> None:
    assert shown(address) == text


@pytest.mark.parametrize(
    ("address", "here"),
    [
        (IPv4Address("TCP", "127.0.0.1", 9), True),
        (IPv4Address("TCP", "127.255.255.254", 9), True),
        (IPv4Address("TCP", "128.0.0.1", 9), False),
        (IPv4Address("TCP", "10.0.0.1", 9), False),
        (IPv4Address("TCP", "0.0.0.0", 9), False),
        (IPv6Address("TCP", "::1", 9), True),
        (IPv6Address("TCP", "::ffff:127.0.0.1", 9), True),
        (IPv6Address("TCP", "::ffff:10.0.0.1", 9), False),
        (IPv6Address("TCP", "::", 9), False),
        (IPv6Address("TCP", "fe80::1%eth0", 9), False),
        (UNIXAddress("/run/gateway"), True),
        (UNIXAddress(None), True),
        (HostnameAddress(b"localhost", 9), False),
    ],
)
def test_only_addresses_that_no_other_machine_can_have_are_of_this_one(address: Any, here: bool) -> None:
    assert is_loopback(address) is here
