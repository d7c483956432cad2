"""The parts of a generation, merged, with their provenance.

Source: Li and Li 2024 (AnglE), Section 4.5 and Figure 4.
"""

import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from embedrun.blocks import Parts, differing
from embedrun.curation.generation.answers import Row, Sifted, sift
from embedrun.curation.generation.llm import TEMPLATES, Llm, Responses, ask_all, prompt
from embedrun.errors import DataError
from embedrun.files import Plain, as_written, packed, publish, to_json, to_json_line, to_json_lines, unpacked

BLOCK = 200  # sentences; part of the layout, so that any sharding gives the same parts


def blocks(sentences: Sequence[str], block: int = BLOCK) -> list[list[str]]:
    """The sentences in blocks, the last one shorter."""
    return [list(sentences[start : start + block]) for start in range(0, len(sentences), block)]


class Generated(Parts):
    """The blocks of one generation that are done, as JSON; each part records the settings that decide it.

    The output folder need not exist.
    """

    def __init__(self, output: Path, count: int, settings: Plain) -> None:
        super().__init__(output, "part-{:06}.json.gz", count)
        self._settings = dict(settings)

    def check(self) -> None:
        """Compare every existing part with the settings.

        Raises:
            DataError: if one is damaged or was made with other settings.
        """
        for block in self.there():
            self.read(block)

    def write(self, block: int, sifted: Sequence[Sifted]) -> None:
        """Publish the part of a block; an existing one stays."""
        content = {
            "settings": self._settings,
            "block": block,
            "pairs": [row for one in sifted for row in one.pairs],
            "rejects": [row for one in sifted for row in one.rejects],
        }
        publish(self.path(block), packed(to_json_line(content) + b"\n"))

    def read(self, block: int) -> tuple[list[Row], list[Row]]:
        """Pairs and rejects of a block.

        Raises:
            DataError: if the part is missing, damaged, or was made with other settings.
        """
        path = self.path(block)
        with as_written(path, "a readable part", "delete it, and the same command makes it again"):
            content = _content(path)
            settings, pairs, rejects = content["settings"], content["pairs"], content["rejects"]
            if content["block"] != block:
                raise ValueError(f"it is the part of block {content['block']}")
            if not (_are(pairs, "llm", score=(0, 1)) and _are(rejects, "reason")):
                raise ValueError("its pairs or rejects are of another form")
        if settings != self._settings:
            others = ", ".join(differing(self._settings, settings)) or "configuration"
            raise DataError(
                f"{path}: made with another {others}; resume with the "
                "configuration that it was made with, or give another output=DIR, where responses=DIR "
                "reuses the answers so far"
            )
        return pairs, rejects


def _content(path: Path) -> Plain:
    try:
        with unpacked(path) as file:
            return json.loads(file.read())
    except (zlib.error, RecursionError) as fault:
        raise ValueError(str(fault)) from fault


def _are(rows: Sequence[object], text: str, **one_of: Sequence[object]) -> bool:
    """Whether rows of a part are mappings of texts and whole numbers, with a text and one of some values."""
    return isinstance(rows, list) and all(
        isinstance(row, dict)
        and isinstance(row.get(text), str)
        and all(row.get(name) in values for name, values in one_of.items())
        and all(isinstance(value, str | int) for value in row.values())
        for row in rows
    )


PAIRS = "pairs.jsonl.gz"
REJECTS = "rejects.jsonl"
PROVENANCE = "provenance.json"


def foreign(output: Path) -> list[str]:
    """Why an output folder cannot be written to, or resumed in."""
    there = [name for name in (PAIRS, REJECTS, PROVENANCE) if (output / name).exists()]
    if there and not (output / "parts").is_dir():
        return [
            f"output: {output} holds {', '.join(there)} and not the parts they were made from; "
            "give another folder"
        ]
    return []


def merge(parts: Generated, facts: Plain) -> Plain:
    """Join the parts, which are all there, in their order; returns the content of `provenance.json`.

    Writes `pairs.jsonl.gz`, `rejects.jsonl` and, as the last, `provenance.json`, whose bytes depend on
    nothing but the parts and the facts: settings and input, as the provenance shows them. Existing complete
    files stay.

    Raises:
        DataError: if a part is damaged, or a finished file is not what it was.
    """
    pairs, rejects = [], []
    for block in range(parts.count):
        made, rejected = parts.read(block)
        pairs += made
        rejects += rejected
    content = {PAIRS: packed(to_json_lines(pairs)), REJECTS: to_json_lines(rejects)}
    provenance = {
        "schema": 1,
        **facts,
        "counts": {
            "pairs": len(pairs),
            "positive": sum(row["score"] == 1 for row in pairs),
            "negative": sum(row["score"] == 0 for row in pairs),
            "pairs_by_llm": _counted(row["llm"] for row in pairs),
            "rejects": len(rejects),
            "rejects_by_reason": _counted(row["reason"] for row in rejects),
        },
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in content.items()},
    }
    text = to_json(provenance).encode("utf-8", "replace")
    finished = (parts.output / PROVENANCE).exists()
    for name, data in {**content, PROVENANCE: text}.items():
        path = parts.output / name
        if path.exists() and path.read_bytes() == data:
            continue
        if finished:
            raise DataError(
                f"{path}: not what its parts give, or missing; move it and {PROVENANCE} away, and the same "
                "command makes both again"
            )
        # Without the provenance, which comes last, an interrupted merge of the same parts left it.
        publish(path, data, replace=True)
    parts.clear_remains()
    return provenance


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))


def fill(
    blocks: Mapping[int, Sequence[str]],
    llms: Sequence[Llm],
    responses: Responses,
    parts: Generated,
    *,
    size: int,
    words: int | None,
    answered: Callable[[str, int], None],
) -> None:
    """Write the parts of the blocks, which are given by their number.

    One language model, in the order of the output, answers everything before the next is loaded, since two
    may not fit in memory; the parts are made of the stored answers at the end. An interruption loses no
    answer.

    Args:
        size: sentences to ask for.
        words: of `differs_enough`; None keeps every negative.
        answered: called with a language model's label and the number of its new answers.

    Raises:
        DataError: if a prompt is not answered.
    """
    for llm in llms:
        try:
            for block in blocks.values():
                prompts = [prompt(kind, text, size) for text in block for kind in TEMPLATES]
                ask_all(llm, prompts, responses, lambda count, label=llm.label: answered(label, count))
        finally:
            llm.close()
    for number, block in blocks.items():
        sifted = []
        for text in block:
            answers = [
                (llm.label, {kind: responses.get(llm, prompt(kind, text, size)) for kind in TEMPLATES})
                for llm in llms
            ]
            sifted.append(sift(text, answers, size=size, words=words))
        parts.write(number, sifted)
