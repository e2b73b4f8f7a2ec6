"""All that was said, by file, environment and command line, as one table; and where each of it was said."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, NoReturn, TypeVar

import msgspec

from gateway.configuration.lines import Place, find_lines
from gateway.configuration.names import key
from gateway.configuration.words import find_wrong

T = TypeVar("T")

_WHERE = re.compile(r" - at `\$(?P<path>[^`]*)`$")


class Said(NamedTuple):
    """One value that does not stand in a file.  origin: what it was said with, such as `--web` or `GATEWAY_WEB`."""

    origin: str
    place: Place
    value: object


class Told:
    """table: what a file says, or {}, and what was said over it.  file: its name, "" = there is none."""

    def __init__(self, file: str = "", text: str = "") -> None:
        self.file = file
        self.table = _parse(file, text)
        self._lines = find_lines(text)
        self._origins: dict[Place, str] = {}

    @staticmethod
    def read(path: str) -> Told:
        """A TOML file.  Raises ValueError: `file: what is wrong`."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror}") from error
        except ValueError as error:
            raise ValueError(f"{path}: {error}; it has to be UTF-8") from error
        return Told(path, text)

    def say(self, said: Said, instead_of: Iterable[Place] = ()) -> None:
        """Put a value over what was said before, of it and of what means the same."""
        for other in instead_of:
            section = self.table.get(str(other[0]))
            if isinstance(section, dict):
                section.pop(other[1], None)
        inner: dict[object, object] = self.table  # type: ignore[assignment]
        for step in said.place[:-1]:
            further = inner.setdefault(step, {})
            if not isinstance(further, dict):
                return  # what the file has there is no table, and that is what will be said of it
            inner = further
        inner[said.place[-1]] = said.value
        self._origins[said.place] = said.origin

    def convert(self, value: object, kind: type[T], place: Place) -> T:
        """A value that was said there.  Raises ValueError: where, and what is wrong."""
        wrong = find_wrong(value, msgspec.inspect.type_info(kind))
        if wrong is not None:
            self.refuse(place + wrong.place, wrong.sentence)
        try:
            return msgspec.convert(value, kind)
        except ValueError as error:  # what a type says of itself, with the place inside
            found = _WHERE.search(str(error))
            steps = re.findall(r"\.([^.\[]+)|\[(\d+)\]", found["path"]) if found else []
            inside = tuple(int(number) if number else name for name, number in steps)
            self.refuse(place + inside, _WHERE.sub("", str(error)), error)

    def refuse(self, place: Place, sentence: str, cause: Exception | None = None) -> NoReturn:
        """Raises ValueError: where that was said, and the sentence."""
        raise ValueError(f"{self.where(place)}: {sentence}") from cause

    def where(self, place: Place) -> str:
        """`file:line key`, or the option or variable with which it was said."""
        for end in range(len(place), 0, -1):
            if place[:end] in self._origins:
                return self._origins[place[:end]]
            if place[:end] in self._lines:
                return f"{self.file}:{self._lines[place[:end]]} {_dotted(place)}"
        return f"{self.file} {_dotted(place)}".strip()


def _parse(file: str, text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError(f"{file}: brackets are nested too deeply") from None
    except ValueError as error:
        where = re.search(r" \(at line (\d+), column (\d+)\)$", str(error))
        if where is None:  # at the end of the document
            raise ValueError(f"{file}:{text.count(chr(10)) + 1}: {error}") from error
        raise ValueError(f"{file}:{where[1]}: {str(error)[: where.start()]}, at column {where[2]}") from error


def _dotted(place: Place) -> str:
    """As TOML would have it; the line says which element of an array."""
    return ".".join(key(step) for step in place if isinstance(step, str))
