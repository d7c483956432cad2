"""A data set by one word, what cannot be read, and which presets need it."""

from pathlib import Path

import pytest

from embedrun.dataset.named import data_set, presets_by_data_set, unreadable
from embedrun.dataset.published import Sts, Stsb
from embedrun.dataset.toy import Toy
from embedrun.store import Store
from embedrun.store.catalogue import Catalogue

pytestmark = pytest.mark.usefixtures("_alone", "_quick_plots")


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("stbs", r"no data set 'stbs'; did you mean 'stsb'\? \(there are: .*sts12, sts13"),
        ("pairs", r"'pairs' needs options \(path\), .*'embedrun check dataset=pairs dataset.path=...'"),
    ],
)
def test_a_word_that_is_not_enough_is_refused_with_the_way_on(word, reason):
    with pytest.raises(ValueError, match=reason):
        data_set(word)


def preset(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / "conf" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_preset_needs_what_it_trains_on_is_selected_by_and_scores(tmp_path):
    for group, choice, text in (
        ("dataset", "nli", "name: nli\nsources: [snli, mnli]\n"),
        ("dataset", "toy", "name: toy\n"),
        ("dataset", "nli_again", "defaults: [nli, _self_]\nsources: [snli]\n"),
        ("dataset", "pairs", "name: pairs\npath: ???\n"),
        ("evaluation", "sts", "tasks: {sts: {sets: [sts12, sickr]}}\n"),
        ("evaluation", "none", "tasks: {}\n"),
    ):
        preset(tmp_path, f"{group}/{choice}", text)
    preset(tmp_path, "train", "defaults: [{dataset: nli}, {evaluation: sts}, _self_]\n")
    preset(tmp_path, "experiment/a", "dataset: {sources: [mnli]}\n")
    preset(
        tmp_path, "experiment/b", "defaults: [override /dataset: toy]\n".replace("[", "[{").replace("]", "}]")
    )
    preset(tmp_path, "experiment/c/d", "defaults: [/experiment/a, {override /evaluation: none}]\n")
    preset(
        tmp_path, "experiment/own", "defaults: [{override /dataset: pairs}, {override /evaluation: none}]\n"
    )
    preset(
        tmp_path,
        "experiment/on",
        "defaults: [{override /dataset: nli_again}, {override /evaluation: none}]\n",
    )
    found = presets_by_data_set(Store(tmp_path / "none"), Catalogue.read(), tmp_path / "conf")
    assert found == {
        "mnli": ["a", "c/d"],
        "sickr": ["a", "b"],
        "snli": ["on"],
        "sts12": ["a", "b"],
        "stsb": ["a", "c/d", "on"],  # whose dev split selects, since NLI has none
    }


def test_all_missing_files_of_the_store_are_one_problem_and_each_is_named_once(tmp_path):
    splits = [(Stsb(), "dev"), (Sts(year=12), "test"), (Stsb(), "dev"), (Toy(), "train")]
    (problem,) = unreadable(splits, Store(tmp_path))
    assert problem.startswith("stsb/dev.tsv.gz, sts/sts12.tsv.gz: not in the data folder")
