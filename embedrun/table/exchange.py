"""Sheets as JSON, and back.

A file of `embedrun table -o FILE.json` is read in Python with `from_json(FILE.read_text())`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NoReturn

from embedrun.errors import DataError
from embedrun.table.sheet import Entry, Origin, Sheet, SheetColumn, SheetRow

SCHEMA = 1


def to_json(sheets: Sequence[Sheet]) -> str:
    """One object with a schema number and all sheets."""
    data = {"schema": SCHEMA, "tables": [asdict(sheet) for sheet in sheets]}
    return json.dumps(data, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def from_json(text: str) -> list[Sheet]:
    """The sheets of what `to_json` has written.

    Raises:
        DataError: for anything else.
    """
    try:
        data = json.loads(text, parse_constant=_refuse)
        if data["schema"] != SCHEMA:
            raise DataError(f"JSON of tables: schema {data['schema']!r}, and this version reads {SCHEMA}")
        return [_sheet(one) for one in data["tables"]]
    except (ValueError, LookupError, TypeError) as fault:
        raise DataError(f"JSON of tables: cannot be read ({fault})") from None


def _sheet(data: Mapping[str, Any]) -> Sheet:
    return Sheet(
        **{
            **data,
            "columns": tuple(SheetColumn(**one) for one in data["columns"]),
            "rows": tuple(_row(one) for one in data["rows"]),
            **{name: tuple(data[name]) for name in ("seeds", "overrides", "notes", "commands")},
        }
    )


def _row(data: Mapping[str, Any]) -> SheetRow:
    origins = [Origin(**{**one, "columns": tuple(one["columns"])}) for one in data["origins"]]
    return SheetRow(
        **{
            **data,
            "entries": tuple(Entry(**one) for one in data["entries"]),
            "notes": tuple(data["notes"]),
            "origins": tuple(origins),
        }
    )


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"holds {constant}")
