from pathlib import Path

from embedrun.dataset.named import presets_by_data_set
from embedrun.store import Store
from embedrun.store.catalogue import Catalogue


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


def test_our_presets_are_all_read():
    found = presets_by_data_set(Store(Path("none")), Catalogue.read())
    assert {"angle_bert"} <= set(found["snli"])
    assert "angle_stsb" in found["stsb"]
    assert all("quickstart" not in names for names in found.values())
