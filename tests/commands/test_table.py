"""`embedrun table` from its command line to what it prints and writes."""

import json
from pathlib import Path

import pytest
from cell_runs import compositions, run_of
from finished_runs import finished

from embedrun.commands.table import main
from embedrun.errors import ConfigError
from embedrun.table import cells as table_cells
from embedrun.table import load

STSB = ("+experiment=angle_stsb",)
SCORE = "sts/stsb/spearman"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def _composed() -> None:
    """Compose the runs of the table that most tests show, which takes seconds, apart from these."""
    for row in load("angle/table4").rows:
        for cell in row.cells:
            compositions().config(cell.command, cell.overrides)


@pytest.fixture(autouse=True)
def _quick(_composed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_cells, "Compositions", compositions)  # each choice composed once


def printed(capsys: Capture, *argv: str) -> str:
    assert main(argv) == 0
    return capsys.readouterr().out


def sheets(text: str) -> list[dict]:
    data = json.loads(text)
    assert data["schema"] == 1
    return data["tables"]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_table_shows_measured_beside_printed_and_how_to_fill_the_rest(capsys: Capture):
    for seed, score in ((1, 86.0), (2, 86.4)):
        run_of(STSB, {SCORE: score, f"{SCORE}_clean": score - 1}, seed=seed)
    out = printed(capsys, "angle/table4")
    lines = {cells(line)[0]: cells(line)[1:] for line in out.splitlines() if line.startswith("| ")}
    assert lines["AnglE-BERT-all"] == ["86.26", "86.20 ± 0.28", "85.20", "-0.06", "2", "within", ""]
    assert lines["w/o ibn"][:2] == ["86.00", "-"]
    assert "embedrun reproduce angle/table4 --seeds 1,2 --only 'w/o ibn'" in out.splitlines()


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("t.csv", "table,scale"),
        ("t.tex", "\\begin{table}"),
        ("t", "###"),
    ],
)
def test_a_file_has_the_format_of_its_name(capsys: Capture, name: str, begins: str):
    assert printed(capsys, "angle/table4", "-o", name) == ""
    assert Path(name).read_text(encoding="utf-8").startswith(begins)


def test_a_reduced_setting_is_said_and_never_mixed_with_full_runs(
    capsys: Capture, monkeypatch, tmp_path: Path
):
    from embedrun.table.preset import Scale

    monkeypatch.setattr(
        "embedrun.commands.table.load_scale", lambda name: Scale(name, "5 steps", ("training.max_steps=5",))
    )
    results = run_of([*STSB, "training.max_steps=5"], {SCORE: 50.0}, scale="tiny") / "results.json"
    results.write_text(json.dumps({**json.loads(results.read_text()), "baseline": {SCORE: 48.5}}))
    assert main(["angle/table4"]) == 0
    full = capsys.readouterr()
    assert "50.00" not in full.out
    assert "runs of reduced settings are in no table here: --scale tiny" in full.err
    reduced = printed(capsys, "angle/table4", "--scale", "tiny")
    assert "**Reduced setting tiny: not a reproduction. 5 steps**" in reduced
    assert "| row                  | before training |  ours |" in reduced
    assert "| AnglE-BERT-all       |           48.50 | 50.00 |" in reduced
    assert "86.26" not in reduced
    assert "within" not in reduced
    assert "--only 'w/o ibn' --scale tiny" in reduced


def test_without_an_argument_every_table_is_listed_with_its_finished_runs(capsys: Capture):
    out = printed(capsys)
    names = [line.split()[0] for line in out.splitlines()[2:]]
    assert names.index("raoe/table2") < names.index("raoe/table10")
    (line,) = [line for line in out.splitlines() if line.startswith("angle/table4")]
    assert line.split()[:4] == ["angle/table4", "11", "10", "0"]  # two rows are one run


