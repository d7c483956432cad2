from pathlib import Path

import pytest
from finished_runs import finished

from embedrun.config.compose import Compositions
from embedrun.report.paper import printed
from embedrun.runs.reading import RunFiles

SOURCE = "arXiv:2309.12871, Table 4"


pytestmark = pytest.mark.usefixtures("here")


def trained(*overrides: str, name: str = "a", **options) -> Path:
    config = Compositions().config("train", overrides)
    return finished(name, {**config, **options}, {"sts/stsb/spearman": 86.5})


def numbers_of(path: Path) -> tuple[dict[str, float], str]:
    return printed(RunFiles.read(path))


def test_a_run_with_the_configuration_of_a_row_has_its_printed_number_whatever_the_seed():
    numbers, source = numbers_of(trained("+experiment=angle_stsb", "seed=7"))
    assert numbers["sts/stsb/spearman"] == 86.26
    assert SOURCE in source
    assert numbers_of(trained("+experiment=angle_stsb", "training.lr=1e-4", name="b")) == ({}, "")


def test_a_second_stage_is_known_by_the_run_that_it_starts_from():
    first = trained("+experiment=raoe_s1_bert", name="raoe_s1_bert")
    config = Compositions().config("train", ["+experiment=raoe_s2_bert"])
    own = {**config, "backbone": {**config["backbone"], "name": str(first.resolve())}}
    numbers, _ = numbers_of(finished("second", own))
    assert numbers["sts/avg/spearman"] == 88.17
    other = {**config, "backbone": {**config["backbone"], "name": "outputs/no-such-run"}}
    assert numbers_of(finished("third", other)) == ({}, "")
