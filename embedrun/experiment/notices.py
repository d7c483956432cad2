"""Where a run departs from what the files of its model say."""

from collections.abc import Sequence

from embedrun.backbone.declared import Declared
from embedrun.backbone.shape import shape_of
from embedrun.config import BackboneConfig, EvaluateConfig, PoolingConfig, TrainConfig
from embedrun.config.presets import named
from embedrun.console import say_and_log
from embedrun.pooling import HEAD, POOLINGS
from embedrun.prompt import PLACE

_TAKES = "takes what the model declares"
_READS = {"backbone.max_length": "trains on", "evaluation.max_length": "scores", "max_length": "reads"}


def notices(
    config: TrainConfig | EvaluateConfig, overrides: Sequence[str], declared: Declared | None = None
) -> list[str]:
    """A line for each setting that the model's files state and the run overrides.

    Empty where the files state nothing, where both agree, and for a model that is not on this machine.
    `overrides` are what the user changed, to name what has decided. `declared` is that of a loaded model;
    without it, the model's files are read.

    Raises:
        DataError: if the model is here and its files are faulty.
    """
    backbone = config.backbone if isinstance(config, TrainConfig) else model_of(config)
    if declared is None and backbone.scratch is None and (shape := shape_of(backbone)) is not None:
        declared = shape.declared
    if declared is None or backbone.scratch is not None:
        return []
    lines = [*_pooling(config.pooling, declared), *_lengths(config, declared)]
    prompt = declared.prompt and declared.prompt.template
    given = {"backbone.prompt": backbone.prompt, "evaluation.prompt": config.evaluation.prompt}
    for option, text in given.items():
        if text is not None and prompt not in (None, text):
            does = "uses none" if text == PLACE else f"uses {text!r}"
            lines.append(("prompt", f"the prompt {prompt!r}", does, [option], f"{option}=null {_TAKES}"))
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


def _pooling(pooling: PoolingConfig, declared: Declared) -> list[_Line]:
    lines: list[_Line] = []
    # A head that only training has is gone when the model is used.
    used = "cls" if pooling.name == HEAD and not pooling.keep_head else pooling.name
    if declared.pooling not in (None, pooling.name, used) and pooling.name != "auto":
        next_step = f"pooling=auto {_TAKES}"
        if declared.pooling not in POOLINGS:
            next_step = "embedrun does not have what the model declares"
        elif declared.foreign:  # auto would be refused
            next_step = f"pooling={declared.pooling} takes the pooling that the model declares"
        does, options = f"uses {pooling.name}", ["pooling", "pooling.name"]
        lines.append(("pooling", f"{declared.pooling} pooling", does, options, next_step))
    option = "pooling.normalize"
    if pooling.normalize is not None and declared.normalize not in (None, pooling.normalize):
        states, does = ("vectors of any length", "scales them to length 1")
        if not pooling.normalize:
            states, does = ("vectors of length 1", "leaves their length")
        lines.append(("normalize", states, does, [option], f"{option}=null {_TAKES}"))
    return lines


def _lengths(config: TrainConfig | EvaluateConfig, declared: Declared) -> list[_Line]:
    """A line for each length that departs."""
    lengths = {"evaluation.max_length": config.evaluation.max_length}
    if isinstance(config, TrainConfig):
        lengths = {"backbone.max_length": config.backbone.max_length, **lengths}
    elif config.max_length is not None:
        lengths = {"max_length": config.max_length}
    return [
        (
            "max_length",
            f"texts of {declared.max_length} tokens",
            f"{_READS[option]} {tokens}",
            [option],
            f"{option}=null {_TAKES}",
        )
        for option, tokens in lengths.items()
        if declared.max_length and tokens not in (None, declared.max_length)
    ]


def _decided(overrides: Sequence[str], options: Sequence[str]) -> str:
    """The override that gave an option its value, in brackets: the last of these, else the experiments'."""
    typed = [override for override in overrides if override.partition("=")[0].lstrip("+") in options]
    by = typed[-1] if typed else ", ".join(f"+experiment={name}" for name in named(overrides))
    return by and f" ({by})"
