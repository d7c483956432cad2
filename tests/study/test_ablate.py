"""A recipe with one thing left out: which runs there are, and what is said of them."""

import json
from pathlib import Path

import numpy as np
import pytest
from made_jobs import in_this_process

from embedrun.config.compose import Compositions, composed
from embedrun.config.request import Request
from embedrun.errors import ConfigError
from embedrun.launch import launcher
from embedrun.study import ablate
from embedrun.table.cells import identity
from embedrun.table.preset import load

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")

COMPOSITIONS = Compositions()


def key(*overrides: str) -> str:
    return identity(COMPOSITIONS.config("train", overrides), lambda name: None)


@pytest.mark.parametrize(
    ("table", "recipe", "sets", "same"),
    [
        ("angle/table4", "+experiment=angle_stsb", [], {"without in_batch_negatives", "without angle"}),
        ("arccse/table1", "+experiment=arccse_bert", [], {"without masked_triplet"}),
        (
            "arccse/table3",
            "+experiment=arccse_bert",
            ["loss=arccse_dropout_mix,arccse_dropout_on"],
            {"loss=arccse_dropout_mix", "loss=arccse_dropout_on"},
        ),
        ("raoe/table6", "+experiment=raoe_s1_bert", [], {"without rank_margin", "without gated_angular"}),
    ],
)
def test_the_runs_are_those_of_the_papers_own_ablations(table, recipe, sets, same):
    found = ablate.changes(composed(Request("train", (recipe,))).config, ["loss.terms"], sets)
    overrides = (recipe,)
    ours = {label: key(*overrides, change) for label, change in found.items()}
    theirs = {
        key(*cell.overrides) for row in load(table).rows for cell in row.cells if cell.command == "train"
    }
    assert same <= {label for label, mine in ours.items() if mine in theirs}


def test_what_is_left_out_or_replaced_is_one_thing_each():
    config = composed(Request("train", ("+experiment=quickstart",))).config
    found = ablate.changes(config, ["loss.terms.angle"], ["pooling=cls,max", "training.lr=1e-4"])
    assert found == {
        "without angle": "loss.terms.angle.weight=0",
        "pooling=cls": "pooling=cls",
        "pooling=max": "pooling=max",
        "training.lr=1e-4": "training.lr=1e-4",
    }
    with pytest.raises(ConfigError) as caught:
        ablate.changes(config, ["loss.terms.angel"], ["pooling"])
    faults = caught.value.problems
    assert "--drop loss.terms.angel: no such part; did you mean 'loss.terms.angle'? (there are: " in faults[0]
    assert faults[1] == "embedrun ablate: --set pooling: expected option=value,value, as pooling=cls,max"
    with pytest.raises(ConfigError, match="nothing is left out or replaced"):
        ablate.changes(config, [], [])


def test_a_recipe_and_its_variants_are_run_compared_and_not_run_again(embedrun, monkeypatch):
    monkeypatch.setattr(launcher, "run_in_child", in_this_process)
    short = (
        "training.max_steps=4",
        "dataset.train_rows=64",
        "dataset.test_rows=200",
        "training.evaluate_every=4",
    )
    words = ("ablate", "+experiment=quickstart", *short, "--drop", "loss.terms.angle", "--seeds", "1,2")
    ended = embedrun(*words)
    assert ended.code == 0, ended.err
    scores: dict[bool, dict[int, float]] = {True: {}, False: {}}
    for path in Path("outputs/quickstart").rglob("results.json"):
        config = path.with_name("config.yaml").read_text()
        seed = int(config.split("\nseed: ")[1].split()[0])
        scores["weight: 0\n" in config][seed] = json.loads(path.read_text())["scores"]["toy_test/spearman"]
    difference = np.mean([scores[False][seed] - scores[True][seed] for seed in (1, 2)])
    (line,) = [line for line in ended.out.splitlines() if line.startswith("without angle")]
    assert f"{difference:+.2f} " in line
    assert Path("outputs/tables/ablate_quickstart.png").is_file()
    again = embedrun(*words)
    assert again.err.count("finished before") == 4
    assert line in again.out.splitlines()
    assert embedrun(*words[:-1], "1").code == 2
