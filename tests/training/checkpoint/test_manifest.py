import errno
import json
import os
from pathlib import Path

import pytest

from embedrun.errors import RunFailed
from embedrun.training.checkpoint import verify

FILES = ["manifest.json", "model.safetensors", "optimizer.safetensors", "random.safetensors", "state.json"]


def flip(content: bytes, place: int, bit: int) -> bytes:
    return content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :]


@pytest.mark.parametrize("name", FILES)
def test_a_missing_or_shortened_file_is_detected(write, name: str):
    path = write(1) / name
    content = path.read_bytes()
    for size in (0, 1, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        assert name in verify(path.parent)[0], size
    path.write_bytes(content + b"\0")
    assert verify(path.parent)
    path.unlink()
    assert name in verify(path.parent)[0]
    path.mkdir()
    assert name in verify(path.parent)[0]
    path.rmdir()
    path.write_bytes(content)
    assert verify(path.parent) == []


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_detected_wherever_it_is(write, name: str):
    path = write(1) / name
    content = path.read_bytes()
    stride = 1 if name == "manifest.json" else max(1, len(content) // 50)
    for place in range(0, len(content), stride):
        path.write_bytes(flip(content, place, 1 << place % 8))
        assert verify(path.parent), place
    path.write_bytes(content)
    assert verify(path.parent) == []


@pytest.mark.parametrize(
    "content", [b"[]", b"null", b"{}", b'{"schema": 2, "step": 1, "files": []}', b'"x"', b"\xff"]
)
def test_a_manifest_that_is_none_is_a_fault_and_no_crash(write, content: bytes):
    path = write(1)
    (path / "manifest.json").write_bytes(content)
    (fault,) = verify(path)
    assert "not a manifest" in fault


def test_a_manifest_that_leaves_a_file_out_is_a_fault(write):
    path = write(1) / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["files"]["optimizer.safetensors"]
    path.write_text(json.dumps(manifest))
    (fault,) = verify(path.parent)
    assert "lists model.safetensors, random.safetensors, state.json in place of" in fault


def test_a_checkpoint_of_another_schema_says_so(write):
    path = write(1) / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": 3}))
    assert verify(path.parent) == [f"{path}: schema 3, this version reads 2"]


def test_a_folder_of_another_step_is_a_fault(write):
    path = write(1)
    moved = path.rename(path.with_name("step-00000002"))
    assert verify(moved) == [f"{moved}/manifest.json: belongs to step-00000001"]


def fail_to_open(monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> None:
    plain = Path.open

    def opened(self: Path, *rest, **more):
        if self.name == name:
            raise OSError(number, os.strerror(number))
        return plain(self, *rest, **more)

    monkeypatch.setattr(Path, "open", opened)


@pytest.mark.parametrize("name", FILES)
def test_a_bad_sector_is_damage(write, monkeypatch, name: str):
    path = write(1)
    fail_to_open(monkeypatch, name, errno.EIO)
    assert verify(path) == [f"{path / name}: Input/output error"]


@pytest.mark.parametrize("name", FILES)
def test_what_may_not_be_read_is_no_damage(write, monkeypatch, name: str):
    path = write(1)
    fail_to_open(monkeypatch, name, errno.EACCES)
    with pytest.raises(RunFailed, match=rf"{name}: cannot be read \(Permission denied\)") as failure:
        verify(path)
    assert failure.value.exit_code == 7
