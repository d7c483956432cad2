import gzip
import hashlib
import json
from pathlib import Path

import pytest

from embedrun.commands.data import _get
from embedrun.errors import ConfigError, DataError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A mounted store of one file that nothing is published of."""
    packed = gzip.compress(b"One.\nTwo.\n", mtime=0)
    (tmp_path / "mounted/own").mkdir(parents=True)
    (tmp_path / "mounted/own/a.txt.gz").write_bytes(packed)
    digest = hashlib.sha256(packed).hexdigest()
    entry = {"path": "own/a.txt.gz", "bytes": len(packed), "sha256": digest, "rows": 2}
    (tmp_path / "mounted/MANIFEST.json").write_text(json.dumps([entry]))
    return tmp_path / "mounted"


def test_a_copy_says_what_became_of_each_file(tmp_path, source, capsys, monkeypatch):
    monkeypatch.setenv("EMBEDRUN_DATA", str(tmp_path / "data"))
    for state in ("copied", "there"):
        assert _get(["own", "--from", str(source)]) == 0
        out = capsys.readouterr().out.splitlines()
        assert (out[0], out[-1].split()) == (f"data folder {tmp_path / 'data'}", ["own/a.txt.gz", "2", state])
    assert (tmp_path / "data/own/a.txt.gz").read_bytes() == (source / "own/a.txt.gz").read_bytes()


def test_without_network_every_data_set_of_the_hub_says_what_else_serves(tmp_path):
    with pytest.raises(DataError, match=r"stanfordnlp/snli: .*embedrun data get NAME --from FOLDER"):
        _get(["snli", "--data-dir", str(tmp_path / "data")])


def test_names_of_which_the_hub_has_nothing_are_told_at_once(tmp_path):
    with pytest.raises(DataError) as caught:
        _get(["sst2", "mr", "sickr", "mr", "--data-dir", str(tmp_path / "data")])
    assert [problem.partition(":")[0] for problem in caught.value.problems] == ["mr", "sickr"]


def test_the_command_line_is_refused_in_words(tmp_path, capsys):
    with pytest.raises(ConfigError, match="name what to fetch"):
        _get(["--data-dir", str(tmp_path)])
    with pytest.raises(ConfigError, match="did you mean 'stsb'"):
        _get(["stsbb", "--data-dir", str(tmp_path)])
    assert _get(["--help"]) == 0
    assert "conf/hub.yaml" in capsys.readouterr().out
