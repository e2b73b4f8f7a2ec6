"""gateway.pipeline.options: what is said of a read, and what is refused."""

from __future__ import annotations

import pytest

from gateway.pipeline.options import PER_PARTITION, Reading, reading_of
from gateway.pipeline.places import Place


def test_a_topic_is_all_that_has_to_be_said() -> None:
    assert reading_of({"topic": "orders"}) == Reading(
        Place(), "orders", "earliest", "latest", PER_PARTITION, None, True
    )


def test_everything_can_be_said() -> None:
    said = {
        "topic": "orders*",
        "endpoint": "cursus=tcp:127.0.0.1:9000",
        "startingOffsets": '{"orders": {"0": 1}}',
        "endingOffsets": '{"orders": {"0": 9}}',
        "recordsPerPartition": "10",
        "maxRecordsPerTrigger": "20",
        "failOnDataLoss": "False",
    }
    place = Place("cursus=tcp:127.0.0.1:9000")
    assert reading_of(said) == Reading(place, "orders*", {"orders": {0: 1}}, {"orders": {0: 9}}, 10, 20, False)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({}, "option topic is missing"),
        ({"endingOffsets": "earliest"}, "endingOffsets is latest, or offsets such as"),
        ({"recordsPerPartition": "0"}, "recordsPerPartition is a positive number, not '0'"),
        ({"maxRecordsPerTrigger": "1e6"}, "maxRecordsPerTrigger is a positive number, not '1e6'"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss is true or false, not 'no'"),
        ({"timeoutSeconds": "0"}, "timeoutSeconds is a positive number"),
        ({"endpoint": "native"}, "DIALECT=ENDPOINT is wanted"),
        ({"endpoint": "kafka=tcp:127.0.0.1:9092"}, "there is no dialect 'kafka'"),
    ],
)
def test_what_means_nothing_is_refused_with_a_sentence(said: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        reading_of(({"topic": "orders"} | said) if said else {})
