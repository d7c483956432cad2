import numpy as np
import torch

from embedrun.batch import TokenTable
from embedrun.loss.terms import Pass
from embedrun.prompt import Prompt
from embedrun.rows import Rows
from embedrun.training.feed import Feed
from embedrun.training.order import Draw
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


def test_distinct_texts_are_tokenised_once():
    tokenizer = Tokenizer()
    feed = Feed(ROWS, tokenizer, PAIR, ["score"])
    feed.batch(Draw(0, 0, np.array([0, 1])))
    assert tokenizer.calls == [["ab", "c", "def", "g"]]


def test_a_batch_holds_the_rows_asked_for_in_that_order():
    batch = Feed(ROWS, Tokenizer(), PAIR, ["score"]).batch(Draw(0, 0, np.array([2, 1])))
    assert text(batch.views["left"].tokens.ids) == "abc"
    assert batch.views["left"].tokens.lengths.tolist() == [2, 1]
    assert text(batch.views["right"].tokens.ids) == "gdef"
    assert batch.rows.tolist() == [2, 1]
    assert batch.targets["score"].tolist() == [0.0, 0.5]
    assert batch.targets["score"].dtype == torch.float64


def test_each_view_has_its_own_prompt_and_equal_texts_still_one_identity():
    tokenizer = Tokenizer()
    prompts = {"left": Prompt("<{text}>"), "right": None}
    batch = Feed(ROWS, tokenizer, PAIR, [], prompts=prompts).batch(Draw(0, 0, np.array([1, 0])))
    assert text(batch.views["left"].tokens.ids) == "<c><ab>"
    assert text(batch.views["right"].tokens.ids) == "defc"
    assert batch.targets["left_identity"][0] == batch.targets["right_identity"][1]
    assert len(tokenizer.calls) == 2


def test_masked_copies_stand_in_the_prompt_of_their_view():
    prompts = {"masked_once": Prompt("<{text}>")}
    views = (
        Feed(SENTENCES, Tokenizer(), COPIES, [], mask="_", prompts=prompts)
        .batch(Draw(0, 0, np.array([0])))
        .views
    )
    once = text(views["masked_once"].tokens.ids)
    assert (once[0], once[-1]) == ("<", ">")
    assert "<" not in text(views["masked_twice"].tokens.ids)


def test_equal_texts_have_one_identity_in_all_views():
    batch = Feed(ROWS, Tokenizer(), PAIR, []).batch(Draw(0, 0, np.array([0, 1, 2])))
    left, right = batch.targets["left_identity"].tolist(), batch.targets["right_identity"].tolist()
    assert left[0] == left[2]  # ab
    assert left[1] == right[0]  # c
    assert len({*left, *right}) == 4


def test_only_the_views_and_targets_that_are_needed_are_there():
    tokenizer = Tokenizer()
    batch = Feed(ROWS, tokenizer, {"right": Pass("right")}, ["label"]).batch(Draw(0, 0, np.array([1])))
    assert list(batch.views) == ["right"]
    assert set(batch.targets) == {"label", "right_identity"}
    assert tokenizer.calls == [["c", "def", "g"]]


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


def test_dropout_seeds_follow_the_row_wherever_it_stands():
    first, second, third = seeds()
    assert seeds(rows=(2, 0)) == [third, first]
    assert len({first, second, third}) == 3


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


def test_a_pass_without_dropout_says_so():
    views = (
        Feed(ROWS, Tokenizer(), {"on": Pass("left"), "off": Pass("left", dropout=False)}, [])
        .batch(Draw(0, 0, np.array([0])))
        .views
    )
    assert (views["on"].dropout, views["off"].dropout) == (True, False)


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

    needs_token = True

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


def test_lengths_are_the_tokens_of_each_row_in_each_pass():
    passes = {"left": Pass("left"), "right": Pass("right"), "short": Pass("right", max_length=1)}
    prompts = {"left": Prompt("<{text}>")}
    feed = Feed(ROWS, Tokenizer(), passes, [], prompts=prompts)
    assert feed.lengths.tolist() == [[4, 1, 1], [3, 3, 1], [4, 1, 1]]
    assert feed.lengths.dtype == np.int64


def test_lengths_are_those_of_what_a_batch_has():
    feed = Feed(ROWS, Tokenizer(), PAIR, [])
    batch = feed.batch(Draw(0, 0, np.array([2, 1])))
    found = np.stack([view.tokens.lengths.numpy() for view in batch.views.values()], axis=1)
    assert feed.lengths[[2, 1]].tolist() == found.tolist()


def test_masked_copies_are_as_long_as_their_sentence():
    prompts = {"masked_once": Prompt("<{text}>")}
    feed = Feed(SENTENCES, Tokenizer(), COPIES, [], mask="_", prompts=prompts)
    assert feed.lengths.tolist() == [[2, 4, 2], [1, 3, 1], [3, 5, 3]]
    alone = Feed(SENTENCES, Tokenizer(), {"masked_once": Pass("masked_once")}, [], mask="_")
    assert alone.lengths.tolist() == [[2], [1], [3]]


def test_texts_of_rows_are_equal_where_the_texts_are():
    found = Feed(ROWS, Tokenizer(), PAIR | {"again": Pass("left", draw=1)}, []).texts_of_rows
    assert found.tolist() == [
        [0, 1],
        [1, 2],
        [0, 3],
    ]  # ab, c, def, g; of two passes once
    assert Feed(SENTENCES, Tokenizer(), COPIES, [], mask="_").texts_of_rows.tolist() == [[0], [1], [2]]
