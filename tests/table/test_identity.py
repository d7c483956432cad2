from embedrun.table.cells import identity


def nothing(name: str) -> None:
    return None


CONFIG = {
    "schema": 1,
    "backbone": {"name": "some/model"},
    "training": {"lr": 1e-5, "resume": "never"},
    "gpu": {"device": "auto", "threads": None, "precision": "auto"},
    "seed": 1,
    "name": "one",
    "data_dir": None,
}


def changed(**groups: object) -> dict:
    return {**CONFIG, **groups}


def test_seed_name_and_machine_are_no_part_of_it():
    elsewhere = changed(
        seed=2,
        name="other",
        data_dir="/data",
        gpu={"device": "cuda", "threads": 4, "processes": 2, "precision": "auto"},
        training={"lr": 1e-5, "resume": "auto"},
    )
    del elsewhere["schema"]
    assert identity(elsewhere, nothing) == identity(CONFIG, nothing)


def test_what_decides_a_score_is():
    others = [
        changed(training={"lr": 2e-5, "resume": "never"}),
        changed(gpu={**CONFIG["gpu"], "precision": "bf16"}),
        changed(backbone={"name": "other/model"}),
        changed(scale="small"),
    ]
    keys = {identity(config, nothing) for config in [CONFIG, *others]}
    assert len(keys) == 5


def test_a_model_that_is_a_run_counts_as_what_it_refers_to_wherever_it_lies():
    def runs(name: str) -> dict | None:
        return {"run": "abc"} if name.endswith("first/run") else None

    here = changed(backbone={"name": "/here/first/run"})
    there = changed(backbone={"name": "/there/first/run"})
    assert identity(here, runs) == identity(there, runs) != identity(there, nothing)


def test_models_are_found_in_lists_and_only_under_their_keys():
    asked = []

    def note(name: str) -> None:
        asked.append(name)

    config = {
        "training": {"teachers": [{"name": "a"}, {"name": "b", "pooling": "c"}]},
        "model": "d",
        "e": "f",
    }
    identity(config, note)
    assert asked == ["a", "b", "d"]
