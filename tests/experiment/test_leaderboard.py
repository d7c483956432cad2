"""mteb's own result files beside the scores of a run, and those of other models beside its own."""

import json
from pathlib import Path

import datasets
import pytest

from embedrun.evaluation import mteb
from embedrun.experiment.leaderboard import seen
from embedrun.runs.reading import RunFiles

pytestmark = pytest.mark.usefixtures("_alone")


@pytest.fixture(autouse=True)
def _own_stores(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setenv("MTEB_CACHE", str(tmp_path / "stored"))
    (tmp_path / "copies" / "STSBenchmark").mkdir(parents=True)
    rows = [
        {"sentence1": f"a {one}", "sentence2": f"{one} b", "score": place} for place, one in enumerate("wxyz")
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "copies" / "STSBenchmark" / "test.jsonl").write_text(lines)


def tasks(folder: Path) -> list[str]:
    return [
        "evaluation=mteb",
        "evaluation.tasks.mteb.benchmark=null",
        "evaluation.tasks.mteb.tasks=[STSBenchmark]",
        f"evaluation.tasks.mteb.folder={folder}",
    ]


def test_mteb_reads_the_files_of_a_run_and_knows_what_it_was_trained_on(embedrun, options, tmp_path):
    ended = embedrun(
        "train",
        *options,
        *tasks(tmp_path / "copies"),
        "evaluation.tasks.mteb.publish_as=lab/tiny@0123abc",
        "hydra.run.dir=run",
    )
    assert ended.code == 0, ended.err
    (result,) = mteb.package().ResultCache("run/mteb").load_results().model_results
    assert (result.model_name, result.model_revision) == ("lab/tiny", "0123abc")
    score = json.loads(Path("run/results.json").read_text())["scores"]["mteb/STSBenchmark/cosine_spearman"]
    assert 100 * result.task_results[0].get_score() == pytest.approx(score)
    meta = json.loads(Path("run/mteb/results/lab__tiny/0123abc/model_meta.json").read_text())
    assert meta["training_datasets"] == ["toy"]
    assert (meta["embed_dim"], meta["similarity_fn_name"]) == (16, "cosine")
    audit = {
        "training": {
            "sets": [
                {"name": "sickr", "pairs": 53, "sentences": 60},
                {"name": "sts12", "pairs": 0, "sentences": 9},
            ]
        }
    }
    Path("run/contamination.json").write_text(json.dumps(audit))
    assert seen(RunFiles.read(Path("run"))) == {"toy", "SICK-R"}

    # The run's own files, as another model that mteb has stored.
    Path("run/mteb").rename(tmp_path / "stored")
    again = ("evaluate", "model=run", *tasks(tmp_path / "copies"))
    compared = embedrun(*again, "evaluation.tasks.mteb.compare=[lab/tiny]")
    assert f"mteb/STSBenchmark/cosine_spearman  {score:10.2f}  {score:8.2f}" in compared.out
    refused = embedrun(*again, "evaluation.tasks.mteb.compare=[lab/tiny,lab/none]")
    assert (refused.code, "no stored result of lab/none for these tasks" in refused.err) == (2, True)
