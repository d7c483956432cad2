"""Data sets that are one file of pairs a split."""

import pytest

from embedrun.dataset.published import Mrpc, Senteval
from embedrun.errors import DataError


def pair(label: object, first: str = "why", second: str = "because") -> dict:
    return {"sentence1": first, "sentence2": second, "label": label}


def test_mrpc_is_read_where_senteval_has_it_and_only_whole(store, write):
    path = write("senteval/mrpc/test.jsonl.gz", [pair(1)] * 1147 + [pair(0)] * 578)
    assert Mrpc().read("test", store).targets["score"].sum() == 1147
    write("senteval/mrpc/test.jsonl.gz", [pair(1)] * 1147 + [pair(0)] * 577)
    with pytest.raises(DataError, match=f"{path}: 1724 rows, the published data set has 1725"):
        Mrpc().read("test", store)


def joined(store, write) -> list[dict]:
    """A training file of MRPC as SentEval has it, with the published labels; GLUE's dev pairs among them."""
    rows = [pair(int(row < 2753), f"First , {row} .", f"Second {row}") for row in range(4076)]
    write("senteval/mrpc/train.jsonl.gz", rows)
    return rows


GLUE = [*range(100, 379), *range(3000, 3129)]  # 279 paraphrases and 129 others, somewhere in the file


def test_the_dev_split_of_mrpc_is_glues_found_by_text_whatever_its_place_and_blanks(store, write):
    rows = joined(store, write)
    dev = [pair(rows[row]["label"], f"``First, {row}. ''", f"Second {row}") for row in GLUE]
    write("senteval/mrpc/mrpc_dev.jsonl.gz", dev[::-1])
    mrpc = Mrpc(dev_split=True)
    found = {split: mrpc.read(split, store) for split in ("train", "dev")}
    assert list(found["dev"].texts["right"]) == [f"Second {row}" for row in GLUE]
    assert found["dev"].targets["score"].sum() == 279
    assert len(found["train"]) == 4076 - 408
    assert not {*found["train"].texts["right"]} & {*found["dev"].texts["right"]}
    assert (found["dev"].name, mrpc.remark(store)) == ("mrpc", "")
    # SentEval, and a run of before there was this split, train on all of them.
    assert Senteval(task="mrpc").files("train", store) == ["senteval/mrpc/train.jsonl.gz"]
    assert Mrpc().splits == ("train", "test")
    assert len(Mrpc().read("train", store)) == 4076


def test_without_glues_file_408_pairs_of_mrpc_are_drawn_and_called_so(store, write):
    joined(store, write)
    mrpc = Mrpc(dev_split=True)
    train, dev = mrpc.read("train", store), mrpc.read("dev", store)
    assert (len(train), len(dev), dev.name) == (3668, 408, "mrpc_drawn")
    assert dev.fingerprint() == mrpc.read("dev", store).fingerprint()
    assert not {*train.texts["left"]} & {*dev.texts["left"]}
    assert "are not GLUE's" in mrpc.remark(store)
    assert Mrpc().remark(store) == ""
