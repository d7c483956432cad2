from pathlib import Path

import pytest
from small_models import put
from transformers import BertTokenizer

from embedrun.backbone import files, pretrained
from embedrun.errors import DataError

MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def of_words(folder: Path, words: list[str]) -> Path:
    BertTokenizer(vocab={word: place for place, word in enumerate(MARKS + words)}).save_pretrained(folder)
    return folder


def test_a_tokenizer_that_was_cut_off_is_named(tmp_path):
    folder = put(tmp_path / "m", "bert")
    text = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(text[: len(text) // 2])
    with pytest.raises(DataError, match=f"{folder}: cannot be read as a tokenizer: "):
        pretrained.read(folder, attention="sdpa")


@pytest.mark.parametrize("words", [[], [f"[unused{number}]" for number in range(9)]])
def test_a_tokenizer_that_knows_none_of_its_own_words_is_refused(tmp_path, words):
    with pytest.raises(DataError, match="every word is unknown"):
        pretrained.read_tokenizer(of_words(tmp_path, words), None)


def test_a_tokenizer_of_another_model_is_refused(tmp_path):
    folder = of_words(tmp_path, ["a", "b", "##c", "d"])  # 5 marks before them
    assert len(pretrained.read_tokenizer(folder, 9)) == 9
    with pytest.raises(DataError, match="its tokenizer has 9 tokens, and the model has vectors for 19:"):
        pretrained.read_tokenizer(folder, 19)


def test_a_folder_without_tokenizer_files_is_refused(tmp_path):
    folder = put(tmp_path / "m", "roberta")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(DataError, match=rf"{folder} has no tokenizer, or half of one"):
        pretrained.read(folder, attention="sdpa")
    (folder / "vocab.json").write_text("{}")
    assert files.lacking(folder) is not None
    (folder / "merges.txt").write_text("x")
    assert files.lacking(folder) is None
