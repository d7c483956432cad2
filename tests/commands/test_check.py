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
        "also in the training data: no dev or test row",
        "also in the dev data: no test row",
        "the configuration is valid",
    ):
        assert line in lines
    assert not list(Path.cwd().iterdir())


def test_it_needs_neither_the_model_nor_the_data(embedrun):
    checked = embedrun("check", "experiment=angle_bert")
    assert checked.code == 0
    assert "google-bert/bert-base-uncased" in checked.out
    assert "contamination: not known without the data: nli/snli_train_sample.jsonl.gz, " in checked.out


def test_pairs_that_training_and_tests_share_are_counted_where_the_data_is_there(embedrun):
    Path("train.csv").write_text("text1,text2,score\na,b,1\nc,d,2\n", encoding="utf-8")
    Path("test.csv").write_text("text1,text2,score\nB,a!,1\ne,f,2\ng,h,0\n", encoding="utf-8")
    files = ("dataset.path=train.csv", "dataset.dev=train.csv", "dataset.test=test.csv")
    checked = embedrun("check", QUICK, "dataset=pairs", *files)
    assert (checked.code, checked.err) == (0, "")
    lines = checked.out.splitlines()
    shared = "33.3 % of the test pairs of pairs (1 of 3)"
    assert f"also in the training data: {shared}; 100.0 % of the dev pairs of pairs (2 of 2)" in lines
    assert f"also in the dev data: {shared}" in lines


def test_data_that_is_there_and_faulty_is_refused(refused):
    Path("mine.csv").write_text("text1,text2,score\na,b,high\n", encoding="utf-8")
    files = [f"dataset.{split}=mine.csv" for split in ("path", "dev", "test")]
    assert "mine.csv, line 2" in refused("check", QUICK, "dataset=pairs", *files, code=3)


def test_every_experiment_is_valid(embedrun):
    from embedrun import presets

    for name in presets.groups()["experiment"]:
        assert embedrun("check", f"experiment={name}").code == 0, name


def test_faults_are_reported_as_train_reports_them(refused):
    faults = (QUICK, "training.lr=-1", "training.lrr=1", "gpu.device=cdua")
    said = refused("check", *faults)
    assert "config has 3 problems" in said
    assert said == refused("train", *faults)