def test_runs_below_a_folder_are_one_row_for_all_seeds(capsys: Capture):
    for seed, score in ((1, 86.0), (2, 87.0)):
        run_of(STSB, {SCORE: score, f"{SCORE}_mean": 1.0, "stsb_dev/spearman": 88.0}, seed=seed)
    run_of([*STSB, "training.lr=1e-3"], {SCORE: 70.0, "stsb_dev/spearman": 71.0, "geometry/alignment": 0.25})
    run_of(STSB, {}, seed=3, state="failed")
    out = printed(capsys, "outputs")
    rows = [cells(line) for line in out.splitlines() if line.startswith("| ")]
    assert rows[0] == ["run", SCORE, "stsb_dev/spearman", "n", "notes"]
    assert ["training.lr=1e-05", "86.50 ± 0.71", "88.00 ± 0.00", "2", "1"] in rows
    assert ["training.lr=0.001", "70.00", "71.00", "1", ""] in rows
    assert "1. Seeds 1, 2" in out
    assert "Not finished, and left out: 1" in out


@pytest.fixture
def losses():
    for loss, lr, score in (("angle", 1e-5, 80.0), ("cosent", 2e-5, 81.0)):
        finished(
            loss,
            {"training": {"lr": lr}, "loss": {"terms": {loss: {"weight": 1.0}}}},
            {SCORE: score, "stsb_dev/spearman": 70.0},
            typed=(f"loss={loss}",),
            choices={"loss": loss},
        )


def test_label_and_columns_are_those_that_were_asked_for(losses, capsys: Capture):
    out = printed(capsys, "outputs", "--label", "loss", "--columns", f"training.lr,{SCORE}")
    rows = [cells(line) for line in out.splitlines() if line.startswith("| ")]
    assert rows[0] == ["run", "training.lr", SCORE, "n"]
    assert rows[3] == ["loss=cosent", "2e-05", "81.00", "1"]


@pytest.mark.parametrize(
    ("asked", "means"),
    [
        ((), {80.0, 81.0}),
        (("--filter", "kind=evaluation,trial"), {60.0, 90.0}),
    ],
)
def test_a_table_of_runs_has_trainings_alone_unless_others_are_asked_for(losses, asked, means, capsys):
    finished("toy/tune/study/trial-0000", {"training": {"lr": 3e-5}}, {SCORE: 90.0})
    finished("scored", {"model": "m"}, {SCORE: 60.0})
    text = printed(capsys, "outputs", *asked, "--columns", SCORE, "--format", "json")
    (sheet,) = sheets(text)
    assert {entry["mean"] for row in sheet["rows"] for entry in row["entries"]} == means
    left = "Left out: evaluations (1, --filter kind=evaluation), trials of searches (1, --filter kind=trial)"
    assert sheet["notes"] == ([left] if not asked else [])


def test_every_fault_of_the_command_line_is_reported_together():
    with pytest.raises(ConfigError) as refused:
        main(["angel/table4", "nowhere", "--seeds", "1,1", "--outputs", "none"])
    said = str(refused.value)
    assert "no table, folder or run 'angel/table4'; did you mean 'angle/table4'?" in said
    assert "no table, folder or run 'nowhere'" in said
    assert "--seeds: expected different whole numbers, as 1,2,3, got '1,1'" in said
    assert "--outputs: there is no folder 'none'" in said


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["angle/table4", "--scale", "nothing"], "--scale: no reduced setting 'nothing'"),
        (["angle/table4", "training.lrr=1"], "did you mean 'training.lr'"),
        (["--format", "json", "-o", "x.json", "--seeds", "1"], "-o, --seeds and --data-dir: of a table"),
    ],
)
def test_what_is_refused_says_what_is_accepted(argv: list[str], said: str):
    with pytest.raises(ConfigError) as refused:
        main(argv)
    assert said in str(refused.value)


def test_statistics_come_from_the_data_folder(tmp_path: Path, capsys: Capture):
    folder = tmp_path / "github_issues"
    folder.mkdir()
    split = {"positive": 9400, "negative": 9000}
    data = {"length_unit": "words", "splits": {name: split for name in ("train", "dev", "test")}}
    (folder / "provenance.json").write_text(json.dumps(data), encoding="utf-8")
    (sheet,) = sheets(printed(capsys, "angle/table1", "--data-dir", str(tmp_path), "--format", "json"))
    assert [(entry["mean"], entry["mark"]) for entry in sheet["rows"][0]["entries"]] == [
        (9400, "within"), (9400, "off"), (9400, "off"),
    ]  # fmt: skip
    assert sheet["columns"][0]["digits"] == 0
    assert sheet["commands"] == []
