"""gateway.dialects.cursus: compressed frames, what they cost, and the algorithm that a listener names."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wire
from gateway import compression
from gateway.configuration import read_configuration
from gateway.conformance import vectors
from gateway.core.commands import ListTopics
from gateway.core.faults import Fault
from gateway.core.records import registry
from gateway.core.replies import Published, Topics
from gateway.dialects import Refusal, Request
from gateway.dialects.cursus import DIALECT, MAX_FRAME, spec
from gateway.dialects.cursus.batch import MAGIC
from gateway.dialects.cursus.session import CursusSession
from gateway.dialects.cursus.terms import CursusTerms

ENCODINGS = registry(DIALECT.encodings)
CASES = vectors.load("cursus")
V09 = wire.said("cursus", "a batch is acknowledged with what its first and last record say")
LIST = wire.said("cursus", "LIST without an envelope, as Java sends it")
ENVELOPED = wire.said("cursus", "LIST in an envelope")
NO_WORD = wire.said("cursus", "a word that is no command, without an envelope, is refused")
NO_TOPIC = wire.told("cursus", "a word that is no command, without an envelope, is refused")
PACKERS = [compression.load(name) for name in compression.names()]
MIB = 1 << 20

DEFLATE = '''
"""Raw deflate: nothing at its beginning says what it is."""
import zlib
from gateway.compression import Compressor, broken, too_large

def compress(body):
    deflate = zlib.compressobj(wbits=-15)
    return deflate.compress(body) + deflate.flush()

def decompress(data, limit):
    inflate = zlib.decompressobj(wbits=-15)
    try:
        body = inflate.decompress(data, limit + 1)
    except zlib.error as error:
        raise broken("deflate", error) from error
    if len(body) > limit:
        raise too_large(limit)
    if not inflate.eof or inflate.unused_data:
        raise broken("deflate")
    return body

COMPRESSOR = Compressor(name="deflate", magic=b"", compress=compress, decompress=decompress)
'''


def framed(payload: bytes) -> bytes:
    built: bytes = spec.Long.build(payload)
    return built


def terms(**options: object) -> CursusTerms:
    found = DIALECT.open(DIALECT.settings(**options), ENCODINGS).terms("localhost:9000")
    assert isinstance(found, CursusTerms)
    return found


def session(**options: object) -> CursusSession:
    found = DIALECT.open(DIALECT.settings(**options), ENCODINGS).session("localhost:9000")
    assert isinstance(found, CursusSession)
    return found


def told(frame: bytes, under: CursusTerms) -> bytes:
    """The answer to a frame that is refused."""
    refusal = DIALECT.decode_request(frame, under)
    assert isinstance(refusal, Refusal), refusal
    assert not refusal.closing
    return DIALECT.encode_reply(refusal, refusal.failure, under)


def is_too_much(answer: bytes, limit: int) -> bool:
    """Whether it says that more than that would have come out of a frame."""
    name = "what is more than a frame may hold when decompressed is refused, and the connection lives"
    return answer[4:] == wire.told("cursus", name)[4:].replace(b"256", b"%d" % limit)


# -- what is taken

GZIP = compression.load("gzip").magic
PLAIN = [case.when for case in CASES if not case.settings and len(case.when) > 8 and GZIP not in case.when[:6]]


@pytest.mark.parametrize("packer", PACKERS, ids=lambda packer: packer.name)
def test_a_compressed_frame_means_what_it_means_plain(packer: compression.Compressor) -> None:
    compared = 0
    for frame in PLAIN:
        payload = frame[4:]
        if DIALECT.measure_request(frame, 0, 0) == len(frame) and not payload.startswith(tuple(spec_magics())):
            plain = DIALECT.decode_request(frame, terms())
            packed = DIALECT.decode_request(framed(packer.compress(payload)), terms())
            if isinstance(plain, Request):
                assert packed == plain
            else:
                assert isinstance(packed, Refusal)
                assert packed.failure.detail == plain.failure.detail
            compared += 1
    assert compared > 100


def spec_magics() -> Iterator[bytes]:
    return (packer.magic for packer in PACKERS if packer.magic)


def test_no_text_command_and_no_batch_begins_like_a_compressed_frame() -> None:
    firsts = {magic[:1] for magic in spec_magics()}
    words = {word[:1].encode() for word in [*spec.FORMS, *spec.NOT_SERVED]} | {MAGIC[:1], spec.Short.build(b"")[:1]}
    assert not firsts & {*words, *map(bytes.lower, words)}


@settings(max_examples=300)
@given(st.sampled_from(PACKERS), st.data())
def test_specification_and_fast_path_agree_on_damaged_frames(
    packer: compression.Compressor, data: st.DataObject
) -> None:
    payload = bytearray(packer.compress(data.draw(st.sampled_from([V09, LIST, ENVELOPED, NO_WORD]))[4:]))
    for _ in range(data.draw(st.integers(0, 2))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    frame = framed(bytes(payload[: data.draw(st.just(len(payload)) | st.integers(0, len(payload)))]))
    request = DIALECT.decode_request(frame, terms())
    assert (spec.parse_request(frame) is not None) is isinstance(request, Request), request


# -- what it costs


@pytest.mark.parametrize("name", ["gzip", "lz4", "zstd"])
def test_a_bomb_is_refused_at_the_limit_and_the_connection_lives(name: str) -> None:
    bomb = framed(compression.load(name).compress(bytes(MAX_FRAME + 100 * MIB)))
    peer = session(max_frame=4 + MIB)
    assert len(bomb) < MIB
    tracemalloc.start()
    try:
        assert peer.receive(bomb, 0.0) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6 * MIB
    assert is_too_much(peer.take(), MIB)
    assert not peer.closing
    [call] = peer.receive(LIST, 0.0)
    peer.answer(call, Topics(()))
    assert peer.take() == wire.told("cursus", "LIST where there are no topics")


def test_a_frame_may_become_as_long_as_one_that_is_not_compressed() -> None:
    body = V09[4:] + bytes(1000 - len(V09))
    packed = framed(compression.load("gzip").compress(body))
    assert isinstance(DIALECT.decode_request(packed, terms(max_frame=1000)), Request)
    assert is_too_much(told(packed, terms(max_frame=999)), 995)


def test_many_small_bombs_in_one_read_cost_no_more_than_one() -> None:
    body = V09[4:] + bytes(MIB)
    bomb = framed(compression.load("zstd").compress(body))
    peer = session(max_frame=4 + 4 * MIB)
    calls = peer.receive(bomb * 100 + LIST, 0.0)
    assert len(bomb) < 1000
    assert len(calls) == 3 + 1
    assert isinstance(calls[-1].request.command, ListTopics)
    assert len(peer.receive(bomb * 100, 0.0)) == 3, "there is room again in the next read"
    for call in calls:
        peer.answer(call, Published(0, 0, 1) if call is not calls[-1] else Topics(()))
    assert not peer.closing


def test_without_a_session_nobody_keeps_count() -> None:
    packed, same = framed(compression.load("gzip").compress(V09[4:])), terms(max_frame=200)
    for _ in range(10):
        assert isinstance(DIALECT.decode_request(packed, same), Request)


# -- an algorithm without magic


@pytest.fixture
def deflate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> compression.Compressor:
    """One that only a plugin folder has."""
    (tmp_path / "deflate.py").write_text(DEFLATE)
    monkeypatch.setattr(compression, "__path__", [*compression.__path__, str(tmp_path)])
    return compression.load("deflate")


def test_an_algorithm_without_magic_is_used_where_it_is_named(deflate: compression.Compressor) -> None:
    packed = framed(deflate.compress(V09[4:]))
    plain = DIALECT.decode_request(V09, terms())
    assert DIALECT.decode_request(packed, terms(compression="deflate")) == plain
    assert told(packed, terms()) == NO_TOPIC


def test_all_that_is_plain_or_has_a_magic_stays_what_it_is_where_one_is_named(deflate: compression.Compressor) -> None:
    named = terms(compression="deflate")
    for case in CASES:
        if not case.settings:
            plain, under = DIALECT.decode_request(case.when, terms()), DIALECT.decode_request(case.when, named)
            assert type(under) is type(plain), case.name
            if isinstance(plain, Refusal) and isinstance(under, Refusal):
                assert under.failure.detail == plain.failure.detail, case.name
            else:
                assert under == plain, case.name


def test_what_a_named_algorithm_did_not_write_is_answered_as_if_none_was_named(
    deflate: compression.Compressor,
) -> None:
    named = terms(compression="deflate")
    for what in (
        *("a word that is no command, without an envelope, is refused", "a frame of nothing is refused"),
        "a word that is no command, in an envelope, is refused",
    ):
        assert told(wire.said("cursus", what), named) == wire.told("cursus", what)
    assert told(framed(deflate.compress(V09[4:])[:-1]), named) == NO_TOPIC


def test_what_is_wrong_with_what_it_did_write_is_said(deflate: compression.Compressor) -> None:
    named, what = terms(compression="deflate", max_frame=1004), "METADATA without a topic is refused"
    assert told(framed(deflate.compress(wire.said("cursus", what)[4:])), named) == wire.told("cursus", what)
    assert is_too_much(told(framed(deflate.compress(bytes(5000))), named), 1000)
    assert told(framed(deflate.compress(deflate.compress(V09[4:]))), named) == NO_TOPIC


# -- the setting


def test_a_compression_that_there_is_not_is_refused_with_the_choices(tmp_path: Path) -> None:
    sentence = "there is no compression 'brotli'; there are gzip, lz4, snappy, zstd"
    with pytest.raises(ValueError, match=sentence):
        DIALECT.settings(compression="brotli")
    file = tmp_path / "gateway.toml"
    file.write_text('[listener.a]\ndialect = "cursus"\ncompression = "brotli"\n')
    with pytest.raises(ValueError, match=r"listener\.a.*" + sentence):
        read_configuration(str(file))


@pytest.mark.parametrize("name", ["", *compression.names()])
def test_every_compression_may_be_named(name: str) -> None:
    assert msgspec.convert({"compression": name}, DIALECT.settings) == DIALECT.settings(compression=name)
    assert terms(compression=name).unpacking.named is None, "all of ours have a magic"


def test_a_refusal_of_what_is_too_much_is_no_end() -> None:
    refusal = DIALECT.decode_request(framed(compression.load("gzip").compress(bytes(300))), terms(max_frame=104))
    assert isinstance(refusal, Refusal)
    assert (refusal.failure.fault, refusal.closing) == (Fault.TOO_LARGE, False)
