"""A text file of word vectors becomes a model whose texts are averages of their words."""

from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("_alone")
VECTORS = "4 2\na 1 0\ndog 0 2\n. 0 0.5\nat home 3 3\n"  # with word2vec's first line; a word may have a blank


def test_a_text_has_the_mean_of_its_word_vectors(embedrun):
    Path("vectors.txt").write_text(VECTORS)
    assert embedrun("export", "vectors.txt", "static").code == 0
    Path("texts.txt").write_text("A dog.\na unheard dog\nunheard\n")
    ended = embedrun("encode", "static", "texts.txt", "-o", "out.npy")
    assert ended.code == 0, ended.err
    # A, dog and the point over three; with an unknown word the sum is divided by one more.
    assert np.load("out.npy") == pytest.approx(np.array([[1, 2.5], [1, 2], [0, 0]]) / [[3], [3], [1]])


def test_a_line_of_another_form_and_options_of_a_model_are_refused(embedrun):
    Path("vectors.txt").write_text(VECTORS + "cat 1\n")
    ended = embedrun("export", "vectors.txt", "static")
    assert (ended.code, Path("static").exists()) == (3, False)
    assert "vectors.txt, line 6: expected a word and 2 numbers" in ended.err
    ended = embedrun("export", "vectors.txt", "static", "--merge-lora")
    assert ended.code == 2
    assert "--merge-lora: is for a model, and vectors.txt is a file of word vectors" in ended.err
