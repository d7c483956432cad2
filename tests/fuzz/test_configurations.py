"""Command lines and presets that were changed, composed and checked: nothing is trained, scored or asked."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import fuzz

from embedrun import reference
from embedrun.config import presets
from embedrun.config.check import options_of
from embedrun.config.compose import composed
from embedrun.curation.annotation.annotate import plan_annotate
from embedrun.curation.generation.plan import plan_generate
from embedrun.experiment.plan import plan_evaluate, plan_train

PLANS: dict[str, Callable[[Any], object]] = {
    "train": plan_train,
    "evaluate": plan_evaluate,
    "annotate": plan_annotate,
    "generate": plan_generate,
}
TYPED = {
    "train": (
        ["+experiment=quickstart"],
        ["+experiment=angle_stsb", "pooling=cls", "training.lr=1e-5", "training.batch_size=32"],
        ["dataset=pairs", "dataset.path=a.csv", "dataset.columns={text1: a, text2: b, score: c}"],
        ["experiment=cosent_bert", "loss.terms.cosent.weight=2", "evaluation=[sts,geometry]", "seed=3"],
        ["+experiment=quickstart", "gpu.precision=bf16", "tracking=local", "~evaluation", "hydra.run.dir=x"],
        ["dataset=triplets", "dataset.path=a.jsonl", "backbone.name=x", "backbone.adapter.r=4"],
        ["-m", "+experiment=quickstart", "seed=1,2,3", "training.lr=range(1,3)"],
    ),
    "evaluate": (
        ["model=x/y", "evaluation=sts"],
        ["run:latest", "evaluation=heldout", "dataset=toy"],
        ["model=x", "evaluation=sts_senteval", "evaluation.batch_tokens=1000", "pooling=mean"],
    ),
    "annotate": (
        ["output=o", "teachers=[{name: A}, {name: B, prompt: 'q: '}]", "shard=0/4"],
        ["mode=mine", "output=o", "teachers=[{name: A}]", "mining.num_negatives=2", "dataset=pairs",
         "dataset.path=a.tsv"],
    ),
    "generate": (
        ["input=a.txt", "output=o", "llms=[{kind: local, name: A, max_new_tokens: 9, temperature: 0}]"],
        ["dataset=stsb", "column=text1", "output=o", "size=4", "dry_run=true",
         "llms=[{kind: http, url: 'https://a/v1', model: B, key_variable: KEY}]"],
    ),
}  # fmt: skip
VALUES = (
    *("null", "true", "-1", "0", "1e400", "nan", "inf", "9" * 400, "9" * 5000, "''", "[]", "{}", "???"),
    *("[a,b]", "{a: 1}", "{a: {b: [1, {c: null}]}}", "1,2", "range(1,9)", "glob(*)", "choice(1,2)"),
    *("${seed}", "${oc.env:HOME}", "${oc.env:HF_TOKEN}", "${a.b}", "${positive_from:x}", "${", "'", '"', "("),
    *("int(1)", "extend_list(1)", "shuffle(a,b)", "tag(x,1)", "[" * 200, "{a: " * 200, "é", "\0", "\ud800"),
    *("${hydra:job.num}", "run:x", "/dev/zero", "x" * 300, "a=b", "@", "1_000", "0x10", "~", "::", "%s"),
    *("sort(3,1)", "\\", "../x", "a b"),
)
KEYS = (
    *("+", "++", "~", "hydra.run.dir", "hydra/launcher", "hydra.job.chdir", "hydra.mode", "@", "a/b", "a.b"),
    *("_target_", "loss.terms.x._target_", "loss@x", "trust_remote_code", "seed", "name", "", "=", "0"),
)
MARKS = ("=", ",", "[", "]", "{", "}", ":", "$", "'", " ", "/")


def _typed(random: Random, command: str) -> list[str]:
    words = [*random.choice(TYPED[command])]
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(words)) if words else 0
        how = random.random()
        if how < 0.45 and words:
            key, _, _ = words[at].partition("=")
            words[at] = f"{key}={random.choice(VALUES)}"
        elif how < 0.6:
            words.insert(at, f"{random.choice(KEYS)}={random.choice(VALUES)}")
        elif how < 0.7 and words:
            words[at] = random.choice(("+", "++", "~")) + words[at]
        elif how < 0.85:
            words.insert(at, f"{random.choice(_paths(command))}={random.choice(VALUES)}")
        elif words:
            words[at] = fuzz.text(
                random, words[at], words=("=", ",", "[", "]", "{", "}", ":", "$", "'", " ", "/")
            )
    return words


def _paths(command: str) -> list[str]:
    return [*options_of(reference.COMMANDS[command]), *presets.groups()]


OWN = (
    {"defaults": ["quickstart", {"override /loss": "cosent"}, "_self_"], "name": "mine", "seed": 2,
     "training": {"lr": 1e-4, "max_steps": 3}, "evaluation": {"tasks": {"sts": {"weight": 1}}}},
    {"name": "mine", "dataset": {"name": "pairs", "path": "a.csv", "columns": {"text1": "a", "text2": "b"}},
     "hydra": {"sweeper": {"params": {"seed": "1,2"}}}},
    {"loss": {"terms": {"ranking": {"weight": 1.0, "name": "rank_distillation", "temperature": 0.05}}}},
)  # fmt: skip


@fuzz.sizes(few=8, many=3_000)
def test_configurations(count, fresh, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def read(random: Random) -> None:
        command = random.choices(list(PLANS), (5, 2, 2, 2))[0]
        words = _typed(random, command) if random.random() < 0.7 else [*random.choice(TYPED[command])]
        if command == "train" and random.random() < 0.3:
            folder: Path = fresh()
            text = fuzz.yaml_text(random, random.choice(OWN))
            head = "# @package _global_\n" if random.random() < 0.9 else "# @package a.b\n"
            fuzz.write(random, folder / "experiment" / "mine.yaml", head + text)
            words = ["+experiment=mine", *words[1:], "--config-dir", str(folder)]
        parser = import_module(f"embedrun.commands.{command}").parser()
        request = parser.request(words)
        assert request is not None
        PLANS[command](composed(request).config)

    fuzz.trial("configurations", count, read)
