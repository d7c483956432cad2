"""Claims from the file to the verdict: planned, sealed before the first run, decided after the last."""

import json
import subprocess
from pathlib import Path

import pytest
from made_runs import made_run

from embedrun.errors import ConfigError
from embedrun.plot import forest
from embedrun.study import registration

pytestmark = pytest.mark.usefixtures("_alone")

HEAD = "+experiment=quickstart"
TABLE = f"""\
seeds: [1, 2, 3]
shared: {{train: [{HEAD}]}}
columns:
  Test: toy_test/spearman
  Dev: toy_dev/spearman
  Gap: {{difference: [Dev, Test]}}
rows:
  - {{label: AnglE, overrides: []}}
  - {{label: slow, overrides: [training.lr=1e-6]}}
"""
CLAIMS = """\
table: mine.yaml
statistic: Test
least: 0.5
claims:
  - {name: a high lr is better, better: AnglE, worse: slow, printed: 1.25}
  - {name: it closes the gap, better: slow, worse: AnglE, statistic: Gap}
"""


@pytest.fixture(autouse=True)
def _files(_alone: None) -> None:
    Path("mine.yaml").write_text(TABLE)
    Path("claims.yaml").write_text(CLAIMS)


def made(*overrides: str, noise: float) -> dict[int, float]:
    """The test scores of three made runs, by seed."""
    runs = {
        seed: made_run(Path("outputs"), [HEAD, *overrides], seed, noise=noise, dev=None) for seed in (1, 2, 3)
    }
    results = {seed: json.loads((run / "results.json").read_text()) for seed, run in runs.items()}
    return {seed: result["scores"]["toy_test/spearman"] for seed, result in results.items()}


def test_a_seal_says_whether_files_differ_from_its_commit(embedrun):
    git = ("git", "-c", "user.name=A", "-c", "user.email=a@b.c")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "claims")):
        subprocess.run([*git, *words], check=True)
    for end in ("", "-dirty"):
        Path("mine.yaml").write_text(TABLE + ("# later\n" if end else ""))
        assert embedrun("claims", "claims.yaml", "--seal").code == 0
        seal = Path("claims.seal.json")
        commit = json.loads(seal.read_text())["commit"]
        assert (len(commit.removesuffix("-dirty")), commit.endswith("-dirty")) == (40, bool(end))
        seal.unlink()


def test_claims_are_sealed_before_the_first_run_and_decided_after_it(embedrun, monkeypatch):
    assert "needs two" not in embedrun("claims", "claims.yaml", "--plan", "--sd", "0.5").err
    ended = embedrun("claims", "claims.yaml", "--seal")
    assert ended.code == 0, ended.err
    seal = json.loads(Path("claims.seal.json").read_text())
    assert {"claims", "table", "sealed", "commit"} <= seal.keys()
    lacking = embedrun("claims", "claims.yaml")
    assert lacking.code == 3
    assert "'AnglE' and 'slow' need two finished seeds each" in lacking.err
    high, low = made(noise=0.5), made("training.lr=1e-6", noise=3.0)
    drawn = {}
    monkeypatch.setattr(
        registration, "forest", lambda *given, **more: drawn.update(more) or forest(*given, **more)
    )
    ended = embedrun("claims", "claims.yaml")
    assert f"sealed {seal['sealed']}" in ended.err
    assert "unchanged" in ended.err
    each = [high[seed] - low[seed] for seed in (1, 2, 3)]
    (line,) = [line for line in ended.out.splitlines() if line.startswith("a high lr is better")]
    assert ", ".join(f"{value:+.2f}" for value in each) in line
    assert f" {sum(each) / 3:+.2f} " in line
    assert line.split()[-2:] == ["yes", "+1.25"]
    assert Path("outputs/tables/mine_claims.png").is_file()
    assert (drawn["least"], drawn["printed"]) == (0.5, {"a high lr is better": 1.25})
    assert drawn["each"]["a high lr is better"] == pytest.approx(each)
    # All dev scores are 100: the gaps differ as much, the other way round.
    (line,) = [line for line in ended.out.splitlines() if line.startswith("it closes the gap")]
    assert f" {sum(each) / 3:+.2f} " in line
    planned = embedrun("claims", "claims.yaml", "--plan").out
    assert "to tell a true difference of 0.5 from 0 with 80% power, at the level 0.025" in planned
    # The largest difference that three seeds leave possible is shown by few.
    (line,) = [line for line in planned.splitlines() if line.startswith("a high lr is better")]
    largest, seeds = line.split()[-2:]
    assert float(largest) > sum(each) / 3
    assert int(seeds) <= 3
    # What is sealed is neither sealed again nor changed in silence; a second file comes too late.
    assert "a seal is never renewed" in embedrun("claims", "claims.yaml", "--seal").err
    Path("claims.yaml").write_text(CLAIMS.replace("0.5", "0.1"))
    assert "changed since then: the file of the claims" in embedrun("claims", "claims.yaml").err
    Path("late.yaml").write_text(CLAIMS)
    late = embedrun("claims", "late.yaml", "--seal")
    assert late.code == 2
    assert "--seal comes before the first run; there is one: AnglE, seed 1" in late.err


def test_faults_of_a_file_are_said_together(embedrun):
    faulty = CLAIMS.replace(
        "better: AnglE, worse: slow, printed", "better: Angle, worse: slow, statistic: Tst, printed"
    )
    Path("claims.yaml").write_text(faulty.replace("it closes the gap", "a high lr is better"))
    ended = embedrun("claims", "claims.yaml")
    assert ended.code == 2
    assert "claims[0]: no row 'Angle'; did you mean 'AnglE'? (rows of mine.yaml: AnglE, slow)" in ended.err
    assert "claims[0]: no column 'Tst'; did you mean 'Test'?" in ended.err
    assert "claims: 2 are 'a high lr is better'" in ended.err
    for words, told in (
        (("--sd", "1"), "--sd and --difference go with --plan"),
        (("--plan", "--sd", "-1"), "a standard deviation is 0 or more"),
        (("--plan", "--difference", "0"), "--difference: must be above 0"),
    ):
        assert told in embedrun("claims", "claims.yaml", *words).err
    assert "expected one file of claims" in embedrun("claims", "a.yaml", "b.yaml").err


def test_a_file_that_is_missing_is_named_in_words():
    with pytest.raises(ConfigError, match=r"  other\.yaml: cannot be read: No such file or directory$"):
        registration.read("other.yaml")
