"""A few training rows, held out to pick the checkpoint."""

from collections.abc import Callable, Sequence

import pytest

from embedrun.dataset.pairs import Pairs, Triplets
from embedrun.dataset.split import hold_out
from embedrun.rows import Rows
from embedrun.store import Store


@pytest.fixture
def read(tmp_path) -> Callable[..., Rows]:
    """The training rows of a file of pairs."""

    def rows(first: Sequence[str], score: Sequence[float]) -> Rows:
        path = tmp_path / "a.csv"
        lines = [
            f"{text},other {row},{value}\n"
            for row, (text, value) in enumerate(zip(first, score, strict=True))
        ]
        path.write_text("text1,text2,score\n" + "".join(lines))
        return Pairs(path=str(path)).read("train", Store(tmp_path))

    return rows


def apart(count: int) -> list[str]:
    return [f"text {row}" for row in range(count)]


def texts(rows: Rows) -> set[str]:
    return set(rows.sentences())


@pytest.mark.parametrize(
    ("rows", "held_out"), [(400, 20), (419, 20), (420, 21), (20_000, 1000), (30_000, 1000)]
)
def test_one_row_in_twenty_is_held_out_and_a_thousand_at_most(read, rows, held_out):
    found = hold_out(read(apart(rows), range(rows)), 42)
    assert found.dev is not None
    assert (len(found.dev), len(found.train), found.rows) == (held_out, rows - held_out, held_out)
    assert (found.dev.name, found.dev.split, found.train.split) == ("pairs", "dev", "train")


def test_what_is_held_out_shares_no_text_and_is_a_function_of_rows_and_seed(read):
    rows = read([f"text {row // 3}" for row in range(600)], range(600))
    found, again, other = hold_out(rows, 1), hold_out(rows, 1), hold_out(rows, 2)
    assert found.dev is not None
    assert again.dev is not None
    assert other.dev is not None
    assert len(found.dev) == 30
    assert texts(found.train).isdisjoint(texts(found.dev))
    assert texts(found.train) | texts(found.dev) == texts(rows)
    assert found.dev.fingerprint() == again.dev.fingerprint() != other.dev.fingerprint()
    kept = dict(zip(rows.texts["right"], rows.targets["score"], strict=True))
    assert [kept[text] for text in found.dev.texts["right"]] == found.dev.targets["score"].tolist()


@pytest.mark.parametrize(
    ("first", "score", "reason"),
    [
        (apart(399), range(399), "and 399 training rows are too few to hold out 5 % (at least 400)"),
        (["the same"] * 400, range(400), "and nearly all training rows share texts"),
        (apart(400), [1] * 400, "and nearly all training rows have the same score"),
    ],
)
def test_where_none_can_be_held_out_all_rows_stay_and_the_reason_is_said(read, first, score, reason):
    rows = read(first, score)
    found = hold_out(rows, 42)
    assert found.train is rows
    assert (found.dev, found.rows) == (None, 0)
    assert found.reason.startswith(reason)


def test_triplets_are_held_out_as_pairs_of_one_and_zero(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("anchor,positive,negative\n" + "".join(f"a{row},p{row},n{row}\n" for row in range(400)))
    found = hold_out(Triplets(path=str(path)).read("train", Store(tmp_path)), 42)
    assert found.dev is not None
    assert (found.rows, len(found.dev), len(found.train)) == (20, 40, 380)
    assert found.dev.targets["score"].tolist() == [1] * 20 + [0] * 20
