from pathlib import Path

QUICK = "+experiment=quickstart"


def test_a_valid_configuration_is_priced_and_nothing_is_written(embedrun):
    checked = embedrun(
        "check",
        QUICK,
        "training.batch_size=16",
        "training.accumulate=4",
        "training.micro_batch_size=8",
        "loss=cosent",
    )
    assert (checked.code, checked.err) == (0, "")
    lines = [" ".join(line.split()) for line in checked.out.splitlines()]
    for line in (
        "experiment quickstart",
        "loss 1 cosent",
        "data set toy (pair: left, right)",
        "selected by toy dev, every 187 steps and at the end",
        "evaluation heldout",
        "rows a step 64 (4 x 16)",
        "rows a loss compares 16",
        "rows encoded at a time 8",
        "passes through the encoder left, right",
        "teachers none",
        "the configuration is valid",
    ):
        assert line in lines
    assert not list(Path.cwd().iterdir())


def test_it_needs_neither_the_model_nor_the_data(embedrun):
    checked = embedrun("check", "experiment=angle_bert")
    assert checked.code == 0
    assert "google-bert/bert-base-uncased" in checked.out


def test_every_experiment_is_valid(embedrun):
    from embedrun import presets

    for name in presets.groups()["experiment"]:
        assert embedrun("check", f"experiment={name}").code == 0, name


def test_faults_are_reported_as_train_reports_them(refused):
    faults = (QUICK, "training.lr=-1", "training.lrr=1", "gpu.device=cdua")
    said = refused("check", *faults)
    assert "config has 3 problems" in said
    assert said == refused("train", *faults)
