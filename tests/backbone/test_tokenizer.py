import json
import shutil
from pathlib import Path

import pytest
from small_models import FAMILIES, put
from tokenizers import Tokenizer, models
from transformers import BertTokenizer, ByT5Tokenizer, PreTrainedTokenizerFast

from embedrun.backbone import pretrained
from embedrun.backbone import tokenizer as tokenizers
from embedrun.backbone.scratch import make
from embedrun.config import ScratchConfig
from embedrun.errors import DataError

MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROWS = {"bert": 120, "roberta": 380, "modernbert": 380, "llama": 400, "qwen2": 380}


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    return {family: put(tmp_path_factory.mktemp("models") / family, family) for family in FAMILIES}


def of_words(folder: Path, words: list[str]) -> Path:
    BertTokenizer(vocab={word: place for place, word in enumerate(MARKS + words)}).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("gone", ["tokenizer.json", "tokenizer*"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_folder_without_its_tokenizer_is_refused(tmp_path, folders, family, gone):
    folder = shutil.copytree(folders[family], tmp_path / family)
    for path in folder.glob(gone):
        path.unlink()
    with pytest.raises(
        DataError, match=rf"{folder} has no tokenizer: it needs tokenizer\.json, or vocab\.txt"
    ):
        pretrained.read(folder, attention="sdpa")


def test_a_vocabulary_without_its_merges_is_refused(tmp_path, folders):
    folder = shutil.copytree(folders["roberta"], tmp_path / "m")
    words = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    for path in folder.glob("tokenizer*"):
        path.unlink()
    (folder / "vocab.json").write_text(json.dumps(words))
    with pytest.raises(DataError, match=rf"{folder} has half of a tokenizer: merges\.txt is missing"):
        pretrained.read(folder, attention="sdpa")


def test_a_tokenizer_that_was_cut_off_is_named(tmp_path, folders):
    folder = shutil.copytree(folders["bert"], tmp_path / "m")
    text = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(text[: len(text) // 2])
    with pytest.raises(DataError, match=f"{folder}: its tokenizer cannot be read: .*; copy or download"):
        pretrained.read(folder, attention="sdpa")


def test_a_vocabulary_that_was_cut_off_is_refused(tmp_path, folders):
    folder = shutil.copytree(folders["bert"], tmp_path / "m")
    for path in folder.glob("tokenizer*"):
        path.unlink()
    (folder / "vocab.txt").write_text("\n".join([*MARKS, "a", "dog"]))
    with pytest.raises(DataError, match="its tokenizer has 7 tokens, and the model has vectors for 120"):
        pretrained.read(folder, attention="sdpa")


@pytest.mark.parametrize(("rows", "taken"), [(16, True), (17, False)])
def test_half_of_a_models_rows_must_have_a_token(tmp_path, rows, taken):
    folder = of_words(tmp_path, ["a", "dog", "runs"])  # 8 tokens
    if taken:
        assert len(tokenizers.read(folder, rows)) == 8
    else:
        with pytest.raises(DataError, match="8 tokens, and the model has vectors for 17"):
            tokenizers.read(folder, rows)


@pytest.mark.parametrize("words", [[], [f"[unused{number}]" for number in range(9)]])
def test_a_tokenizer_that_knows_none_of_its_own_words_is_refused(tmp_path, words):
    with pytest.raises(DataError, match="every word is unknown"):
        tokenizers.read(of_words(tmp_path, words), None)


def test_a_tokenizer_that_makes_nothing_of_any_text_is_refused(tmp_path):
    empty = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), eos_token="<|end|>")
    assert empty.unk_token_id is None
    empty.save_pretrained(tmp_path)
    with pytest.raises(DataError, match="every word is unknown"):
        tokenizers.read(tmp_path, None)


@pytest.mark.parametrize("family", FAMILIES)
def test_small_tokenizers_of_every_family_are_read(folders, family):
    assert len(tokenizers.read(folders[family], ROWS[family])) == ROWS[family]


@pytest.mark.parametrize("text", ["a", "狗 跑", "собака бежит", "عربي"])
def test_a_model_from_nothing_is_read_again_whatever_its_script(tmp_path, text):
    model, made = make(ScratchConfig(vocabulary=100, layers=1, width=8), [text], attention="sdpa")
    model.save_pretrained(tmp_path)
    made.save_pretrained(tmp_path)
    _, found = pretrained.read(tmp_path, attention="sdpa")
    assert found.get_vocab() == made.get_vocab()


def test_bytes_need_no_files(tmp_path):
    ByT5Tokenizer().save_pretrained(tmp_path)
    ids = tokenizers.read(tmp_path, 384)("ab", add_special_tokens=False)["input_ids"]
    assert ids[1] - ids[0] == 1


def test_the_letters_of_canine_are_known_by_its_configuration(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "canine"}')
    assert tokenizers.lacking(tmp_path) is None


def test_a_word_beyond_the_models_vectors_is_refused_and_a_mark_or_unused_word_is_not(tmp_path):
    folder = of_words(tmp_path / "a", ["a", "b", "##c", "d"])  # 5 marks before them
    whole = BertTokenizer.from_pretrained(folder)
    whole.add_tokens(["<pad>"], special_tokens=True)
    whole.save_pretrained(folder)
    assert len(tokenizers.read(folder, 9)) == 10  # the mark, 9, is beyond
    with pytest.raises(DataError, match="gives texts with 'd' the token 8, and the model has vectors for 8:"):
        tokenizers.read(folder, 8)
    unused = of_words(tmp_path / "b", ["a", "b", "un used"])
    assert len(tokenizers.read(unused, 7)) == 8  # no text has a token with a blank
