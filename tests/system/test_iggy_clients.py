"""Iggy's clients of seven versions, each in a process of its own: they write, read, store offsets and are refused."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from system.iggy_processes import (
    APACHE,
    CLIENTS_OF_IGGY,
    LATEST,
    OLDEST,
    PORT,
    TAKES_OCTETS,
    IggyClient,
    IggyGateway,
    Refused,
    check_free,
    committed,
)
from system.peers import Stream
from system.processes import ROOT
from system.proxied import through

MESSAGES = 10_000
BATCH = 500
PARTITIONS = 3
INHABITED = 1
"""The partition that is written; the others stay empty."""

SOME = (OLDEST, LATEST)
"""Enough where a proxy makes no difference but that it is one."""

SHOWS_ALL = (*APACHE, "iggy-py==0.4.0")
"""They show the id, timestamp and checksum of a message, the others its payload and offset."""

NAMED_FOR_ERRORS = (*APACHE, "iggy-py==0.4.0")
"""They know errors by number and show their names; the others show the number."""


@contextmanager
def talking(directory: Path, client: str, *dialects: str, via: str = "") -> Iterator[tuple[IggyGateway, IggyClient]]:
    """A gateway, and a client that has logged in."""
    with IggyGateway(directory, client, *dialects, via=via) as gateway, gateway.client(client) as peer:
        yield gateway, peer.login()


def payloads(client: str, count: int) -> list[bytes]:
    """All different: batches of one length, then of several; where the client takes octets they are no text."""
    extra = b"\xff\0\xfe" if client in TAKES_OCTETS else "\u00e9\u4e16\u754c".encode()
    return [b"%05d:" % number + extra * (number % 7 if number >= count // 2 else 1) for number in range(count)]


def fill(peer: IggyClient, stream: str, topic: str, sent: list[bytes]) -> None:
    """To one partition."""
    octets = peer.client in TAKES_OCTETS
    for at in range(0, len(sent), BATCH):
        said = sent[at : at + BATCH]
        peer.send(stream, topic, INHABITED, [[each.hex()] for each in said] if octets else [e.decode() for e in said])


def values(found: list[dict[str, Any]]) -> list[bytes]:
    return [bytes.fromhex(each["payload"]) for each in found]


def read_on(peer: IggyClient) -> list[dict[str, Any]]:
    """From where it stands, with each poll stored, until there is nothing more."""
    found: list[dict[str, Any]] = []
    while more := peer.poll("shop", "orders", INHABITED, {"Next": []}, 999, True):
        found += more
        assert len(found) <= MESSAGES, "it does not go on from what is stored"
    return found


def check_shown(client: str, found: list[dict[str, Any]], began: float) -> None:
    """All that the version shows of messages beside their payloads."""
    assert [each["offset"] for each in found] == list(range(len(found)))
    if client not in SHOWS_ALL:
        return
    ids, times = [each["id"] for each in found], [each["timestamp"] for each in found]
    assert 0 not in ids and len(set(ids)) == len(ids)
    assert times == sorted(times) and began <= times[0] / 1e6 and times[-1] / 1e6 <= time.time() + 1
    assert [each["length"] for each in found] == [len(value) for value in values(found)]
    old = client not in APACHE
    assert [each["checksum"] for each in found] == [zlib.crc32(value) if old else 0 for value in values(found)]
    assert {each.get("partition_id", INHABITED) for each in found} == {INHABITED}
    assert {each.get("state", "MessageState.Available") for each in found} == {"MessageState.Available"}


def check_strategies(peer: IggyClient, sent: list[bytes], found: list[dict[str, Any]]) -> None:
    """Offset, First, Last and Timestamp; none of them goes on where another has stopped, and none stores anything."""

    def poll(count: int, **strategy: list[int]) -> list[bytes]:
        return values(peer.poll("shop", "orders", INHABITED, strategy, count, False))

    pages = [poll(3000, Offset=[at]) for at in range(0, len(sent), 3000)]
    assert [value for page in pages for value in page] == sent
    assert poll(10, Offset=[len(sent) - 1]) == sent[-1:]
    assert poll(10, Offset=[len(sent)]) == poll(10, Offset=[len(sent) + 5]) == []
    assert poll(10, First=[]) == sent[:10]
    assert poll(10, Last=[]) == sent[-10:]
    assert poll(10, Timestamp=[0]) == sent[:10]
    assert poll(10, Timestamp=[int(time.time() * 1e6) + 3_600_000_000]) == []
    if peer.client in SHOWS_ALL:
        moment = found[len(found) // 2]["timestamp"]
        first = next(at for at, each in enumerate(found) if each["timestamp"] >= moment)
        assert poll(10, Timestamp=[moment]) == sent[first : first + 10]
    assert poll(10, Next=[]) == []
    assert values(peer.poll("shop", "orders", 0, {"First": []}, 10, False)) == []


def check_described(peer: IggyClient) -> None:
    stream, topic = peer.call("get_stream", "shop"), peer.call("get_topic", "shop", "orders")
    assert (stream["name"], stream["topics_count"], stream["messages_count"]) == ("shop", 1, MESSAGES)
    partitions = topic.get("partitions_count", topic.get("topics_count"))  # iggy-py has the one under the other's name
    assert (topic["name"], partitions, topic["messages_count"]) == ("orders", PARTITIONS, MESSAGES)
    assert peer.call("get_stream", stream["id"]) == stream
    assert peer.call("get_topic", stream["id"], topic["id"]) == topic
    assert peer.call("get_stream", "nowhere") is None
    assert peer.call("get_topic", "shop", "nothing") is None


@pytest.mark.parametrize(("client", "via"), through(CLIENTS_OF_IGGY, iggy=CLIENTS_OF_IGGY, native=[LATEST]))
def test_ten_thousand_messages_come_back_in_order_by_every_polling_strategy(
    tmp_path: Path, client: str, via: str
) -> None:
    sent, began = payloads(client, MESSAGES), time.time() - 1
    with talking(tmp_path, client, via=via) as (gateway, peer):
        peer.call("create_stream", "shop")
        peer.create_topic("shop", "orders", PARTITIONS)
        fill(peer, "shop", "orders", sent)
        found = read_on(peer)
        assert values(found) == sent
        check_shown(client, found, began)
        if client != OLDEST:
            check_strategies(peer, sent, found)
            check_described(peer)
        peer.stop()
        gateway.kill()
        gateway.start()
        with gateway.client(client).login() as again:
            assert read_on(again) == [], "what was stored is stored"
            fill(again, "shop", "orders", sent[:1])
            (more,) = read_on(again)
            assert (more["offset"], values([more])) == (MESSAGES, sent[:1])
            again.stop()


# -- refusals


def refusal(client: str, status: int, name: str) -> str:
    """How it shows an error."""
    return f"RuntimeError: {name}" if client in NAMED_FOR_ERRORS else f"RuntimeError: InvalidResponse({status}, "


@pytest.mark.parametrize(("client", "via"), through(CLIENTS_OF_IGGY, iggy=SOME, native=[]))
def test_a_wrong_password_raises_and_the_connection_of_another_goes_on(tmp_path: Path, client: str, via: str) -> None:
    with talking(tmp_path, client, via=via) as (gateway, peer), gateway.client(client) as stranger:
        peer.call("create_stream", "shop")
        with pytest.raises(Refused) as raised:
            stranger.login("wrong")
        assert str(raised.value).startswith(refusal(client, 42, "InvalidCredentials"))
        peer.create_topic("shop", "orders", PARTITIONS)
        peer.send("shop", "orders", 0, ["still here"])
        assert values(peer.poll("shop", "orders", 0, {"Next": []}, 10, False)) == [b"still here"]


@pytest.mark.parametrize(("client", "via"), through(CLIENTS_OF_IGGY, iggy=SOME, native=[LATEST]))
def test_what_is_refused_raises_and_the_connection_lives(tmp_path: Path, client: str, via: str) -> None:
    """The old ones read a text after the number of an error, and panic where there is none."""
    with talking(tmp_path, client, via=via) as (_, peer):
        peer.call("create_stream", "shop")
        peer.create_topic("shop", "orders", 1)
        for status, name, call in (
            (1012, "StreamNameAlreadyExists", lambda: peer.call("create_stream", "shop")),
            (2013, "TopicNameAlreadyExists", lambda: peer.create_topic("shop", "orders", 1)),
            (1010, "StreamNameNotFound", lambda: peer.create_topic("nowhere", "orders", 1)),
            (2011, "TopicNameNotFound", lambda: peer.send("shop", "nothing", 0, ["lost"])),
            (3007, "PartitionNotFound", lambda: peer.send("shop", "orders", 5, ["lost"])),
            (3007, "PartitionNotFound", lambda: peer.poll("shop", "orders", 5, {"Next": []}, 10, True)),
        ):
            with pytest.raises(Refused) as raised:
                call()
            assert str(raised.value).startswith(refusal(client, status, name))
        peer.send("shop", "orders", 0, ["still here"])
        assert values(peer.poll("shop", "orders", 0, {"Next": []}, 10, False)) == [b"still here"]


def test_the_oldest_client_finds_the_gateway_on_iggys_own_port(tmp_path: Path) -> None:
    with talking(tmp_path, OLDEST) as (gateway, peer):
        assert gateway.ports == {"iggy": PORT}
        peer.call("create_stream", "shop")
        with pytest.raises(AssertionError, match=f"127.0.0.1:{PORT} only, and that is taken"):
            check_free(PORT)


def test_iggy_0_11_is_hung_up_on_and_the_log_says_why(tmp_path: Path) -> None:
    with IggyGateway(tmp_path, LATEST) as gateway:
        with Stream(gateway.ports["iggy"]) as peer:
            peer.send(bytes(256))  # its header begins with 48 zeros, and no client of another generation with a zero
            assert peer.rest() == b""
        with gateway.client(LATEST) as other:
            other.login().call("ping")
        said = [line for line in gateway.log if "Iggy 0.11" in line]
        assert len(said) == 1, gateway.log


# -- offsets that a consumer stores


@pytest.mark.parametrize(("client", "via"), through(APACHE, iggy=APACHE, native=[LATEST]))
def test_a_group_consumer_stores_and_deletes_offsets_and_another_goes_on_from_them(
    tmp_path: Path, client: str, via: str
) -> None:
    """What is stored is seen by V1, too."""

    def stored() -> list[int]:
        return list(committed(gateway, "g", "orders").values())

    with talking(tmp_path, client, "pipe", "cursus", via=via) as (gateway, peer):
        peer.create_topic("default", "orders", PARTITIONS)
        for at in range(PARTITIONS):
            peer.send("default", "orders", at, [f"{at}.{number}" for number in range(10)])
        peer.call("consumer_group", "g", "default", "orders")
        assert len(peer.call("consume", 30)) == 30
        assert stored() == [0, 0, 0]
        places = [peer.place(at) for at in range(PARTITIONS)]
        for offset, place in zip((3, 5, 9), places, strict=True):
            peer.call("store_offset", offset, place)
            assert peer.call("get_last_stored_offset", place) == offset
        assert stored() == [4, 6, 10]
        check_refused(peer, places)
        peer.call("delete_offset", places[1])
        assert stored() == [4, 0, 10]
        with pytest.raises(Refused, match="ConsumerOffsetNotFound"):
            peer.call("delete_offset", places[1])
        peer.stop()
        with gateway.client(client).login() as heir:
            heir.call("consumer_group", "g", "default", "orders")
            left = sorted(values(heir.call("consume", 16)))
            assert left == [*(b"0.%d" % at for at in range(4, 10)), *(b"1.%d" % at for at in range(10))]
            heir.stop()


def check_refused(peer: IggyClient, places: list[int]) -> None:
    with pytest.raises(Refused, match="InvalidOffset"):
        peer.call("store_offset", 10, places[0])
    with pytest.raises(Refused, match="PartitionNotFound"):
        peer.call("store_offset", 0, places[-1] + 1)


def test_the_clients_of_iggy_are_listed() -> None:
    listed = (ROOT / "tests" / "clients.txt").read_text().split()
    assert set(CLIENTS_OF_IGGY) <= set(listed)
