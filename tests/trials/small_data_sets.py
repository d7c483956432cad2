"""Every data set over files of a few lines: what they hold, what is read, and one faulty line."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from embedrun import family
from embedrun.store import Store


@dataclass(frozen=True)
class Made:
    """A data set over files that a test writes.

    Args:
        name: of the data set in YAML.
        files: lines by the name of the file: fields of TSV, an object of JSON Lines or a line of text. A name
            without a folder is a file of the user's own.
        texts: the first rows of every view.
        faulty: a further line of the first file.
        reasons: what is said of it, in any order.
        targets: the first rows of every target.
        subset: of every row.
        splits: that there are; the last of them is read.
        calls: the name of the rows, where it is not that of the data set.
        options: of the constructor.
    """

    name: str
    files: Mapping[str, list[Any]]
    texts: Mapping[str, list[str]]
    faulty: Any
    reasons: list[str]
    targets: Mapping[str, list[float]] = field(default_factory=dict)
    subset: list[str] = field(default_factory=list)
    splits: tuple[str, ...] = ("train",)
    calls: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def first(self) -> str:
        return next(iter(self.files))

    @property
    def split(self) -> str:
        return self.splits[-1]

    @property
    def own(self) -> bool:
        return "/" not in self.first

    def data(self, store: Store) -> Any:
        path = {"path": str(store.root / self.first)} if self.own else {}
        return family.find("dataset", self.name)(**path, **self.options)


ISSUE = {"text1": "a", "text2": "b\n\nc", "score": 1, "repository": "o/r", "number1": 2, "number2": 1}
SCORED = {"text1": "a", "text2": "b", "label": 0, "score": 0.5, "score_1": 0.5}


def empty(*columns: str) -> list[str]:
    return [f"{column}: the text is empty" for column in columns]


def binary(label: Any, first: str = "why", second: str = "because") -> dict[str, Any]:
    return {"sentence1": first, "sentence2": second, "label": label}


def nli(label: int, hypothesis: str) -> dict[str, Any]:
    return {"premise": "p", "hypothesis": hypothesis, "label": label}


def image(name: str, *captions: str) -> dict[str, Any]:
    return {"image_id": name, "captions": list(captions)}


MADE = [
    Made(
        "captions",
        {"flickr8k/captions.jsonl.gz": [image("x", "a", "b", "c"), image("w", "d", "a")]},
        texts={"text": ["a", "b", "c", "d", "a"]},
        targets={"group": [0, 0, 0, 1, 1]},
        faulty=image("", "a"),
        reasons=["captions: expected a list of two captions or more, got ['a']", *empty("image_id")],
        splits=("test",),
        calls="flickr8k",
        options={"set": "flickr8k"},
    ),
    Made(
        "github_issues",
        {"github_issues/test.jsonl.gz": [ISSUE, {**ISSUE, "score": 0, "text2": "d"}]},
        texts={"left": ["a", "a"], "right": ["b\n\nc", "d"]},
        targets={"score": [1, 0]},
        subset=["o/r", "o/r"],
        faulty={"text1": " ", "text2": "", "score": 2, "repository": ""},
        reasons=["score: expected a number from 0 to 1, got 2", *empty("text1", "text2", "repository")],
        splits=("train", "dev", "test"),
    ),
    Made(
        "mrpc",
        {"senteval/mrpc/test.jsonl.gz": [binary(1), binary(0, "who", "he")] * 578 + [binary(1)] * 569},
        texts={"left": ["why", "who"], "right": ["because", "he"]},
        targets={"score": [1, 0]},
        faulty=binary(2, "", ""),
        reasons=["label: expected a whole number from 0 to 1, got 2", *empty("sentence1", "sentence2")],
        splits=("train", "test"),
    ),
    Made(  # neutral pairs are left out
        "nli",
        {
            "nli/snli_train_sample.jsonl.gz": [nli(0, "a"), nli(1, "b"), nli(2, "c")],
            "nli/mnli_train_sample.jsonl.gz": [nli(2, "d")],
        },
        texts={"left": ["p", "p", "p"], "right": ["a", "c", "d"]},
        targets={"score": [1, 0, 0], "label": [0, 2, 2]},
        faulty={"premise": " ", "hypothesis": "", "label": -1},
        reasons=[
            "label: expected 0 (entailment), 1 (neutral) or 2 (contradiction), got -1",
            *empty("premise", "hypothesis"),
        ],
    ),
    Made(
        "nli_scored",
        {"nli/nli_scored.jsonl.gz": [SCORED, {**SCORED, "label": 2, "score": -0.25, "text1": "c"}]},
        texts={"left": ["a", "c"], "right": ["b", "b"]},
        targets={"score": [0.5, -0.25], "label": [0, 2]},
        faulty={"text1": "", "text2": "", "label": 3, "score": 7},
        reasons=[
            "label: expected 0 (entailment), 1 (neutral) or 2 (contradiction), got 3",
            "score: expected a number from -1 to 1, got 7",
            *empty("text1", "text2"),
        ],
    ),
    Made(
        "pairs",
        {"a.tsv": [["text1", "text2", "score"], ["A cat.", "A dog.", "2"], ["Rain", "Snow", "1.5"]]},
        texts={"left": ["A cat.", "Rain"], "right": ["A dog.", "Snow"]},
        targets={"score": [2, 1.5]},
        faulty=["", " ", "much"],
        reasons=["score: expected a number, got 'much'", *empty("text1", "text2")],
    ),
    *(
        Made(
            name,
            {f"pairs/{name}/dev.jsonl.gz": [binary(1), binary(0, "who", "he")]},
            texts={"left": ["why", "who"], "right": ["because", "he"]},
            targets={"score": [1, 0]},
            faulty=binary(2, second=""),
            reasons=["label: expected a whole number from 0 to 1, got 2", *empty("sentence2")],
            splits=("train", "dev"),
        )
        for name in ("qnli", "qqp")
    ),
    Made(
        "senteval",
        {
            "senteval/trec/test.jsonl.gz": [
                {"text": f"question {number}", "label": label}
                for label, rows in enumerate([9, 138, 94, 65, 81, 113])
                for number in range(rows)
            ][::-1]
        },
        texts={"text": ["question 112", "question 111"]},
        targets={"category": [5, 5]},
        faulty={"text": "", "label": 6},
        reasons=["label: expected a whole number from 0 to 5, got 6", *empty("text")],
        splits=("train", "test"),
        calls="trec",
        options={"task": "trec"},
    ),
    Made(
        "sickr",
        {
            "sickr/test.tsv.gz": [
                ["id", "score", "entailment", "sentence1", "sentence2"],
                ["1", "4.5", "contradiction", "a", "b"],
                ["2", "5", "entailment", "c", "d"],
                ["3", "1", "neutral", "e", "f"],
            ]
        },
        texts={"left": ["a", "c", "e"], "right": ["b", "d", "f"]},
        targets={"score": [4.5, 5, 1], "label": [2, 0, 1]},
        faulty=["4", "0.9", "0", "", ""],
        reasons=[
            "entailment: expected entailment, neutral, contradiction; got '0'",
            "score: expected a number from 1 to 5, got '0.9'",
            *empty("sentence1", "sentence2"),
        ],
        splits=("train", "dev", "test"),
    ),
    Made(
        "sts",
        {"sts/sts14.tsv.gz": [["subset", "score", "sentence1", "sentence2"], ["OnWN", "2.5", "a", "b"]]},
        texts={"left": ["a"], "right": ["b"]},
        targets={"score": [2.5]},
        subset=["OnWN"],
        faulty=["", "5.5", "", ""],
        reasons=[
            "score: expected a number from 0 to 5, got '5.5'",
            *empty("sentence1", "sentence2", "subset"),
        ],
        splits=("test",),
        calls="sts14",
        options={"year": 14},
    ),
    Made(  # quotes are left alone
        "stsb",
        {
            "stsb/test.tsv.gz": [
                ["genre", "subset", "year", "id", "score", "sentence1", "sentence2"],
                ["captions", "MSRvid", "2012", "1", "5.000", 'He said "no', "A jet."],
                ["captions", "MSRvid", "2012", "2", "0", "A plane.", "Rice"],
            ]
        },
        texts={"left": ['He said "no', "A plane."], "right": ["A jet.", "Rice"]},
        targets={"score": [5, 0]},
        subset=["MSRvid", "MSRvid"],
        faulty=["captions", "", "2012", "3", "7", "", " "],
        reasons=["score: expected a number from 0 to 5, got '7'", *empty("sentence1", "sentence2", "subset")],
        splits=("train", "dev", "test"),
    ),
    Made(
        "texts",
        {"a.txt": ["One.", 'Two, "2"\tx']},
        texts={"text": ["One.", 'Two, "2"\tx']},
        faulty=" ",
        reasons=["text: the text is empty"],
    ),
    Made(
        "triplets",
        {"nli.csv": ["sent0,sent1,hard_neg", '"a, b",c,d']},  # the form that SimCSE trains on
        texts={"left": ["a, b"], "right": ["c"], "negative": ["d"]},
        faulty=", ,",
        reasons=empty("hard_neg", "sent0", "sent1"),
        options={"columns": {"anchor": "sent0", "positive": "sent1", "negative": "hard_neg"}},
    ),
    Made(
        "wiki1m",
        {"wiki/wiki_sentences.txt.gz": ["A first one.", "And  a second."]},
        texts={"text": ["A first one.", "And  a second."]},
        faulty=" ",
        reasons=["text: the text is empty"],
    ),
]
