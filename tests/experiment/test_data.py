"""What a run knows of its data: fingerprints, skipped rows, texts that it has seen.

Which model files a run began with.
"""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from scipy.stats import spearmanr

from embedrun.config import BackboneConfig, TeacherConfig
from embedrun.experiment.contamination import Contamination
from embedrun.experiment.data import digest, of_models, write_skipped
from embedrun.rows import Rows, Skipped
from embedrun.training.step import Stepper

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

SEEN = 4  # of the twelve test rows below


def rows(name: str, split: str, *pairs: str) -> Rows:
    """Pairs of single letters, `ab` for the texts a and b."""
    texts = {"left": [pair[0] for pair in pairs], "right": [pair[1] for pair in pairs]}
    return Rows(name, split, "pair", texts)


@pytest.fixture
def found() -> Contamination:
    sts = {"sts12": rows("sts12", "test", "ba", "ay", "pq", "zz"), "stsb": rows("stsb", "test", "kl")}
    dev = {"heldout": rows("mine", "dev", "cd", "mn")}
    return Contamination.find([rows("mine", "train", "ab", "cd", "ef")], {"sts": sts, "dev": dev})


def read(path: str) -> dict:
    return json.loads(Path(path).read_text(encoding="utf-8"))


def pairs(kind: str, count: int) -> list[str]:
    return [f"a {kind} question number {i},an answer {i % 5} to {kind},{i % 4}" for i in range(count)]


def write(name: str, lines: list[str]) -> None:
    Path(name).write_text("\n".join(["text1,text2,score", *lines]) + "\n", encoding="utf-8")


def test_a_run_warns_writes_the_table_and_scores_without_the_shared_pairs_too(embedrun, options):
    train, test = pairs("train", 24), pairs("test", 12 - SEEN)
    swapped = [",".join([line.split(",")[1].upper(), line.split(",")[0], "2.5"]) for line in train[:SEEN]]
    write("train.csv", train)
    write("dev.csv", [*pairs("dev", 6), *test[:2]])
    write("test.csv", [*test, *swapped])
    ended = embedrun(
        "train",
        *(option for option in options if not option.startswith("dataset")),
        "dataset=pairs",
        "dataset.path=train.csv",
        "dataset.dev=dev.csv",
        "dataset.test=test.csv",
        "loss.terms.in_batch_negatives.positive_from=3",
        "hydra.run.dir=run",
    )
    assert ended.code == 0, ended.err
    said = [line for line in ended.err.splitlines() if "contamination.json" in line]
    assert said == [
        "warning: 33.3 % of the test pairs of pairs (4 of 12) are in the training data; "
        "see contamination.json",
        "note: 16.7 % of the test pairs of pairs (2 of 12) are in the dev data, "
        "which selects the checkpoint; see contamination.json",
    ]
    assert all(line in Path("run/run.log").read_text(encoding="utf-8") for line in said)
    table = read("run/contamination.json")
    assert table["training"]["tasks"] == {
        "heldout": {"rows": 12, "pairs": SEEN},
        "dev": {"rows": 8, "pairs": 0},
    }
    assert table["selection"]["tasks"] == {"heldout": {"rows": 12, "pairs": 2}}

    results = read("run/results.json")
    counts = {"heldout/heldout": 12, "heldout/heldout/clean": 8, "dev/heldout": 8, "dev/heldout/clean": 8}
    assert counts.items() <= results["counts"].items()
    predictions = pq.read_table("run/predictions/pairs_test.parquet").to_pydict()
    for key, kept in (("pairs_test/spearman", 12), ("pairs_test/spearman_clean", 12 - SEEN)):
        by_hand = spearmanr(predictions["score"][:kept], predictions["gold"][:kept]).statistic  # type: ignore[attr-defined]
        assert results["scores"][key] == pytest.approx(100 * by_hand)
        assert key in results["baseline"]
        assert key in ended.out
    assert results["main"]["name"] == "pairs_test/spearman"
    assert results["scores"]["pairs_dev/spearman_clean"] == results["scores"]["pairs_dev/spearman"]
    assert "pairs_dev/spearman_clean" not in ended.out  # the same number


TEACHER = ("loss=mse_teacher", "training.teachers=[{name: teacher}]")


def spoil(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")


def test_the_model_and_every_teacher_have_a_fingerprint_and_a_model_from_nothing_has_none(tiny, tmp_path):
    model = str(shutil.copytree(tiny.path / "model", tmp_path / "model"))
    teachers = [TeacherConfig(name=str(tiny.path))]
    found = of_models(BackboneConfig(name=model), teachers)
    assert found == {f"model {name}": digest(tiny.path / "model") for name in (model, str(tiny.path))}
    assert of_models(BackboneConfig(name=None), None) == {}


def test_a_teacher_that_is_another_one_now_is_refused(embedrun, options, tiny, monkeypatch):
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    shutil.copytree(tiny.path / "model", "teacher")
    Path("teacher/manifest.json").unlink()  # as one of the hub
    with monkeypatch.context() as patch:
        patch.setattr(Stepper, "take", stop)
        assert embedrun("train", *options, *TEACHER, "hydra.run.dir=run").code == 130
    spoil(Path("teacher"))
    ended = embedrun("resume", "run")
    assert ended.code == 2
    assert "the files of teacher have changed since run began; start a new run" in ended.err


BAD = Skipped("a.tsv", 3, "score", "expected a number, got '\u202ex'")
SHORT = Skipped("a.tsv", 7, "", "blank line")


def test_the_list_has_a_line_a_row_and_no_control_character(tmp_path):
    write_skipped([BAD, SHORT], tmp_path)
    text = (tmp_path / "skipped_rows.jsonl").read_text(encoding="utf-8")
    assert "\u202e" not in text
    assert [json.loads(line) for line in text.splitlines()] == [
        {"file": "a.tsv", "row": 3, "column": "score", "reason": "expected a number, got '\u202ex'"},
        {"file": "a.tsv", "row": 7, "column": None, "reason": "blank line"},
    ]
