"""gateway.compression: what goes in comes out, never more than the limit, and damage is told."""

from __future__ import annotations

import gzip
import io
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from gateway import compression
from gateway.compression import Compressor
from gateway.core.faults import CommandFailed, Fault

ROOT = Path(__file__).parents[2]
EVERY = [compression.load(name) for name in compression.names()]
MIB = 1 << 20

bodies = st.binary(max_size=300) | st.builds(
    lambda part, times: part * times, st.binary(max_size=9), st.integers(0, 9999)
)
anyone = st.sampled_from(EVERY)
packers = pytest.mark.parametrize("packer", EVERY, ids=lambda packer: packer.name)


def fault_of(packer: Compressor, data: bytes, limit: int = MIB) -> Fault:
    with pytest.raises(CommandFailed) as caught:
        packer.decompress(data, limit)
    return caught.value.fault


# -- what there is


def test_every_algorithm_is_found_by_its_name_and_its_magic() -> None:
    assert [packer.name for packer in EVERY] == compression.names() == ["gzip", "lz4", "snappy", "zstd"]
    assert all(packer.magic for packer in EVERY)
    for packer in EVERY:
        others = [other.magic for other in EVERY if other is not packer]
        assert packer.compress(b"body").startswith(packer.magic)
        assert not packer.compress(b"body").startswith(tuple(others))


def test_the_magics_are_those_of_the_formats() -> None:
    """RFC 1952, the LZ4 frame format, snappy-java's SnappyCodec, RFC 8878."""
    assert {packer.name: packer.magic.hex() for packer in EVERY} == {
        "gzip": "1f8b",
        "lz4": "04224d18",
        "snappy": "82534e4150505900",
        "zstd": "28b52ffd",
    }


@pytest.mark.parametrize("name", ["", "brotli", "__init__", "gzip.gzip"])
def test_an_unknown_name_is_no_algorithm(name: str) -> None:
    with pytest.raises(KeyError):
        compression.load(name)


# -- round trips


@given(anyone, bodies)
def test_what_goes_in_comes_out(packer: Compressor, body: bytes) -> None:
    assert packer.decompress(packer.compress(body), len(body)) == body


@packers
def test_a_long_body_comes_out_whole(packer: Compressor) -> None:
    body = b"".join(b"%d," % number for number in range(1_000_000))
    assert packer.decompress(packer.compress(body), len(body)) == body


@packers
def test_the_same_body_gives_the_same_bytes(packer: Compressor) -> None:
    assert packer.compress(b"body" * 1000) == packer.compress(b"body" * 1000)


def test_snappy_is_in_blocks_of_which_there_may_be_none() -> None:
    """SnappyOutputStream: the header, then for each block its length and the block."""
    packer = compression.load("snappy")
    header = packer.magic + struct.pack(">II", 1, 1)
    assert packer.decompress(header, 0) == b""
    blocks = b"".join(packer.compress(part)[16:] for part in (b"one ", b"two ", b"three"))
    assert packer.decompress(header + blocks, 13) == b"one two three"


def test_what_other_programs_write_is_read() -> None:
    """gzip of RFC 1952 with a name in its header; an LZ4 and a zstd frame that do not say how long they are."""
    named = io.BytesIO()
    with gzip.GzipFile("orders.bin", "wb", fileobj=named) as file:
        file.write(b"body")
    assert compression.load("gzip").decompress(named.getvalue(), 4) == b"body"
    streamed = lz4.frame.LZ4FrameCompressor(content_checksum=True)
    frame = streamed.begin() + streamed.compress(b"body") + streamed.flush()
    assert compression.load("lz4").decompress(frame, 4) == b"body"
    unsized = zstandard.ZstdCompressor(write_content_size=False, write_checksum=True).compress(b"body")
    assert compression.load("zstd").decompress(unsized, 4) == b"body"


# -- limits


@given(anyone, bodies.filter(bool), st.integers(1, 400))
def test_not_a_byte_more_comes_out_than_the_limit(packer: Compressor, body: bytes, less: int) -> None:
    packed, limit = packer.compress(body), max(0, len(body) - less)
    assert fault_of(packer, packed, limit) is Fault.TOO_LARGE


def test_a_zstd_frame_that_does_not_say_its_size_is_held_to_the_limit_too() -> None:
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(10_000))
    assert compression.load("zstd").decompress(unsized, 10_000) == bytes(10_000)
    assert fault_of(compression.load("zstd"), unsized, 9_999) is Fault.TOO_LARGE


