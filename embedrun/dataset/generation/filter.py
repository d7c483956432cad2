"""Negatives that differ too little from their sentence."""


def missing_words(text1: str, text2: str) -> int:
    """Number of different words of `text1` that `text2` does not have; a word ends at white space."""
    return len(set(text1.split()) - set(text2.split()))


def differs_enough(text1: str, text2: str, words: int) -> bool:
    """Whether a negative pair is kept.

    Source: the first released trainer of Li and Li 2024 (AnglE), which leaves a pair with score 0 out if
    fewer than 5 different words of its first sentence are missing from the second, for the sentences of
    ChatGPT and for those of all three models together; the paper does not mention it. Letter case and
    punctuation count, as there, so "cat" and "cat." are two words. No negative of a shorter sentence is kept.

    Args:
        text1: the input sentence.
        text2: its negative.
        words: at least so many words must be missing.
    """
    return missing_words(text1, text2) >= words
