from embedrun.curation.generation.answers import sift
from embedrun.curation.generation.llm import Answer

TEXT = "A plane is taking off."


def listed(*items: str) -> Answer:
    return Answer("\n".join(f"- {item}" for item in items))


def sifted(*answers: tuple[str, Answer, Answer], words: int | None = None):
    named = [(llm, {"positive": same, "negative": opposite}) for llm, same, opposite in answers]
    return sift(TEXT, named, size=5, words=words)


def test_positives_score_1_and_negatives_0_and_each_pair_names_its_model():
    found = sifted(("a", listed("It flies.", "Up it goes."), listed("It lands.")))
    assert found.rejects == []
    assert found.pairs == [
        {"text1": TEXT, "text2": "It flies.", "score": 1, "llm": "a"},
        {"text1": TEXT, "text2": "Up it goes.", "score": 1, "llm": "a"},
        {"text1": TEXT, "text2": "It lands.", "score": 0, "llm": "a"},
    ]


def test_the_pairs_of_several_models_are_joined_and_duplicates_count_once():
    found = sifted(
        ("a", listed("It flies."), listed("It lands.")),
        ("b", listed("it  flies.", "Up it goes."), listed("It lands.", "It lands.")),
    )
    assert [(row["text2"], row["llm"]) for row in found.pairs] == [
        ("It flies.", "a"),
        ("It lands.", "a"),
        ("Up it goes.", "b"),
    ]
    assert [(row["llm"], row["kind"], row["text"], row["reason"]) for row in found.rejects] == [
        ("b", "positive", "it  flies.", "given before by a"),
        ("b", "negative", "It lands.", "given before by a"),
        ("b", "negative", "It lands.", "given before by a"),
    ]


def test_what_is_given_as_both_kinds_is_neither():
    found = sifted(
        ("a", listed("It flies.", "It waits."), listed("It lands.")),
        ("b", listed("It rises."), listed("it waits.")),
    )
    assert [row["text2"] for row in found.pairs] == ["It flies.", "It lands.", "It rises."]
    assert {row["reason"] for row in found.rejects} == {"given both as a positive and as a negative"}
    assert len(found.rejects) == 2


def test_the_sentence_itself_is_no_pair():
    found = sifted(("a", listed("a plane is  taking off."), listed("It lands.")))
    assert [row["text2"] for row in found.pairs] == ["It lands."]
    assert [row["reason"] for row in found.rejects] == ["the input sentence itself"]


def test_the_filter_drops_negatives_alone():
    # "A plane is landing." lacks "taking" and "off." of the sentence; "Nothing here moves." lacks all five.
    answer = listed("A plane is landing.", "Nothing here moves.")
    found = sifted(("a", listed("A plane is rising."), answer), words=5)
    assert [row["text2"] for row in found.pairs] == ["A plane is rising.", "Nothing here moves."]
    assert [row["reason"] for row in found.rejects] == ["a negative in which fewer than 5 words are missing"]
    assert len(sifted(("a", listed("A plane is rising."), answer), words=2).pairs) == 3


def test_what_is_no_list_is_kept_with_its_reason():
    found = sifted(("a", Answer("I cannot."), listed("It lands.")))
    assert found.rejects == [
        {
            "text1": TEXT,
            "llm": "a",
            "kind": "positive",
            "reason": "the answer has no numbered, bulleted or JSON list",
            "text": "I cannot.",
        }
    ]
