"""From rows to batches: the order asked for, and the vectors of teachers."""

import numpy as np
import pytest
import torch
from torch import nn

from embedrun.batch import TokenTable
from embedrun.config import TrainingConfig
from embedrun.errors import ConfigError
from embedrun.loss.terms import Pass
from embedrun.prompts import Prompt
from embedrun.rows import Rows
from embedrun.training.feed import Feed, Teachers, encoded, order_of
from embedrun.training.order import Draw, Order
from embedrun.training.processes import Processes


class Tokenizer:
    """One token a character; remembers its calls."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, texts: list[str], max_length: int | None, prompt: Prompt | None = None) -> TokenTable:
        self.calls.append(texts)
        texts = texts if prompt is None else [prompt.filled(text) for text in texts]
        texts = [text[:max_length] for text in texts]
        ids = np.array([ord(letter) for text in texts for letter in text], dtype=np.int32)
        return TokenTable(ids, np.cumsum([0, *map(len, texts)]))


ROWS = Rows(
    "toy",
    "train",
    "pair",
    {"left": ["ab", "c", "ab"], "right": ["c", "def", "g"]},
    {"score": np.array([1.0, 0.5, 0.0]), "label": np.array([0, 1, 2])},
)

PAIR = {"left": Pass("left"), "right": Pass("right")}


def text(ids: torch.Tensor) -> str:
    return "".join(map(chr, ids.tolist()))


def test_equal_texts_have_one_identity_in_all_views():
    batch = Feed(ROWS, Tokenizer(), PAIR, []).batch(Draw(0, 0, np.array([0, 1, 2])))
    left, right = batch.targets["left_identity"].tolist(), batch.targets["right_identity"].tolist()
    assert left[0] == left[2]  # ab
    assert left[1] == right[0]  # c
    assert len({*left, *right}) == 4


def test_a_pass_with_a_length_of_its_own_has_its_texts_cut_to_it():
    tokenizer = Tokenizer()
    passes = {
        "right": Pass("right"),
        "right[:4]": Pass("right", max_length=4),
        "short": Pass("right", max_length=1),
    }
    batch = Feed(ROWS, tokenizer, passes, []).batch(Draw(0, 0, np.array([1])))
    assert {key: text(view.tokens.ids) for key, view in batch.views.items()} == {
        "right": "def",
        "right[:4]": "def",
        "short": "d",
    }
    assert len(tokenizer.calls) == 3


def seeds(number: int = 3, rows: tuple[int, ...] = (0, 1, 2), seed: int = 0, **way) -> list[int]:
    feed = Feed(ROWS, Tokenizer(), {"one": Pass("left", **way)}, [], seed=seed)
    return feed.batch(Draw(number, 0, np.array(rows))).views["one"].seeds.tolist()


def test_dropout_seeds_differ_by_run_batch_view_and_draw_and_by_nothing_else():
    other = [seeds(seed=1), seeds(number=4), seeds(draw=1), seeds()]
    assert len({tuple(one) for one in other}) == 4
    assert seeds(max_length=7) == seeds()
    right = (
        Feed(ROWS, Tokenizer(), {"one": Pass("right")}, [])
        .batch(Draw(3, 0, np.array([0, 1, 2])))
        .views["one"]
    )
    assert right.seeds.tolist() != seeds()


def test_each_process_has_the_texts_of_its_share_and_the_targets_of_all():
    processes = Processes()
    processes.rank, processes.size = 1, 2
    batch = Feed(ROWS, Tokenizer(), PAIR, ["score"], processes=processes).batch(
        Draw(0, 0, np.array([0, 1, 2]))
    )
    assert text(batch.views["right"].tokens.ids) == "g"  # two rows for the first process, one for the second
    assert batch.targets["score"].tolist() == [1.0, 0.5, 0.0]
    assert batch.rows[batch.own].tolist() == [2]
    assert len(batch.targets["left_identity"]) == 3


class Numbers:
    """Copies that are the sentence and a number, doubled in the second; a sentence of one letter has none."""

    kind = "mask"

    def usable(self, text: str) -> bool:
        return len(text) > 1

    def copies(self, text: str, mask: str, random: np.random.Generator) -> tuple[str, str]:
        number = int(random.integers(10**6))
        return f"{mask}{number}", f"{mask}{2 * number}"


SENTENCES = Rows("toy", "train", "text", {"text": ["ab", "c", "def"]}, masked=Numbers())
COPIES = {view: Pass(view) for view in ("text", "masked_once", "masked_twice")}


def copies(
    number: int = 0, epoch: int = 0, rows: tuple[int, ...] = (0, 1, 2), seed: int = 0
) -> list[list[str]]:
    feed = Feed(SENTENCES, Tokenizer(), COPIES, [], seed=seed, mask="_")
    views = feed.batch(Draw(number, epoch, np.array(rows))).views
    found = []
    for view in ("masked_once", "masked_twice"):
        tokens = views[view].tokens
        ends = tokens.lengths.cumsum(0).tolist()
        found.append(
            [
                text(tokens.ids[end - length : end])
                for end, length in zip(ends, tokens.lengths.tolist(), strict=True)
            ]
        )
    return found


def test_masked_copies_stand_beside_their_sentence_and_are_empty_where_there_are_none():
    once, twice = copies()
    assert [int(two[1:]) for two in twice[::2]] == [2 * int(one[1:]) for one in once[::2]]
    assert once[1] == twice[1] == ""


def test_masks_are_a_function_of_seed_epoch_and_row():
    once = copies()[0]
    assert copies(number=7)[0] == once
    assert copies(rows=(2, 0))[0] == [once[2], once[0]]
    assert once[0] not in (copies(epoch=1)[0][0], copies(seed=1)[0][0], once[2])


def letters(texts: list[str], max_length: int | None, prompt: Prompt | None = None) -> TokenTable:
    """One token a letter."""
    ids = np.array([ord(letter) for text in texts for letter in text], dtype=np.int32)
    return TokenTable(ids, np.cumsum([0, *map(len, texts)]))


def made(left: list[str], right: list[str], *, processes: int = 1, **options) -> Order:
    rows = Rows("toy", "train", "pair", {"left": left, "right": right})
    feed = Feed(rows, letters, {"left": Pass("left"), "right": Pass("right")}, [])
    return order_of(feed, rows, TrainingConfig(**options), 3, processes=processes)


def numbered(rows: int) -> list[str]:
    return [f"{row:03d}" for row in range(rows)]


def test_rows_above_the_budget_are_named():
    left = ["a" * 9, "b" * 70, "c"]
    with pytest.raises(ConfigError) as caught:
        made(left, ["x"] * 3, batch_size=2, batch_tokens=70)
    (problem,) = caught.value.problems
    assert problem == (
        "training.batch_tokens: a batch has 2 rows or more, and the longest 2 (first training row 1, counted "
        "from 0) have 81 tokens over all views, more than 70; raise it to 81 or more, or lower "
        "backbone.max_length"
    )
    assert made(left, ["x"] * 3, batch_size=2, batch_tokens=81).steps(1, None) == 1


def test_too_many_rows_with_one_text_are_refused():
    with pytest.raises(ConfigError, match="distinct_texts: no batch of 4 of the 10 rows can be filled"):
        made(["same"] * 9 + ["other"], ["same"] * 2 + numbered(8), batch_size=4, distinct_texts=True)


class Lengths(nn.Module):
    """An encoder whose vector is the length of the text in letters, plus a weight, `dim` times."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.weight = nn.Parameter(torch.zeros(1))
        self.calls: list[list[str]] = []

    def encode(self, texts: list[str], progress=None) -> np.ndarray:
        self.calls.append(texts)
        if progress is not None:
            progress(len(texts), len(texts))
        return np.array([[len(text)] * self.dim for text in texts], dtype=np.float32)


def test_vectors_stand_side_by_side_with_zeros_behind_the_narrow_ones():
    teachers = Teachers([Lengths(1), Lengths(2)], ["a", "bb", "ccc"])  # type: ignore[list-item]
    assert teachers.dims == (1, 2)
    assert teachers.vectors(torch.tensor([2, 0])).tolist() == [[[3, 0], [3, 3]], [[1, 0], [1, 1]]]


def test_in_memory_every_text_is_encoded_once_and_before_it_is_asked_for():
    one = Lengths(2)
    teachers = Teachers([one], ["a", "bb"], keep=encoded)  # type: ignore[list-item]
    assert one.calls == [["a", "bb"]]
    assert teachers.vectors(torch.tensor([1, 1, 0])).tolist() == [[[2, 2]], [[2, 2]], [[1, 1]]]
    assert one.calls == [["a", "bb"]]


def test_teachers_are_frozen_and_have_no_dropout():
    one = Lengths(1).train()
    Teachers([one], [])  # type: ignore[list-item]
    assert not one.training
    assert not one.weight.requires_grad
