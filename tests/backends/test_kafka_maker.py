"""gateway.backends.kafka: what an operator is told who asks for it in a wrong way, or without its client."""

from __future__ import annotations

import subprocess
import sys

import pytest

from backends.driving import Reactor
from gateway.backends import find_maker


@pytest.mark.parametrize(
    "argument", ["", "localhost", "localhost:", ":9092", "localhost:0", "localhost:99999", "a:1,", "a b:1"]
)
def test_an_argument_that_names_no_broker_is_refused_with_an_example(argument: str) -> None:
    maker, left = find_maker(f"kafka:{argument}")
    with pytest.raises(ValueError, match=r"HOST:PORT.*kafka:127\.0\.0\.1:9092"):
        maker.make(left, {}, Reactor())


def test_several_brokers_are_one_argument() -> None:
    from gateway.backends.kafka.cluster import check_bootstrap

    for argument in ("127.0.0.1:9092", "one.example:9092,two.example:9093", "[::1]:9092"):
        assert check_bootstrap(argument) == argument


def test_without_its_client_it_says_what_to_install_and_the_others_are_found_all_the_same() -> None:
    code = """
import sys
sys.modules["confluent_kafka"] = None  # as if it were not installed
from gateway.backends import find_maker
assert find_maker("memory")[0].name == "memory"
maker, argument = find_maker("kafka:127.0.0.1:9092")
try:
    maker.make(argument, {}, None)
except ValueError as error:
    sys.exit(str(error))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr.strip() == "the kafka backend needs confluent-kafka: pip install 'polyglot-gateway[kafka]'"
