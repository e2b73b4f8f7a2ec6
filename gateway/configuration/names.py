"""Names that an operator gives, and how TOML wants them."""

from __future__ import annotations

import json
import re

from gateway.core.commands import MAX_NAME


def key(name: str) -> str:
    """A name as TOML wants it among the keys of a table."""
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def check_name(name: str, whose: str) -> None:
    """Raises ValueError, with a sentence, for what cannot be shown or is too long."""
    if not name.isprintable() or not 1 <= len(name.encode()) <= MAX_NAME:
        raise ValueError(f"{whose} name is 1 to {MAX_NAME} bytes long and can be printed")
