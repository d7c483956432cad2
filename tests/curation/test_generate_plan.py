import pytest

from embedrun.curation.generate import plan_generate
from embedrun.errors import ConfigError

LOCAL = {"kind": "local", "name": "x"}
HTTP = {"kind": "http", "url": "https://host/v1", "model": "m"}
GPU = {"device": "cpu", "precision": "fp32", "threads": 1, "deterministic": False}


def plain(**changes) -> dict:
    return {"output": "o", "input": "a.txt", "llms": [LOCAL], "gpu": GPU, **changes}


def problems(**changes) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        plan_generate(plain(**changes))
    return caught.value.problems


def test_a_plan_holds_the_options_the_data_set_and_the_share():
    config, dataset, shard = plan_generate(
        plain(input=None, dataset={"name": "stsb"}, column="text1", shard="1/3")
    )
    assert dataset.name == "stsb"
    assert (shard.index, shard.count) == (1, 3)
    assert config.llms[0].max_new_tokens == 512
    assert plan_generate(plain())[1].name == "texts"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"input": None}, "input: give either input=FILE or dataset=NAME, such as dataset=stsb"),
        ({"dataset": {"name": "stsb"}}, "input: give either input=FILE or dataset=NAME"),
        ({"column": "text1"}, "column: dataset=texts has no 'text1'; did you mean 'text'? (it has: text)"),
        (
            {"shard": "3/3"},
            "shard: expected I/N with I from 0 to N - 1 (the first of four is 0/4), got '3/3'",
        ),
        ({"llms": []}, "llms: give at least one, such as llms=[{kind: local, name: FOLDER}]"),
        ({"llms": [{"kind": "local"}]}, "llms[0].name: kind=local needs a value"),
        ({"llms": [{**LOCAL, "model": "m"}]}, "llms[0].model: only for kind=http, and this one is local"),
        (
            {"llms": [{**HTTP, "url": "host"}]},
            "llms[0].url: expected an address like https://HOST/v1 or http://HOST:PORT/v1",
        ),
        ({"gpu": {**GPU, "precision": "fp16"}}, "gpu.precision: fp16 needs a CUDA device"),
    ],
)
def test_each_fault_has_its_line(changes, problem):
    (found,) = problems(**changes)
    assert problem in found


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"split": "test"}, "split: dataset=nli has no test split (it has: train)"),
        ({"column": "text"}, "column: dataset=nli has no 'text'; did you mean 'text"),
        ({"dataset": {"name": "nlii"}}, "no data set 'nlii'; did you mean 'nli'?"),
    ],
)
def test_a_data_set_must_have_the_split_and_the_column(changes, words):
    (problem,) = problems(**{"input": None, "dataset": {"name": "nli"}, **changes})
    assert words in problem


@pytest.mark.parametrize("key", ["sk-canary-0123", "gsk_canary0123", "canary"])
def test_who_gives_the_key_itself_is_told_so_without_showing_it(key):
    (problem,) = problems(llms=[{**HTTP, "key_variable": key}])
    assert "the name of an environment variable (capitals, digits and _), not the key itself" in problem
    assert "canary" not in problem


def test_faults_of_types_the_shard_the_gpu_and_each_model_come_together():
    found = problems(
        size="many",
        shard="4/4",
        gpu={**GPU, "precision": "fp16"},
        llms=[LOCAL, {**HTTP, "seed": "x"}, {**LOCAL, "url": "https://host"}],
    )
    assert [problem.partition(":")[0] for problem in found] == [
        "llms[1].seed",
        "size",
        "shard",
        "llms[2].url",
        "gpu.precision",
    ]
