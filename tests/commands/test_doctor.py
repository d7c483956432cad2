import json
import time
from collections import namedtuple
from pathlib import Path

import pytest

from embedrun.commands import doctor
from embedrun.store import Store, cache

Usage = namedtuple("Usage", "total used free")


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder, a cache of its own and no network."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def found(capsys: pytest.CaptureFixture[str], code: int = 0) -> dict[str, dict[str, str]]:
    assert doctor.main(["--json", "--data-dir", "store"]) == code
    data = json.loads(capsys.readouterr().out)
    assert data["quickstart"] is (code == 0)
    return {one["what"]: one for one in data["checks"]}


def test_a_machine_that_runs_these_tests_can_run_the_quickstart(capsys):
    every = found(capsys)
    for what in ("python", "embedrun", "memory", "threads", "runs", "models", "presets", "text"):
        assert what in every
    assert every["data"]["found"].startswith("no folder store; embedrun data get")
    assert every["hub"]["state"] == "note"
    assert list(Path.cwd().iterdir()) == []
    assert doctor.main([]) == 0
    assert capsys.readouterr().out.endswith(
        "the quickstart can run here: embedrun train +experiment=quickstart\n"
    )


def test_where_nothing_can_be_written_the_quickstart_cannot_run(capsys, monkeypatch):
    def refuse(**_: object):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", refuse)
    assert "cannot be written (Read-only file system)" in found(capsys, code=1)["runs"]["found"]
    assert doctor.main([]) == 1
    out = capsys.readouterr().out
    assert "runs: outputs cannot be written" in out
    assert "the quickstart cannot run here" in out


def test_a_full_disk_is_a_fault(monkeypatch):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: Usage(1, 1, 2**20))
    one = doctor.runs_folder(Path("outputs"))
    assert (one.state, one.found) == ("fault", "outputs, 1.0 MiB free; a run needs 64.0 MiB or more")


@pytest.mark.parametrize("make", [Path.touch, lambda path: path.symlink_to("gone")])
def test_what_is_no_folder_where_runs_go_is_a_fault(make):
    make(Path("outputs"))
    one = doctor.runs_folder(Path("outputs"))
    assert (one.state, one.found) == (
        "fault",
        "outputs is not a folder; move it away, or go to another folder",
    )


def test_packages_that_are_missing_are_named_with_what_needs_them(monkeypatch):
    wanted = [
        "torch>=2",
        "no-such-package>=1",
        "scipy>=999",
        "nothing-of-the-kind; extra == 'hpo'",
        "numpy; extra == 'fast'",
    ]
    monkeypatch.setattr(doctor, "requires", lambda name: wanted)
    every = {one.what: one for one in doctor._of_packages()}
    assert every["torch"].state == "ok"
    assert every["no-such-package"] == (
        "no-such-package",
        "fault",
        "not installed; pip install 'no-such-package>=1'",
    )
    assert every["scipy"].state == "fault"
    assert every["scipy"].found.endswith(", and it takes scipy>=999; pip install 'scipy>=999'")
    assert every["extra hpo"].found == (
        "not installed; for embedrun tune: pip install '.[hpo]' in the folder of embedrun's sources"
    )
    assert every["extra fast"].state == "ok"
    assert every["extra mteb"].found.startswith("not known; ")


def test_every_extra_for_users_is_explained():
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]) - {"test", "dev"} == set(doctor.EXTRAS)


def test_files_of_another_size_are_told_from_whole_ones(tmp_path: Path):
    (tmp_path / "a.txt.gz").write_bytes(b"1234")
    (tmp_path / "b.txt.gz").write_bytes(b"1")
    manifest = [{"path": f"{name}.txt.gz", "bytes": 4} for name in "abc"]
    assert doctor.sizes(Store(tmp_path), manifest) == ({"a.txt.gz"}, ["b.txt.gz"])


def test_a_store_says_which_presets_it_serves(capsys):
    Path("store/stsb").mkdir(parents=True)
    Path("store/stsb/train.tsv.gz").write_bytes(b"1234")
    names = ("stsb/train.tsv.gz", "stsb/dev.tsv.gz")
    manifest = [{"path": name, "bytes": 4, "sha256": "aa", "rows": 1} for name in names]
    Path("store/MANIFEST.json").write_text(json.dumps(manifest))
    every = found(capsys)
    assert every["data"]["found"] == "store, 1 of 2 files whole by their size"
    # No preset of STS test sets, nor of Wikipedia, is served by STS-B alone.
    assert every["data of presets"]["found"].endswith(
        "part: angle_llm_supervised, angle_stsb, quickstart, sbert_stsb, sweep_angle_temperature and 1 more"
    )


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ({"avx512_bf16", "amx_bf16"}, "bf16 in hardware (amx_bf16)"),
        ({"avx2"}, "bf16 is emulated, slower than fp32"),
    ],
)
def test_bf16_of_a_processor_is_read_from_its_flags(flags, text):
    assert doctor.cpu_bf16(flags) == text


@pytest.mark.parametrize(("speed", "says"), [(2.0, "trains faster here"), (1.29, "trains no faster here")])
def test_whether_training_gains_by_bf16_follows_the_measured_product(speed, says):
    found = doctor.bf16_training(speed)
    assert found.startswith(f"a product is {speed:.1f} times as fast as in fp32, so gpu.precision=bf16 ")
    assert found.endswith(says)


def test_an_output_that_is_not_utf_8_is_noted():
    assert doctor.text_finding("utf-8", "UTF-8").state == "ok"
    assert doctor.text_finding("ascii", "UTF-8").state == "note"
    assert doctor.text_finding(None, "UTF-8").state == "note"


def test_a_hub_that_answers_in_any_way_is_there_and_a_closed_port_is_not(monkeypatch):
    from http.server import BaseHTTPRequestHandler, HTTPServer
    from threading import Thread

    class Quiet(BaseHTTPRequestHandler):  # refuses every method, 501
        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    with HTTPServer(("127.0.0.1", 0), Quiet) as server:
        monkeypatch.setattr(doctor, "HUB", f"http://127.0.0.1:{server.server_port}")
        serving = Thread(target=server.handle_request, daemon=True)
        serving.start()
        assert doctor.hub().state == "ok"
        serving.join(5)
    closed = doctor.hub()
    assert closed.state == "note"
    assert "refused" in closed.found


def test_a_look_up_that_is_silent_is_not_waited_for(monkeypatch):
    import socket

    def late(*_: object, **__: object) -> None:
        time.sleep(2)
        raise OSError("an answer")

    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr(doctor, "_PATIENCE", -0.99)
    monkeypatch.setattr(socket, "getaddrinfo", late)
    assert "no answer" in doctor.hub().found


def test_prepared_data_was_not_last_used_in_days_to_come(monkeypatch):
    ahead = cache.Entry(Path("x"), "rows", 1, time.time() + 3 * 86_400)  # the clock has been set back since
    monkeypatch.setattr(cache, "entries", lambda: [ahead])
    assert "last used 0 days ago" in next(doctor._data(None)).found
