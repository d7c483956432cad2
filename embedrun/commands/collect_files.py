"""What `embedrun collect` writes of its pairs, and the table that it shows."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from embedrun.commands.token_counts import tokens_of
from embedrun.console import aligned

if TYPE_CHECKING:
    from embedrun.commands.collect_plan import CollectPlan
    from embedrun.dataset.collection.pairs import Pair
    from embedrun.dataset.collection.repository import Reader, Repository

Counter = Callable[[list[str]], list[int]]
_LONG = 512  # AnglE, Sec. 4.1, calls longer texts long


def table(provenance: Mapping[str, Any]) -> str:
    """Table 1 of the AnglE paper, with the share of long texts of its Sec. 4.1."""
    splits, unit = provenance["splits"], provenance["length_unit"]
    rows = [["", *splits], *([name] for name in ("positive", "negative", "total"))]
    rows += [
        [f"texts over {_LONG} {unit}"],
        [f"pairs with one over {_LONG} {unit}"],
        [f"median {unit} a text"],
    ]
    for split in splits.values():
        total = split["positive"] + split["negative"]
        cells = [f"{split['positive']:,}", f"{split['negative']:,}", f"{total:,}"]
        cells += [
            f"{split['long_texts']:.2f} %",
            f"{split['long_pairs']:.2f} %",
            f"{split['median_length']:,.0f}",
        ]
        for row, cell in zip(rows[1:], cells, strict=True):
            row.append(cell)
    return aligned(rows, right=range(1, 1 + len(splits)))


def write(
    plan: "CollectPlan",
    reader: "Reader",
    repositories: Sequence["Repository"],
    pairs: Mapping[str, Sequence["Pair"]],
    unit: str,
    count: Counter,
) -> dict[str, Any]:
    """Write the splits, the plot of their lengths and the provenance, which is returned.

    Args:
        plan: of the collection.
        reader: that has read the repositories.
        repositories: read.
        pairs: by split.
        unit: of lengths.
        count: the length of each text, in that unit.
    """
    import numpy as np

    from embedrun import plot
    from embedrun.dataset.collection.output import write_provenance, write_split

    texts = _texts(reader, repositories, [pair for split in pairs.values() for pair in split])
    files, splits, lengths = [], {}, {}
    with plan.output.publishing() as aside:
        for split, rows in pairs.items():
            files.append(write_split(aside / f"{split}.jsonl.gz", rows, texts))
            both = [texts[row.repository][number] for row in rows for number in (row.left, row.right)]
            counted = np.array(count(both)).reshape(-1, 2)  # (rows, 2)
            lengths[split] = counted.ravel()
            splits[split] = {
                "positive": sum(row.score for row in rows),
                "negative": sum(1 - row.score for row in rows),
                "long_texts": round(100 * float((counted > _LONG).mean()), 2),
                "long_pairs": round(100 * float((counted > _LONG).any(axis=1).mean()), 2),
                "median_length": float(np.median(counted)),
            }
        plot.lengths(lengths, unit, _LONG, aside / "lengths.png")
        provenance = {
            "schema": 1,
            "settings": plan.settings,
            "repositories": {item.name: dict(sorted(item.counts.items())) for item in repositories},
            "length_unit": unit,
            "splits": splits,
            "files": files,
        }
        write_provenance(aside, provenance)
    return provenance


def _texts(
    reader: "Reader", repositories: Sequence["Repository"], pairs: Sequence["Pair"]
) -> dict[str, dict[int, str]]:
    """The texts of all pairs, by repository and number."""
    wanted: dict[str, set[int]] = {}
    for pair in pairs:
        wanted.setdefault(pair.repository, set()).update((pair.left, pair.right))
    return {item.name: reader.texts(item, wanted[item.name]) for item in repositories if item.name in wanted}


def counter(plan: "CollectPlan") -> tuple[str, Counter]:
    """The unit of lengths, and what counts the length of each text.

    Raises:
        DataError: if the tokenizer cannot be read.
    """
    from embedrun.commands.collect_plan import tokenizer_file

    file = tokenizer_file(plan.config)
    if file is None:
        return "words", lambda texts: [len(text.split()) for text in texts]
    return "tokens", tokens_of(file, "tokenizer")
