"""A run whose disk is full ends with exit 5 and loses nothing; with space freed it goes on."""

from functools import partial
from pathlib import Path

import forked
import operations
import pytest
import same_run
from small_mixes import EVERY

pytestmark = pytest.mark.chaos


@pytest.mark.parametrize("undisturbed", ["AnglE"], indirect=True)
def test_a_write_that_finds_no_space_ends_the_run_and_no_byte_differs(undisturbed, tmp_path: Path):
    change = "tear .tmp-step-N/optimizer.safetensors"
    around = partial(operations.strike, change, operations.disk_full, Path("run/checkpoints"))
    ended = forked.run(tmp_path, *undisturbed.arguments, around=around)
    assert ended.code == 5, ended.said
    assert f"run/checkpoints/step-{EVERY:08d}: no space left" in ended.said
    assert sorted((tmp_path / "run" / "checkpoints").iterdir()) == []
    assert forked.run(tmp_path, "resume", "run").code == 0
    assert same_run.differences(tmp_path / "run", undisturbed.content) == []
