"""What decides the bytes of an annotation, and how two of them differ."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from embedrun.rows import Rows

SCHEMA = 1


@dataclass(frozen=True)
class Settings:
    """What decides the bytes of an annotation, and nothing that does not: no shard, no folder, no machine.

    Args:
        rows: `name`, `split` and `count` of the rows, and `sha256` of their texts and labels.
        block_rows: rows of a block.
        teachers: one record each, as :mod:`embedrun.commands.annotators` makes them.
    """

    rows: dict[str, Any]
    block_rows: int
    teachers: list[dict[str, Any]]

    @classmethod
    def of(cls, rows: Rows, block_rows: int, teachers: Sequence[Mapping[str, Any]]) -> "Settings":
        """The settings for these rows; a score that they have already plays no part."""
        bare = Rows(
            name=rows.name,
            split=rows.split,
            form=rows.form,
            texts=rows.texts,
            targets={"label": rows.targets["label"]},
        )
        says = {"name": rows.name, "split": rows.split, "count": len(rows), "sha256": bare.fingerprint()}
        return cls(says, block_rows, [dict(teacher) for teacher in teachers])

    def plain(self) -> dict[str, Any]:
        """As it stands in a file."""
        return {"schema": SCHEMA, **asdict(self)}

    def difference(self, other: Any) -> str | None:
        """What another file, made with `other`, was made with instead; None where nothing differs."""
        if not isinstance(other, dict) or other.get("schema") != SCHEMA:
            return "by another version of embedrun"
        if (teachers := other.get("teachers")) != self.teachers:
            return f"with other teachers ({_shown(teachers)}; this command: {_shown(self.teachers)})"
        if (rows := other.get("rows")) != self.rows:
            return f"of other rows ({_shown([rows])}; this command: {_shown([self.rows])})"
        if other.get("block_rows") != self.block_rows:
            return f"with block_rows={other.get('block_rows')} (this command: {self.block_rows})"
        return None


def _shown(records: Any) -> str:
    """Records in a few words: what is not null, hashes by their first digits."""
    if not isinstance(records, list):
        return "none"
    return " and ".join(
        " ".join(
            f"{key}={str(value)[:12] if key in ('sha256', 'commit') else value!r}"
            for key, value in (record or {}).items()
            if value is not None
        )
        for record in records
    )
