"""gateway.dialects.frames: whole frames out of any stream, at a bounded price."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.faults import CommandFailed, Fault
from gateway.dialects.frames import FrameBuffer


def by_length(held: bytes | bytearray, start: int, scanned: int) -> int:
    """u16be length, then that many bytes."""
    return 2 + int.from_bytes(held[start : start + 2], "big") if len(held) - start >= 2 else 0


class ByLine:
    """Up to a newline; notes how many bytes it was made to look at."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, held: bytes | bytearray, start: int, scanned: int) -> int:
        at = held.find(b"\n", start + scanned)
        self.seen += (len(held) if at < 0 else at + 1) - start - scanned
        return at + 1 - start if at >= 0 else 0


def fed(buffer: FrameBuffer, *chunks: bytes) -> list[bytes]:
    found = []
    for chunk in chunks:
        frames, failure = buffer.feed(chunk)
        assert failure is None
        found += frames
    return found


def split(stream: bytes, data: st.DataObject) -> list[bytes]:
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=10))
    return [stream[start:end] for start, end in pairwise([0, *sorted(cuts), len(stream)])]


def sized(body: bytes) -> bytes:
    return len(body).to_bytes(2, "big") + body


@given(st.lists(st.binary(max_size=300), max_size=8), st.data())
def test_any_split_of_a_stream_gives_its_frames(bodies: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(sized, bodies))
    tail = data.draw(st.binary(max_size=1))
    buffer = FrameBuffer(by_length, 1000)
    assert fed(buffer, *split(stream, data), tail) == [sized(body) for body in bodies]
    assert buffer.pending == len(tail)
    assert buffer.rest() == tail
    assert buffer.pending == 0


@given(st.lists(st.text("abc", max_size=20), max_size=8), st.data())
def test_any_split_of_lines_gives_the_lines(lines: list[str], data: st.DataObject) -> None:
    stream = "".join(f"{line}\n" for line in lines).encode()
    buffer = FrameBuffer(ByLine(), 1000)
    assert fed(buffer, *split(stream, data)) == [f"{line}\n".encode() for line in lines]
    assert buffer.pending == 0


def test_nothing_in_nothing_out() -> None:
    buffer = FrameBuffer(by_length, 10)
    assert buffer.feed(b"") == ([], None)
    assert fed(buffer, b"\0", b"", b"\1", b"", b"x", b"") == [b"\0\1x"]
    assert buffer.feed(b"") == ([], None)


def test_frames_are_bytes_of_their_own() -> None:
    buffer = FrameBuffer(by_length, 10)
    [whole] = fed(buffer, b"\0\1x")
    [split, _] = fed(buffer, b"\0", b"\1y\0\0")
    assert (type(whole), type(split)) == (bytes, bytes)
    assert (whole, split) == (b"\0\1x", b"\0\1y")


# -- limits


def too_large(buffer: FrameBuffer, chunk: bytes) -> list[bytes]:
    frames, failure = buffer.feed(chunk)
    assert isinstance(failure, CommandFailed)
    assert failure.fault is Fault.TOO_LARGE
    assert buffer.pending == 0
    return frames


def test_a_length_beyond_the_limit_is_refused_on_the_header_alone() -> None:
    assert too_large(FrameBuffer(by_length, 10), b"\0\x09") == []
    assert fed(FrameBuffer(by_length, 10), b"\0\x08", b"12345678") == [b"\0\x0812345678"]


def test_frames_before_one_that_is_too_long_are_given() -> None:
    assert too_large(FrameBuffer(by_length, 10), b"\0\1x\0\1y\xff\xff") == [b"\0\1x", b"\0\1y"]
    assert too_large(FrameBuffer(ByLine(), 4), b"abc\nabcde") == [b"abc\n"]


def test_a_line_without_an_end_is_refused_at_the_limit() -> None:
    buffer = FrameBuffer(ByLine(), 10)
    assert fed(buffer, b"12345", b"6789") == []
    assert buffer.pending == 9
    assert too_large(buffer, b"0") == []


def test_a_line_that_ends_beyond_the_limit_is_refused() -> None:
    assert too_large(FrameBuffer(ByLine(), 10), b"1234567890\n") == []
    assert fed(FrameBuffer(ByLine(), 10), b"123456789\n") == [b"123456789\n"]


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=20))
def test_no_more_is_held_than_the_limit(chunks: list[bytes]) -> None:
    for measure in (by_length, ByLine()):
        buffer = FrameBuffer(measure, 40)
        for chunk in chunks:
            buffer.feed(chunk)
            assert buffer.pending <= 40


# -- what it costs


def test_a_long_line_in_small_pieces_is_looked_at_once() -> None:
    measure = ByLine()
    buffer = FrameBuffer(measure, 1 << 20)
    line = b"x" * ((1 << 18) - 1) + b"\n"
    [found] = fed(buffer, *(line[at : at + 16] for at in range(0, len(line), 16)))
    assert found == line
    assert measure.seen == len(line)
    assert fed(buffer, b"a\nb", b"c\n") == [b"a\n", b"bc\n"]
    assert measure.seen == len(line) + 5


def test_many_frames_in_one_chunk_cost_one_pass() -> None:
    measure = ByLine()
    assert len(fed(FrameBuffer(measure, 100), b"abc", b"defg\n" * 50_000)) == 50_000
    assert measure.seen == 5 * 50_000 + 3
