from pathlib import Path

import pytest
from matplotlib.figure import Figure

from embedrun.plot import save, subplots


def test_a_plot_that_breaks_off_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "plot.png"
    path.write_bytes(b"old")

    def half(self: Figure, file: Path, **more: object) -> None:
        Path(file).write_bytes(b"ha")
        raise OSError("no space left")

    monkeypatch.setattr(Figure, "savefig", half)
    with pytest.raises(OSError, match="no space"):
        save(subplots(1, 1, (1, 1), "T")[0], path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
