"""The umask decides who may read what a run leaves, whichever library has written it."""

import os
from collections import Counter
from pathlib import Path

import pytest


def modes(folder: Path) -> Counter[tuple[str, int]]:
    """How many files, safetensors and folders have which mode, the folder itself among them."""
    found = Counter()
    for path in (folder, *folder.rglob("*")):
        kind = "folder" if path.is_dir() else path.suffix if path.suffix == ".safetensors" else "file"
        found[kind, path.stat().st_mode & 0o777] += 1
    return found


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_every_file_and_folder_of_a_run_and_of_an_export_is_as_open_as_the_umask_says(
    embedrun, options, umask
):
    before = os.umask(umask)
    try:
        assert embedrun("train", *options, "hydra.run.dir=run").code == 0
        assert embedrun("export", "run", "exported", "--license", "mit").code == 0
    finally:
        os.umask(before)
    for folder, tensors in ((Path("run"), 4), (Path("exported"), 1)):  # three of the checkpoint, the model
        found = modes(folder)
        assert set(found) == {
            ("file", 0o666 & ~umask),
            (".safetensors", 0o666 & ~umask),
            ("folder", 0o777 & ~umask),
        }
        assert found[".safetensors", 0o666 & ~umask] == tensors
