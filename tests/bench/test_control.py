"""gateway.bench.control: what is written before a measurement is known to be there."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from gateway.bench import BenchFailed, children, frames
from gateway.bench.control import Control, _read
from gateway.bench.tally import Same


def test_every_request_is_answered_before_it_goes_on(tmp_path: Path) -> None:
    with children.serving(children.echo(), tmp_path) as server, Control(server.ports()) as control:
        frame = frames.framed(b"once more")
        control.say("echo", [frame] * 120, Same(frame))


def test_another_answer_is_a_failure(tmp_path: Path) -> None:
    with children.serving(children.echo(), tmp_path) as server, Control(server.ports()) as control:
        requests = [frames.framed(b"as expected")] * 60 + [frames.framed(b"as it is not")]
        with pytest.raises(BenchFailed, match="not the replies that were expected"):
            control.say("echo", requests, Same(requests[0]))


def test_a_server_that_sends_no_more_is_a_failure_that_quotes_it() -> None:
    ours, theirs = socket.socketpair()
    held = bytearray(100)
    with ours:
        with theirs:
            theirs.sendall(b"at first")
        assert _read(ours, held) == len(b"at first")
        with pytest.raises(BenchFailed, match="last the server sent b'at first"):
            _read(ours, held)
