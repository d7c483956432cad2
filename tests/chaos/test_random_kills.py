"""Killed twenty times at random moments of its life, a run ends as one that was not."""

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
import same_run
from random_kills import Chain, chain
from small_mixes import EVERY, STEPS

from embedrun.training.checkpoint import published

pytestmark = pytest.mark.chaos
KILLS, SEED = 20, 7


@pytest.fixture(scope="module")
def chains(known, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Future[Chain]]:
    """A run of each mix after all its kills; the processors have one each at a time."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:  # all are done at its end
        return {
            name: pool.submit(chain, mix, tmp_path_factory.mktemp(name) / "chain", kills=KILLS, seed=SEED)
            for name, mix in known.items()
        }


@pytest.fixture(params=["AnglE", "ArcCSE", "RAOE"])
def killed(request: pytest.FixtureRequest, chains: dict[str, Future[Chain]], report: Callable) -> Chain:
    found = chains[request.param].result()
    same = not same_run.differences(found.run, found.whole)
    report("random moments", request.param, found.kills, found.resumed(), same)
    return found


def test_twenty_kills_at_random_moments_change_no_byte_and_no_score(killed: Chain):
    assert killed.kills == KILLS
    assert killed.unsound == []
    assert same_run.differences(killed.run, killed.whole) == []
    # It had something to lose: it went on from many checkpoints, and was stopped before its first as well.
    assert len(set(killed.resumed())) > KILLS // 4
    # No dev score was lost or came twice, and nothing lies about.
    scored = [row["step"] for row in same_run.metrics(killed.run) if row["name"].endswith("_dev/spearman")]
    assert scored == list(range(0, STEPS + 1, EVERY))
    assert len(published(killed.run / "checkpoints")) in (2, 3)
    assert [path for path in killed.run.rglob(".*") if path.name != ".lock"] == []
