import json
from pathlib import Path

import pytest

from embedrun.commands import doctor


def found(capsys: pytest.CaptureFixture[str], code: int = 0) -> dict[str, dict[str, str]]:
    assert doctor.main(["--json", "--data-dir", "store"]) == code
    data = json.loads(capsys.readouterr().out)
    assert data["quickstart"] is (code == 0)
    return {finding["what"]: finding for finding in data["checks"]}


def test_a_machine_that_runs_these_tests_can_run_the_quickstart(capsys):
    findings = found(capsys)
    for what in ("python", "embedrun", "memory", "threads", "runs", "models", "presets"):
        assert what in findings
    assert findings["data"]["found"].startswith("no folder store; embedrun data get")
    assert findings["hub"]["state"] == "note"
    assert list(Path.cwd().iterdir()) == []
    assert doctor.main([]) == 0
    assert capsys.readouterr().out.endswith(
        "the quickstart can run here: embedrun train +experiment=quickstart\n"
    )


def test_where_nothing_can_be_written_the_quickstart_cannot_run(capsys):
    Path("outputs").touch()
    assert "outputs takes no runs (Not a directory)" in found(capsys, code=1)["runs"]["found"]
    assert doctor.main([]) == 1
    out = capsys.readouterr().out
    assert "runs: outputs takes no runs" in out
    assert "the quickstart cannot run here" in out


def test_packages_that_are_missing_are_named_with_what_needs_them(monkeypatch):
    requirements = [
        "torch>=2",
        "no-such-package>=1",
        "scipy>=999",
        "nothing-of-the-kind; extra == 'hpo'",
        "numpy; extra == 'collect'",
    ]
    monkeypatch.setattr(doctor, "requires", lambda name: requirements)
    findings = {finding.what: finding for finding in doctor.packages()}
    assert findings["torch"].state == "ok"
    assert findings["no-such-package"].state == "fault"
    assert findings["no-such-package"].found == "not installed; pip install 'no-such-package>=1'"
    assert findings["scipy"].state == "fault"
    assert findings["scipy"].found.endswith("; pip install 'scipy>=999'")
    assert findings["extra hpo"].found == (
        "not installed; for embedrun tune: pip install '.[hpo]' in the folder of embedrun's sources"
    )
    assert findings["extra collect"].state == "ok"
    assert findings["extra mteb"].state == "note"


def test_every_extra_for_users_is_explained():
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]) - {"test", "oracle", "dev", "docs"} == set(doctor.EXTRAS)


def test_a_store_says_how_many_of_its_files_are_here(capsys):
    Path("store/stsb").mkdir(parents=True)
    Path("store/stsb/train.tsv.gz").write_bytes(b"1234")
    names = ("stsb/train.tsv.gz", "stsb/dev.tsv.gz")
    manifest = [{"path": name, "bytes": 4, "sha256": "aa", "rows": 1} for name in names]
    Path("store/MANIFEST.json").write_text(json.dumps(manifest))
    findings = found(capsys)
    assert findings["data"]["found"].startswith("store, 1 of 2 files; ")
