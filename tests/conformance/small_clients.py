"""Small clients of Cursus and Iggy, written from the protocol pages, and the same with a defect each.

A client is told what a driver is told, and does it in a thread of its own until it is told to stop.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gateway.conformance.prompts import Asked

SECONDS = 5.0
"""How long an answer may take."""

EPOCH = 7
PRODUCER = "p1"


class Client:
    """What is common to both: sockets, and an end."""

    def __init__(self, asked: Asked) -> None:
        host, _, port = asked.address.rpartition(":")
        self.address = host, int(port)
        self.calls: list[dict[str, Any]] = [dict(call) for call in asked.calls]  # type: ignore[call-overload]
        self._over = threading.Event()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._run, daemon=True).start()

    def stop(self) -> None:
        self._over.set()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def pause(self, seconds: float) -> None:
        """Raises EOFError when it is over."""
        if self._over.wait(seconds):
            raise EOFError

    def dial(self) -> socket.socket:
        if self._over.is_set():
            raise EOFError
        found = socket.create_connection(self.address, SECONDS)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sockets.append(found)
        return found

    def read(self, peer: socket.socket, size: int) -> bytes:
        octets = b""
        while len(octets) < size:
            some = peer.recv(size - len(octets))
            if not some:
                raise EOFError
            octets += some
        return octets

    def act(self) -> None:
        raise NotImplementedError

    def _run(self) -> None:
        with suppress(OSError, EOFError):
            self.act()
        for each in self._sockets:
            each.close()


# -- Cursus


class Cursus(Client):
    """Produces, or takes part in a group, polling."""

    def act(self) -> None:
        call = self.calls[0]
        {"produce": self.produce, "consume": self.consume}[call["call"]](call)

    # frames

    def frame(self, payload: bytes) -> bytes:
        return struct.pack(">I", len(payload)) + payload

    def envelope(self, text: str, topic: str = "") -> bytes:
        return struct.pack(">H", len(topic)) + topic.encode() + text.encode()

    def batch(self, topic: str, partition: int, payload: str) -> bytes:
        head = struct.pack(">HH", 0xBA7C, len(topic)) + topic.encode() + struct.pack(">i", partition) + b"\x011"
        head += struct.pack(">?", self.calls[0].get("idempotent", False))
        record = struct.pack(">QQ", 0, 1) + struct.pack(">H", len(PRODUCER)) + PRODUCER.encode() + self.key()
        value = payload.encode()
        record += struct.pack(">qI", EPOCH, len(value)) + value + bytes(2 + 4 + 8 + 2)
        return head + struct.pack(">QQi", 1, 1, 1) + record

    def key(self) -> bytes:
        key = str(self.calls[0].get("key", "")).encode()
        return struct.pack(">H", len(key)) + key

    def answer(self, peer: socket.socket) -> bytes:
        return self.read(peer, struct.unpack(">I", self.read(peer, 4))[0])

    def ask(self, text: str, topic: str = "") -> str:
        with self.dial() as peer:
            peer.sendall(self.frame(self.envelope(text, topic)))
            return self.answer(peer).decode("latin-1")

    # producing

    def produce(self, call: dict[str, Any]) -> None:
        topic, count = call["topic"], call.get("partitions", 1)
        self.ask(f"CREATE topic={topic} partitions={count}", "admin")
        body = self.batch(topic, fnv(call.get("key", "").encode()) % count, call["messages"][0])
        for attempt in range(5):
            with suppress(OSError, EOFError, ValueError), self.dial() as peer:
                peer.sendall(self.frame(body))
                ack = json.loads(self.answer(peer))
                if ack["status"] == "OK" or self.is_final(ack):
                    self.acknowledged(body)
                    return
            self.back_off(attempt)

    def is_final(self, ack: dict[str, Any]) -> bool:
        return "stale_producer_epoch" in ack.get("error", "") or "gap" in ack.get("error", "")

    def acknowledged(self, body: bytes) -> None:
        pass

    def back_off(self, attempt: int) -> None:
        self.pause(0.1 * 2**attempt)

    # a group

    beat_seconds = 0.0
    """0 = as it was told to."""

    def consume(self, call: dict[str, Any]) -> None:
        self.who = f"topic={call['topic']} group={call['group']}"
        self.generation, self.member = 0, call["member"]
        self.beat_seconds = self.beat_seconds or call.get("heartbeat_ms", 3000) / 1000
        self.enter()
        due = time.monotonic() + self.beat_seconds
        while True:
            self.take()
            self.pause(min(0.2, max(0.0, due - time.monotonic())))
            if time.monotonic() >= due:
                due += self.beat_seconds
                self.beat()

    def enter(self) -> None:
        said = self.ask(f"JOIN_GROUP {self.who} member={self.member}")
        words = dict(word.split("=", 1) for word in said.split() if "=" in word)
        self.joined(int(words["generation"]), words["member"])
        self.next = int(self.ask(f"FETCH_OFFSET {self.place()}").rpartition("=")[2])

    def joined(self, generation: int, member: str) -> None:
        self.generation, self.member = generation, member

    def place(self) -> str:
        topic, group = self.who.split()
        return f"{topic} partition=0 {group}"

    def take(self) -> None:
        topic, group = self.who.split()
        member = f"member={self.member} {group} generation={self.generation}"
        batch = self.ask(f"CONSUME {topic} partition=0 offset={self.next} {member}").encode("latin-1")
        if batch[:2] == b"\xba\x7c":
            self.took(struct.unpack_from(">i", batch, 4 + struct.unpack_from(">H", batch, 2)[0] + 4 + 3 + 16)[0])

    def took(self, count: int) -> None:
        self.next += count

    def beat(self) -> None:
        said = self.ask(f"HEARTBEAT {self.who} member={self.member} generation={self.generation}")
        if "GEN_MISMATCH" in said or "member_not_found" in said:
            self.enter()


def fnv(octets: bytes) -> int:
    found = 0x811C9DC5
    for octet in octets:
        found = ((found ^ octet) * 0x01000193) & 0xFFFFFFFF
    return found


class LittleEndian(Cursus):
    """Its partitions are the wrong way round."""

    def batch(self, topic: str, partition: int, payload: str) -> bytes:
        return super().batch(topic, struct.unpack("<i", struct.pack(">i", partition))[0], payload)


class OneTooMany(Cursus):
    """Its lengths count themselves, a little."""

    def frame(self, payload: bytes) -> bytes:
        return struct.pack(">I", len(payload) + 1) + payload


class OneTooFew(Cursus):
    def frame(self, payload: bytes) -> bytes:
        return struct.pack(">I", len(payload) - 1) + payload


class Deaf(Cursus):
    """It goes on as if nothing had been answered."""

    def took(self, count: int) -> None:
        pass

    def acknowledged(self, body: bytes) -> None:
        with self.dial() as peer:
            peer.sendall(self.frame(body))


class Hasty(Cursus):
    """It connects again at once."""

    def back_off(self, attempt: int) -> None:
        pass


class Sullen(Cursus):
    """It does not connect again."""

    def back_off(self, attempt: int) -> None:
        raise EOFError


class Slow(Cursus):
    """Its heart beats too seldom."""

    beat_seconds = 4.0


class Dead(Cursus):
    beat_seconds = 3600.0


class Stale(Cursus):
    """It stays in the generation that it first was in."""

    def joined(self, generation: int, member: str) -> None:
        super().joined(self.generation or generation, member)


# -- Iggy, G2c


class Iggy(Client):
    """Logs in and makes its calls."""

    def act(self) -> None:
        with self.dial() as peer:
            self.ask(peer, 1, b"")
            for call in self.calls if self.calls[0]["call"] == "connect" else [LOGIN, *self.calls]:
                for code, payload in self.said(call["call"], *call.get("with", [])):
                    self.ask(peer, code, payload)
            self.pause(SECONDS)

    def said(self, call: str, *arguments: str) -> list[tuple[int, bytes]]:
        codes: dict[str, tuple[int, Callable[..., bytes]]] = {
            "login_user": (38, self.login),
            "create_stream": (202, text8),
            "get_stream": (200, lambda name: b"\2" + text8(name)),
        }
        if call not in codes:
            return []
        code, write = codes[call]
        return [(code, write(*arguments))]

    def login(self, user: str, password: str) -> bytes:
        return text8(user) + text8(password) + struct.pack("<I", 6) + b"0.10.0" + bytes(4)

    def ask(self, peer: socket.socket, code: int, payload: bytes) -> None:
        peer.sendall(struct.pack("<II", len(payload) + 4, code) + payload)
        self.read(peer, struct.unpack("<II", self.read(peer, 8))[1])


LOGIN = {"call": "login_user", "with": ["iggy", "iggy"]}


def text8(text: str) -> bytes:
    return struct.pack("<B", len(text.encode())) + text.encode()


class Clipped(Iggy):
    """The last byte of what it makes is missing."""

    def said(self, call: str, *arguments: str) -> list[tuple[int, bytes]]:
        return [(code, payload[:-1] if code == 202 else payload) for code, payload in super().said(call, *arguments)]


class Mistaken(Iggy):
    """It asks by the code of deleting."""

    def said(self, call: str, *arguments: str) -> list[tuple[int, bytes]]:
        return [(203 if code == 200 else code, payload) for code, payload in super().said(call, *arguments)]


class Swapped(Iggy):
    """The password is where the user should be."""

    def login(self, user: str, password: str) -> bytes:
        return super().login(password, user)


class Forward(Iggy):
    """It logs in when it has done what it was to do."""

    def said(self, call: str, *arguments: str) -> list[tuple[int, bytes]]:
        early = super().said("create_stream", "mine") if call == "login_user" else []
        return [*early, *super().said(call, *arguments)]
