import json
import shutil
from pathlib import Path

import pytest
from finished_runs import finished


def page(run: Path) -> str:
    return (run / "report.html").read_text(encoding="utf-8")


@pytest.fixture
def copied(tiny, tmp_path) -> Path:
    """The finished run, to be changed."""
    shutil.copytree(tiny.path, tmp_path / "run", ignore=shutil.ignore_patterns("checkpoints", "model"))
    return tmp_path / "run"


def test_a_finished_run_gets_its_page_with_curves_plots_and_the_texts_of_its_worst_pairs(embedrun, copied):
    ended = embedrun("report", copied)
    assert (ended.code, ended.out, ended.err) == (0, f"{copied / 'report.html'}\n", "")
    text = page(copied)
    for part in ("quickstart", "toy_test/spearman", "training loss", "in_batch_negatives", "learning rate"):
        assert part in text
    assert text.count("data:image/png;base64,") == 4
    assert "only the rows are named" not in text
    assert text.count("<small>row ") == text.count('<div class="texts">\n<p>') > 10
    assert f"embedrun train {' '.join(json.loads(json.dumps(['+experiment=quickstart'])))}" in text


def test_the_page_goes_where_the_user_wants(embedrun, copied):
    (copied / "report.html").unlink()
    ended = embedrun("report", copied, "-o", "own.html")
    assert (ended.code, ended.out) == (0, "own.html\n")
    assert Path("own.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert not (copied / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["."], "no runs below ."),
        ([".", "."], "-o: several DIR have one page, which needs a name, as -o runs.html"),
        ([".", "-o", "no/own.html"], "-o: 'no/own.html' cannot be made: there is no folder 'no'"),
    ],
)
def test_what_is_no_run_is_refused(refused, arguments, said):
    assert said in refused("report", *arguments)


def test_a_folder_with_runs_below_has_one_page_over_all_of_them(embedrun):
    finished("one/a"), finished("one/b"), finished("two/c")
    ended = embedrun("report", "outputs")
    assert (ended.code, ended.out, ended.err) == (0, "outputs/index.html\n", "")
    text = Path("outputs/index.html").read_text(encoding="utf-8")
    assert "3 runs: 3 finished" in text
    assert embedrun("report", "outputs/one", "-o", "own.html").out == "own.html\n"
    assert '"id":"outputs/one/a"' in Path("own.html").read_text(encoding="utf-8")
    assert not Path("outputs/one/index.html").exists()
