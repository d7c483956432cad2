"""What a language model is asked for one sentence."""

# Li and Li 2024 (AnglE), Figure 4, in the wording of the later versions of the paper: one text with
# "same-meaning/opposite-meaning" and "synonymous/antonym", of which each kind takes its own word.
TEMPLATES = {
    "positive": (
        "You are a highly smart same-meaning sentence-generating system. Your job is to generate {size} "
        "synonymous sentences of a given input sentence. Input sentence: {text}. Output:"
    ),
    "negative": (
        "You are a highly smart opposite-meaning sentence-generating system. Your job is to generate {size} "
        "antonym sentences of a given input sentence. Input sentence: {text}. Output:"
    ),
}
# The score of a pair of the input sentence and what the prompt of that kind gave.
SCORES = {"positive": 1, "negative": 0}


def prompt(kind: str, text: str, size: int) -> str:
    """The prompt for one sentence, as the paper prints it; the full stop after the text is part of it.

    Args:
        kind: a key of `TEMPLATES`.
        text: the input sentence, put in as it is.
        size: sentences to ask for.
    """
    return TEMPLATES[kind].format(size=size, text=text)
