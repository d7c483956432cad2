from embedrun.curation.generation.llm import SCORES, TEMPLATES, prompt


def test_the_prompt_for_positives_is_the_papers_with_its_own_half_of_each_choice():
    assert prompt("positive", "A plane is taking off", 3) == (
        "You are a highly smart same-meaning sentence-generating system. Your job is to generate 3 "
        "synonymous sentences of a given input sentence. Input sentence: A plane is taking off. Output:"
    )


def test_the_prompt_for_negatives_is_the_papers_with_its_own_half_of_each_choice():
    assert prompt("negative", "A plane is taking off", 3) == (
        "You are a highly smart opposite-meaning sentence-generating system. Your job is to generate 3 "
        "antonym sentences of a given input sentence. Input sentence: A plane is taking off. Output:"
    )


def test_a_sentence_with_braces_is_put_in_as_it_is():
    assert "Input sentence: {size} of {text}. Output" in prompt("positive", "{size} of {text}", 1)


def test_positives_score_above_negatives():
    assert SCORES == {"positive": 1, "negative": 0}
    assert list(TEMPLATES) == list(SCORES)
