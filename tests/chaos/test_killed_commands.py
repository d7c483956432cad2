"""A training of each loss family, killed twenty times at random moments of its life, loses nothing."""

from pathlib import Path

import forked
import pytest
import same_run
from killed_commands import Trial, killed

pytestmark = [pytest.mark.chaos, pytest.mark.usefixtures("_quick_plots")]
KILLS, SEED = 20, 7
NAMES = ("AnglE", "ArcCSE", "RAOE")


@pytest.mark.parametrize("name", NAMES)
def test_a_training_that_is_killed_ends_with_the_same_bytes(known, name, tmp_path):
    def typed(folder: Path) -> tuple[str, ...]:
        return ("resume", "run") if (folder / "run/config.yaml").is_file() else known[name].training()

    forked.warm_up()
    trial = Trial(typed, lambda folder: same_run.content(folder / "run"))
    found = killed(trial, tmp_path, kills=KILLS, seed=SEED)
    assert found.kills == KILLS
    assert found.different == []
