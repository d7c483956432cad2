"""Sentences in, pairs out, and why an answer is refused."""

import pytest

from embedrun.curation.answers import parse, sift
from embedrun.curation.generate import column_of
from embedrun.curation.llm import Answer
from embedrun.errors import DataError
from embedrun.rows import Rows


def parsed(text: str, size: int = 9, **more) -> tuple[list[str], list[str]]:
    """Sentences, and the reasons of the rejects."""
    sentences, rejects = parse(Answer(text, **more), size)
    return sentences, [reason for reason, _ in rejects]


@pytest.mark.parametrize(
    "text",
    [
        "1. A cat sits.\n2. The cat, it sits.",
        "(1) A cat sits.\n(2) The cat, it sits.",
        "1: A cat sits.\r\n2: The cat, it sits.\r\n",
        "- A cat sits.\n- The cat, it sits.",
        '1. "A cat sits."\n2. “The cat, it sits.”',
        '["A cat sits.", "The cat, it sits."]',
        '{"sentences": ["A cat sits.", "The cat, it sits."]}',
        '[{"sentence": "A cat sits."}, {"sentence": "The cat, it sits."}]',
        '```json\n["A cat sits.", "The cat, it sits."]\n```',
        'Here is the JSON:\n\n```json\n["A cat sits.", "The cat, it sits."]\n```\nMore?',
        "<think>\n1. Shall I?\n2. Yes.\n</think>\n1. A cat sits.\n2. The cat, it sits.",
    ],
)
def test_numbered_bulleted_and_json_lists_give_their_sentences_and_no_reject(text):
    assert parsed(text) == (["A cat sits.", "The cat, it sits."], [])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the answer is empty"),
        ("<think>1. A cat.</think>", "the answer is empty"),
        ("A cat sits.", "the answer has no numbered, bulleted or JSON list"),
        ("1.5 million cats sit.", "the answer has no numbered, bulleted or JSON list"),
        ('["A cat sits.", "The cat', "the answer is not JSON"),
        ('["A cat sits.", 2]', "the answer is JSON, and not a list of texts"),
        ('{"positive": ["A"], "negative": ["B"]}', "the answer is JSON, and not a list of texts"),
    ],
)
def test_an_answer_that_is_no_list_is_rejected_whole_with_the_reason(text, reason):
    assert parsed(text) == ([], [reason])


def test_lines_around_the_items_are_rejected_one_by_one():
    sentences, rejects = parse(
        Answer("Sure! Here are two:\n1. A cat sits.\n- not this\n2. It sits.\nAnything else?"), 9
    )
    assert sentences == ["A cat sits.", "It sits."]
    reason = "a line that is no item of the list"
    assert rejects == [
        (reason, "Sure! Here are two:"),
        (reason, "- not this"),
        (reason, "Anything else?"),
    ]


def test_the_last_item_of_an_answer_that_was_cut_off_is_rejected():
    sentences, rejects = parse(Answer("1. A cat sits.\n2. The cat, it si", cut=True), 9)
    assert sentences == ["A cat sits."]
    assert rejects == [("cut off at the longest length", "The cat, it si")]


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ('"A" and "B"', '"A" and "B"'),
        ("«A cat sits.»", "A cat sits."),
        ("**A cat**", "A cat"),
        ("**A** or **B**", "**A** or **B**"),
    ],
)
def test_only_quotes_and_emphasis_around_the_whole_item_are_taken_off(item, text):
    assert parsed(f"1. {item}") == ([text], [])


# Of "a plane is taking off ." the words "taking", "off" and "." are not in the other; "a", "plane", "is" are.
SENTENCE, OTHER = "a plane is taking off .", "a plane is landing"


def test_a_column_of_a_data_set_is_chosen_by_its_name():
    rows = Rows(name="x", split="train", form="pair", texts={"left": ["a"], "right": ["b"]})
    assert column_of(rows, None) == column_of(rows, "text1") == ["a"]
    assert column_of(rows, "text2") == ["b"]
    with pytest.raises(DataError, match=r"no 'text3'; did you mean 'text\d'\? \(it has: text1, text2\)"):
        column_of(rows, "text3")
    texts = {"left": ["a"], "right": ["b"], "negative_1": ["c"], "negative_2": ["d"]}
    assert column_of(Rows(name="x", split="train", form="triplet", texts=texts), "negative_2") == ["d"]


TEXT = "A plane is taking off."


def listed(*items: str) -> Answer:
    return Answer("\n".join(f"- {item}" for item in items))


def sifted(*answers: tuple[str, Answer, Answer], words: int | None = None):
    named = [
        (llm, kind, answer)
        for llm, same, opposite in answers
        for kind, answer in (("positive", same), ("negative", opposite))
    ]
    return sift(TEXT, named, size=5, words=words)


def test_the_pairs_of_several_models_are_joined_and_duplicates_count_once():
    pairs, rejects = sifted(
        ("a", listed("It flies."), listed("It lands.")),
        ("b", listed("it  flies.", "Up it goes."), listed("It lands.", "It lands.")),
    )
    assert [(row["text2"], row["llm"]) for row in pairs] == [
        ("It flies.", "a"),
        ("It lands.", "a"),
        ("Up it goes.", "b"),
    ]
    assert [(row["llm"], row["kind"], row["text"], row["reason"]) for row in rejects] == [
        ("b", "positive", "it  flies.", "given before by a"),
        ("b", "negative", "It lands.", "given before by a"),
        ("b", "negative", "It lands.", "given before by a"),
    ]


def test_what_is_given_as_both_kinds_is_neither():
    pairs, rejects = sifted(
        ("a", listed("It flies.", "It waits."), listed("It lands.")),
        ("b", listed("It rises."), listed("it waits.")),
    )
    assert [row["text2"] for row in pairs] == ["It flies.", "It lands.", "It rises."]
    assert {row["reason"] for row in rejects} == {"given both as a positive and as a negative"}
    assert len(rejects) == 2


def test_the_filter_drops_negatives_alone():
    # "A plane is landing." lacks "taking" and "off." of the sentence; "Nothing here moves." lacks all five.
    answer = listed("A plane is landing.", "Nothing here moves.")
    pairs, rejects = sifted(("a", listed("A plane is rising."), answer), words=5)
    assert [row["text2"] for row in pairs] == ["A plane is rising.", "Nothing here moves."]
    assert [row["reason"] for row in rejects] == ["a negative in which fewer than 5 words are missing"]
    assert len(sifted(("a", listed("A plane is rising."), answer), words=2)[0]) == 3