BOMB = """
import resource, sys
sys.path.insert(0, {root!r})
from gateway import compression
from gateway.core.faults import CommandFailed

limit = {limit}
packer = compression.load({name!r})
bomb = open({path!r}, "rb").read()
packer.decompress(packer.compress(bytes(limit)), limit)  # what it takes in any case
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    packer.decompress(bomb, limit)
except CommandFailed as failure:
    print(failure.fault.name, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def bomb_of(name: str, size: int) -> bytes:
    """A body of `size` zeros, made in pieces."""
    piece = bytes(min(size, MIB))
    pieces = [piece] * (size // len(piece))
    if name == "snappy":
        block = bytes(cramjam.snappy.compress_raw(piece))
        return b"\x82SNAPPY\x00" + struct.pack(">II", 1, 1) + (struct.pack(">I", len(block)) + block) * len(pieces)
    if name == "lz4":
        frame = lz4.frame.LZ4FrameCompressor()
        return bytes(frame.begin()) + b"".join(map(frame.compress, pieces)) + bytes(frame.flush())
    squeeze = zlib.compressobj(wbits=31) if name == "gzip" else zstandard.ZstdCompressor().compressobj()
    return b"".join(map(squeeze.compress, pieces)) + squeeze.flush()


@pytest.mark.parametrize("size", [10 << 10, MIB, 32 * MIB, 1 << 30])
@packers
def test_a_bomb_costs_what_the_limit_allows_and_no_more(packer: Compressor, size: int, tmp_path: Path) -> None:
    """In a process of its own, where the memory that C libraries take is seen too."""
    limit = min(size // 2, 4 * MIB)
    (tmp_path / "bomb").write_bytes(bomb_of(packer.name, size))
    program = BOMB.format(root=str(ROOT), limit=limit, name=packer.name, path=str(tmp_path / "bomb"))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    fault, grown = done.stdout.split()
    assert fault == "TOO_LARGE"
    assert int(grown) < 2 * limit + 3 * MIB, f"{int(grown)} bytes more for a limit of {limit}"


# -- damage


@packers
def test_a_body_that_ends_early_anywhere_is_not_whole(packer: Compressor) -> None:
    packed = packer.compress(bytes(range(256)) * 20)
    whole = {16} if packer.name == "snappy" else set()  # its header alone is a body of no blocks
    for end in range(len(packed)):
        if end not in whole:
            assert fault_of(packer, packed[:end]) is Fault.MALFORMED, end


@packers
def test_what_follows_a_whole_body_is_damage(packer: Compressor) -> None:
    assert fault_of(packer, packer.compress(b"body") + b"\0") is Fault.MALFORMED
    assert fault_of(packer, b"") is Fault.MALFORMED


@given(anyone, bodies, st.data())
def test_damage_is_told_or_does_no_harm(packer: Compressor, body: bytes, data: st.DataObject) -> None:
    """No other failure than the two, and never more than the limit."""
    packed = bytearray(packer.compress(body))
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = packer.decompress(bytes(packed), len(body))
    except CommandFailed as failure:
        assert failure.fault in (Fault.MALFORMED, Fault.TOO_LARGE)
        assert failure.detail
    else:
        assert len(found) <= len(body)


@given(anyone, st.binary(max_size=60), st.booleans())
def test_noise_is_told(packer: Compressor, noise: bytes, marked: bool) -> None:
    try:
        found = packer.decompress(packer.magic + noise if marked else noise, 1000)
    except CommandFailed as failure:
        assert failure.fault in (Fault.MALFORMED, Fault.TOO_LARGE)
    else:
        assert len(found) <= 1000


@pytest.mark.parametrize("name", ["gzip", "lz4", "zstd"])
def test_a_checksum_that_does_not_fit_is_damage(name: str) -> None:
    body = b"body" * 10
    if name == "gzip":
        packed = bytearray(compression.load(name).compress(body))
        packed[-5] ^= 1
    elif name == "lz4":
        packed = bytearray(lz4.frame.compress(body, content_checksum=True))
        packed[-1] ^= 1
    else:
        packed = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(body))
        packed[-1] ^= 1
    assert fault_of(compression.load(name), bytes(packed)) is Fault.MALFORMED
