import gzip
from pathlib import Path

import numpy as np
import pytest
from finished_runs import ENVIRONMENT, finished

from embedrun.dataset.pairs import Pairs
from embedrun.dataset.published import Stsb
from embedrun.dataset.split import hold_out
from embedrun.report.pairs import scored_pairs
from embedrun.runs.reading import RunFiles
from embedrun.store import Store

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

HEADER = "genre\tsubset\tyear\tid\tscore\tsentence1\tsentence2"
ROWS = ["g\ts\t2012\t1\t5.0\tA plane.\tA jet.", "g\ts\t2012\t2\t0.0\tRice.\tA dog."]
COLUMNS = {"gold": [5.0, 0.0], "score": [0.25, 0.75]}


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with two pairs of STS-B test in it, and the fingerprint of these rows."""
    folder = tmp_path / "data"
    (folder / "stsb").mkdir(parents=True)
    text = "\n".join([HEADER, *ROWS]) + "\n"
    (folder / "stsb" / "test.tsv.gz").write_bytes(gzip.compress(text.encode()))
    monkeypatch.setenv("EMBEDRUN_DATA", str(folder))
    return folder


def run(predictions: dict, data: dict | None = None, **more) -> RunFiles:
    environment = ENVIRONMENT | {"data": data or {}}
    return RunFiles.read(finished("one", predictions=predictions, environment=environment, **more))


def test_the_texts_come_from_the_data_folder_where_its_rows_are_those_of_the_run(data):
    fingerprint = Stsb().read("test", Store(data)).fingerprint()
    (found,), remarks = scored_pairs(run({"stsb": COLUMNS}, {"stsb/test": fingerprint}))
    assert (found.name, found.key, found.missing, remarks) == ("stsb", "sts/stsb/spearman", "", [])
    assert found.texts == (["A plane.", "Rice."], ["A jet.", "A dog."])
    np.testing.assert_array_equal(found.predicted, [0.25, 0.75])


def test_the_texts_of_rows_that_were_held_out_come_from_the_training_file():
    rows = "".join(f"one {row},two {row},{row}\n" for row in range(400))
    Path("mine.csv").write_text(f"text1,text2,score\n{rows}", encoding="utf-8")
    dev = hold_out(Pairs(path="mine.csv").read("train", Store(Path("nowhere"))), 7).dev
    assert dev is not None
    gold = dev.targets["score"].tolist()
    options = {"name": "pairs", "path": "mine.csv", "dev": None, "split_seed": 7}
    read = {"pairs/dev": dev.fingerprint()}
    columns = {"gold": gold, "score": gold}
    (found,), _ = scored_pairs(run({"pairs_dev": columns}, read, config={"dataset": options}))
    assert found.texts == ([f"one {row:.0f}" for row in gold], [f"two {row:.0f}" for row in gold])


@pytest.mark.parametrize("read", [{}, {"stsb/test": "other"}, {"stsb/dev": "same"}])
def test_rows_that_the_run_did_not_read_give_no_texts(data, read):
    fingerprint = Stsb().read("test", Store(data)).fingerprint()
    known = {key: fingerprint if value == "same" else value for key, value in read.items()}
    (found,), _ = scored_pairs(run({"stsb": COLUMNS}, known))
    assert found.texts is None
    assert "not those that this run read" in found.missing
