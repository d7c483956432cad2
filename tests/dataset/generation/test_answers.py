import pytest

from embedrun.curation.generation.answers import parse
from embedrun.curation.generation.llm import Answer


def parsed(text: str, size: int = 9, **more) -> tuple[list[str], list[str]]:
    """Sentences, and the reasons of the rejects."""
    found = parse(Answer(text, **more), size)
    return found.sentences, [reason for reason, _ in found.rejects]


@pytest.mark.parametrize(
    "text",
    [
        "1. A cat sits.\n2. The cat, it sits.",
        "1) A cat sits.\n\n2) The cat, it sits.",
        "(1) A cat sits.\n(2) The cat, it sits.",
        "1: A cat sits.\r\n2: The cat, it sits.\r\n",
        "  1.   A cat sits.  \n 2. \tThe cat, it sits.",
        "- A cat sits.\n- The cat, it sits.",
        "* A cat sits.\n* The cat, it sits.",
        "• A cat sits.\n• The cat, it sits.",
        '1. "A cat sits."\n2. “The cat, it sits.”',
        '["A cat sits.", "The cat, it sits."]',
        '{"sentences": ["A cat sits.", "The cat, it sits."]}',
        '{"1": "A cat sits.", "2": "The cat, it sits."}',
        '[{"sentence": "A cat sits."}, {"sentence": "The cat, it sits."}]',
        '```json\n["A cat sits.", "The cat, it sits."]\n```',
        '```\n{"output": [\n  "A cat sits.",\n  "The cat, it sits."\n]}\n```\n',
        'Here is the JSON:\n\n```json\n["A cat sits.", "The cat, it sits."]\n```\nMore?',
        "```\n1. A cat sits.\n2. The cat, it sits.\n```",
        "<think>\n1. Shall I?\n2. Yes.\n</think>\n1. A cat sits.\n2. The cat, it sits.",
    ],
)
def test_numbered_bulleted_and_json_lists_give_their_sentences_and_no_reject(text):
    assert parsed(text) == (["A cat sits.", "The cat, it sits."], [])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the answer is empty"),
        ("  \n ", "the answer is empty"),
        ("<think>1. A cat.</think>", "the answer is empty"),
        ("A cat sits.", "the answer has no numbered, bulleted or JSON list"),
        ("A cat sits.\nThe cat, it sits.", "the answer has no numbered, bulleted or JSON list"),
        ("1.5 million cats sit.", "the answer has no numbered, bulleted or JSON list"),
        ("-5 degrees", "the answer has no numbered, bulleted or JSON list"),
        ('["A cat sits.", "The cat', "the answer is not JSON"),
        ('["A cat sits."] and more', "the answer is not JSON"),
        ("[" * 100_000, "the answer is not JSON"),
        ('["A cat sits.", 2]', "the answer is JSON, and not a list of texts"),
        ('{"positive": ["A"], "negative": ["B"]}', "the answer is JSON, and not a list of texts"),
        ('[{"a": "A", "b": "B"}]', "the answer is JSON, and not a list of texts"),
        ("[[]]", "the answer is JSON, and not a list of texts"),
    ],
)
def test_an_answer_that_is_no_list_is_rejected_whole_with_the_reason(text, reason):
    assert parsed(text) == ([], [reason])


def test_lines_around_the_items_are_rejected_one_by_one():
    found = parse(Answer("Sure! Here are two:\n1. A cat sits.\n- not this\n2. It sits.\nAnything else?"), 9)
    assert found.sentences == ["A cat sits.", "It sits."]
    reason = "a line that is no item of the list"
    assert found.rejects == [
        (reason, "Sure! Here are two:"),
        (reason, "- not this"),
        (reason, "Anything else?"),
    ]


def test_an_item_that_goes_on_below_is_no_whole_sentence():
    found = parse(Answer("1. A cat\n   sits.\n2. It sits."), 9)
    assert found.sentences == ["It sits."]
    assert found.rejects == [("an item of several lines", "A cat\n   sits.")]


def test_the_last_item_of_an_answer_that_was_cut_off_is_rejected():
    found = parse(Answer("1. A cat sits.\n2. The cat, it si", cut=True), 9)
    assert found.sentences == ["A cat sits."]
    assert found.rejects == [("cut off at the longest length", "The cat, it si")]


def test_json_that_was_cut_off_is_rejected_whole():
    assert parsed('```json\n["A cat sits.", "The ca', cut=True)[0] == []


def test_no_more_sentences_than_were_asked_for():
    found = parse(Answer("1. a\n2. b\n3. c"), 2)
    assert found.sentences == ["a", "b"]
    assert found.rejects == [("more items than were asked for", "c")]


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ('""', "the text is empty"),
        ("a \x1b[2J b", "a control character in the text"),
        ("a\tb", "a control character in the text"),
    ],
)
def test_an_item_that_can_be_no_sentence_is_rejected_and_the_others_stay(item, reason):
    assert parsed(f"1. {item}\n2. It sits.") == (["It sits."], [reason])


def test_half_a_surrogate_pair_of_a_json_escape_is_rejected():
    sentences, (reason,) = parsed('["A cat.", "\\ud800"]')
    assert sentences == ["A cat."]
    assert "half a surrogate pair" in reason


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ('"A" and "B"', '"A" and "B"'),
        ("'tis the cat's", "'tis the cat's"),
        ("'A cat sits.'", "A cat sits."),
        ("«A cat sits.»", "A cat sits."),
        ("**A cat**", "A cat"),
        ('*"A cat sits."*', "A cat sits."),
        ("**A** or **B**", "**A** or **B**"),
    ],
)
def test_only_quotes_and_emphasis_around_the_whole_item_are_taken_off(item, text):
    assert parsed(f"1. {item}") == ([text], [])


def test_a_refused_prompt_is_a_reject_with_the_reason():
    assert parse(Answer("", refused="the endpoint's content_filter"), 2).rejects == [
        ("no answer: the endpoint's content_filter", "")
    ]


def test_two_fenced_blocks_are_ambiguous_and_rejected():
    assert parsed('```\n["A"]\n```\n```\n["B"]\n```') == (
        [],
        ["the answer has no numbered, bulleted or JSON list"],
    )


def test_a_long_line_of_white_space_takes_no_time():
    assert parsed(" " * 200_000 + "x" + "\t" * 200_000 + "y")[0] == []
