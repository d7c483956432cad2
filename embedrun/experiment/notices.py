"""Where a run departs from what the files of its model say."""

from collections.abc import Mapping, Sequence

from embedrun.backbone.declared import Declared
from embedrun.backbone.shape import shape_of
from embedrun.config import BackboneConfig, EvaluateConfig, PoolingConfig, TrainConfig
from embedrun.config.presets import chosen
from embedrun.console import say_and_log
from embedrun.pooling import HEAD, POOLINGS
from embedrun.prompts import PLACE

_TAKES = "takes what the model declares"
_READS = {"backbone.max_length": "trains on", "evaluation.max_length": "scores", "max_length": "reads"}


def notices(
    config: TrainConfig | EvaluateConfig, overrides: Sequence[str], declared: Declared | None = None
) -> list[str]:
    """A line for each setting that the model's files state and the run overrides.

    Empty where the files state nothing, where both agree, and for a model that is not on this machine.
    `overrides` are what the user changed, to name what has decided. `declared` is that of a loaded model;
    without it, the model's files are read.
    """
    backbone = config.backbone if isinstance(config, TrainConfig) else model_of(config)
    if backbone.scratch is not None:
        return []
    if declared is None and (shape := shape_of(backbone)) is not None:
        declared = shape.declared
    if declared is None:
        return []
    prompts = {"backbone.prompt": backbone.prompt, "evaluation.prompt": config.evaluation.prompt}
    lines = [
        *_pooling(config.pooling, declared),
        *_normalize(config.pooling.normalize, declared),
        *_lengths(config, declared),
        *_prompts(prompts, declared),
    ]
    return [
        f"{backbone.name} declares {states} ({declared.files[what]}); this run {does}"
        f"{_decided(overrides, options)}: {next_step}"
        for what, states, does, options, next_step in lines
    ]


def tell(config: TrainConfig | EvaluateConfig, overrides: Sequence[str], declared: Declared) -> None:
    """Report the same of a loaded model, to the person and to the run's log."""
    for line in notices(config, overrides, declared):
        say_and_log(line)


def model_of(config: EvaluateConfig) -> BackboneConfig:
    """The model that is scored, as a backbone."""
    return BackboneConfig(
        name=config.model,
        revision=config.revision,
        layers=config.layers,
        max_length=config.max_length,
        attention="sdpa",
        scratch=None,
    )


def taken(pooling: PoolingConfig, declared: Declared | None) -> str:
    """The name of a pooling; for `auto` also what it stands for, if the model's files are here."""
    if pooling.name != "auto" or declared is None:
        return pooling.name
    if declared.pooling is None:
        return "auto: mean, since the model declares none"
    return f"auto: {declared.pooling}, which the model declares ({declared.files['pooling']})"


# What is declared, how, what the run does, the options that decide that, and what to type instead.
_Line = tuple[str, str, str, list[str], str]
_SCALES = {  # what the model declares and what the run does, by `pooling.normalize`
    True: ("vectors of any length", "scales them to length 1"),
    False: ("vectors of length 1", "leaves their length"),
}


def _of_option(what: str, states: str, does: str, option: str) -> _Line:
    return what, states, does, [option], f"{option}=null {_TAKES}"


def _pooling(pooling: PoolingConfig, declared: Declared) -> list[_Line]:
    # A head that only training has is gone when the model is used.
    used = "cls" if pooling.name == HEAD and not pooling.keep_head else pooling.name
    if pooling.name == "auto" or declared.pooling in (None, pooling.name, used):
        return []
    next_step = f"pooling=auto {_TAKES}"
    if declared.pooling not in POOLINGS:
        next_step = "embedrun does not have what the model declares"
    elif declared.foreign:  # auto would be refused
        next_step = f"pooling={declared.pooling} takes the pooling that the model declares"
    options = ["pooling", "pooling.name"]
    return [("pooling", f"{declared.pooling} pooling", f"uses {pooling.name}", options, next_step)]


def _normalize(scales: bool | None, declared: Declared) -> list[_Line]:
    if scales is None or declared.normalize in (None, scales):
        return []
    return [_of_option("normalize", *_SCALES[scales], "pooling.normalize")]


def _prompts(prompts: Mapping[str, str | None], declared: Declared) -> list[_Line]:
    states = declared.prompt and declared.prompt.template
    does = {PLACE: "uses none"}
    return [
        _of_option("prompt", f"the prompt {states!r}", does.get(template, f"uses {template!r}"), option)
        for option, template in prompts.items()
        if states is not None and template not in (None, states)
    ]


def _lengths(config: TrainConfig | EvaluateConfig, declared: Declared) -> list[_Line]:
    lengths = {"evaluation.max_length": config.evaluation.max_length}
    if isinstance(config, TrainConfig):
        lengths = {"backbone.max_length": config.backbone.max_length, **lengths}
    elif config.max_length is not None:
        lengths = {"max_length": config.max_length}
    states = f"texts of {declared.max_length} tokens"
    return [
        _of_option("max_length", states, f"{_READS[option]} {tokens}", option)
        for option, tokens in lengths.items()
        if declared.max_length and tokens not in (None, declared.max_length)
    ]


def _decided(overrides: Sequence[str], options: Sequence[str]) -> str:
    """The override that gave an option its value, in brackets: the last of these, else the experiments'."""
    typed = [override for override in overrides if override.partition("=")[0].lstrip("+") in options]
    by = typed[-1] if typed else ", ".join(f"+experiment={name}" for name in chosen(overrides, "experiment"))
    return by and f" ({by})"
