import importlib
import json
import re

import pytest
import yaml
from huggingface_hub import ModelCard
from transformers import CONFIG_MAPPING

from embedrun.card import Source, card_text
from embedrun.export import NEAREST

OWN = {"schema": 2, "pooling": "mean", "normalize": True, "max_length": 64, "padded_to": None}


def card(folder, **changes):
    given = {
        "title": "My model",
        "base_model": "owner/name",
        "dataset": "nli",
        "scores": {"sts/avg/spearman": 82.366, "a|b": 1.0},
        "config_yaml": "seed: 42\n",
        "citations": ["Li & Li 2023, arXiv:2309.12871"],
        "license": "apache-2.0",
    }
    return card_text(folder, **{**given, **changes})


def test_the_card_has_front_matter_scores_configuration_and_citations(tmp_path):
    text = card(tmp_path)
    head = yaml.safe_load(text.split("---\n")[1])
    assert head["library_name"] == "sentence-transformers"
    assert head["pipeline_tag"] == "sentence-similarity"
    assert (head["base_model"], head["license"]) == ("owner/name", "apache-2.0")
    assert "| sts/avg/spearman | 82.37 |" in text
    assert "| a\\|b | 1.00 |" in text
    assert "```yaml\nseed: 42\n```" in text
    assert "- Li & Li 2023, arXiv:2309.12871" in text


def test_text_from_a_configuration_cannot_leave_its_place_in_the_card(tmp_path):
    text = card(tmp_path, title="A\n\n# B", config_yaml="note: '```'\n", base_model="x\ntags: [y]")
    assert "# A # B" in text
    assert "````yaml\nnote: '```'\n````" in text
    assert "base_model" not in yaml.safe_load(text.split("---\n")[1])


def own(folder, **changes):
    (folder / "embedrun.json").write_text(json.dumps({**OWN, **changes}))


@pytest.mark.parametrize(("name", "nearest"), NEAREST.items())
def test_a_pooling_that_averages_over_padding_is_said_to_be_another_elsewhere(name, nearest, tmp_path):
    own(tmp_path, pooling=name, padded_to=8)
    text = card(tmp_path)
    assert f"pooling `{name}`, which averages over padding, up to 8 tokens" in text
    assert f"`{nearest}`, and other vectors" in text


@pytest.mark.parametrize("kind", ["ran", "static"])
def test_an_architecture_of_ours_is_imported_from_a_module_that_knows_it(kind, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": f"embedrun_{kind}"}))
    module = re.search(r"`import (\S+)` before any other loads it", card(tmp_path))
    assert module is not None
    importlib.import_module(module[1])
    assert f"embedrun_{kind}" in CONFIG_MAPPING


def test_data_stand_with_their_licences_and_their_ids_on_the_hub(tmp_path):
    data = [Source("snli", "pairs", "CC BY-SA 4.0", "stanfordnlp/snli"), Source("mine", "", "not known")]
    text = card(tmp_path, sources=data, facts=["5 steps.", "Seed 1."])
    assert yaml.safe_load(text.split("---\n")[1])["datasets"] == ["stanfordnlp/snli"]
    assert "| snli | pairs | CC BY-SA 4.0 |\n| mine |  | not known |" in text
    assert "5 steps. Seed 1." in text


def test_the_hub_reads_the_scores_of_a_card(tmp_path):
    scores = {
        "sts/stsb/spearman": 85.78125,
        "stsb_dev/pearson": 80.0,
        "senteval/mr/accuracy": 76.0,
        "geometry/alignment": 0.5,
        "toy_test/spearman": float("nan"),
    }
    (tmp_path / "README.md").write_text(card(tmp_path, scores=scores, hub_ids={"stsb": "mteb/stsb"}))
    found = ModelCard.load(tmp_path / "README.md").data
    assert found.model_name == "My model"
    assert [
        (one.task_type, one.dataset_type, one.dataset_name, one.dataset_split, one.metric_type)
        for one in found.eval_results
    ] == [
        ("sentence-similarity", "mteb/stsb", "sts stsb", None, "spearman_cosine"),
        ("sentence-similarity", "mteb/stsb", "stsb_dev", "validation", "pearson_cosine"),
        ("text-classification", "senteval-mr", "senteval mr", None, "accuracy"),
        ("feature-extraction", "geometry", "geometry", None, "alignment"),
    ]
    assert [(one.metric_value, one.metric_name) for one in found.eval_results] == [
        (85.7812, "spearman, times 100"),
        (80.0, "pearson, times 100"),
        (76.0, "accuracy, times 100"),
        (0.5, "alignment"),
    ]
