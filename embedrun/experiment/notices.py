"""Where a run departs from what the files of its model say."""

from collections.abc import Sequence

from embedrun.backbone.declared import Declared
from embedrun.backbone.shape import shape_of
from embedrun.config import BackboneConfig, EvaluateConfig, PoolingConfig, TrainConfig
from embedrun.config.presets import named
from embedrun.console import say_and_log
from embedrun.pooling import HEAD, POOLINGS
from embedrun.prompt import PLACE


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
    trains = isinstance(config, TrainConfig)
    backbone = config.backbone if trains else model_of(config)
    if backbone.scratch is not None:
        return []
    if declared is None:
        shape = shape_of(backbone)
        declared = shape and shape.declared
    if declared is None:
        return []
    facts = [
        _pooling(config.pooling, declared, overrides),
        _normalize(config.pooling, declared, overrides),
        *_lengths(config, declared, overrides),
        _prompt("backbone.prompt", backbone.prompt, declared, overrides),
        _prompt("evaluation.prompt", config.evaluation.prompt, declared, overrides),
    ]
    return [f"{backbone.name} {fact}" for fact in facts if fact]


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


def _pooling(pooling: PoolingConfig, declared: Declared, overrides: Sequence[str]) -> str | None:
    # A head that only training has is gone when the model is used.
    used = "cls" if pooling.name == HEAD and not pooling.keep_head else pooling.name
    if declared.pooling in (None, pooling.name, used) or pooling.name == "auto":
        return None
    way_on = f"pooling=auto {_TAKES}"
    if declared.pooling not in POOLINGS:
        way_on = "embedrun does not have what the model declares"
    elif declared.foreign:  # auto would be refused
        way_on = f"pooling={declared.pooling} takes the pooling that the model declares"
    decided = _decided(overrides, "pooling", "pooling.name")
    return _line("pooling", declared, f"{declared.pooling} pooling", f"uses {pooling.name}", decided, way_on)


def _normalize(pooling: PoolingConfig, declared: Declared, overrides: Sequence[str]) -> str | None:
    given, option = pooling.normalize, "pooling.normalize"
    if given is None or declared.normalize in (None, given):
        return None
    says, does = "vectors of length 1", "leaves their length"
    if given:
        says, does = "vectors of any length", "scales them to length 1"
    return _line("normalize", declared, says, does, _decided(overrides, option), f"{option}=null {_TAKES}")


_READS = {"backbone.max_length": "trains on", "evaluation.max_length": "scores", "max_length": "reads"}


def _lengths(
    config: TrainConfig | EvaluateConfig, declared: Declared, overrides: Sequence[str]
) -> list[str | None]:
    """A line for each length that departs, and one for both where these are equal."""
    asked = {"evaluation.max_length": config.evaluation.max_length}
    if isinstance(config, TrainConfig):
        asked = {"backbone.max_length": config.backbone.max_length, **asked}
    elif config.max_length is not None:
        asked = {"max_length": config.max_length}
    stored = declared.max_length
    given = {option: tokens for option, tokens in asked.items() if stored and tokens not in (None, stored)}
    found: list[str | None] = []
    for tokens in dict.fromkeys(given.values()):
        own = [option for option in given if given[option] == tokens]
        does = f"{_READS[own[0]] if len(own) == 1 else 'reads'} {tokens}"
        way_on = f"{' '.join(f'{option}=null' for option in own)} {_TAKES}"
        decided = _decided(overrides, *own)
        found.append(_line("max_length", declared, f"texts of {stored} tokens", does, decided, way_on))
    return found


def _prompt(option: str, given: str | None, declared: Declared, overrides: Sequence[str]) -> str | None:
    says = declared.prompt and declared.prompt.template
    if given is None or says in (None, given):
        return None
    does = "uses none" if given == PLACE else f"uses {given!r}"
    return _line(
        "prompt",
        declared,
        f"the prompt {says!r}",
        does,
        _decided(overrides, option),
        f"{option}=null {_TAKES}",
    )


_TAKES = "takes what the model declares"


def _line(what: str, declared: Declared, says: str, does: str, decided: str, way_on: str) -> str:
    file = declared.files[what]
    return f"declares {says} ({file}); this run {does}{decided and f' ({decided})'}: {way_on}"


def _decided(overrides: Sequence[str], *keys: str) -> str:
    """The override that gave an option its value: the last of these keys, else the experiments'."""
    own = [one for one in overrides if one.partition("=")[0].lstrip("+") in keys]
    return own[-1] if own else ", ".join(f"+experiment={name}" for name in named(overrides))
