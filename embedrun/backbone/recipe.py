"""How a run that has not finished makes its encoder, from its `config.yaml`."""

from dataclasses import dataclass, replace
from pathlib import Path

from embedrun import files
from embedrun.backbone.declared import Declared
from embedrun.config import BackboneConfig, Checker, EvaluationConfig, PoolingConfig
from embedrun.errors import ConfigError, DataError
from embedrun.prompt import in_use, of

_TRAINING_HEAD = "cls_mlp"


@dataclass(frozen=True)
class Recipe:
    """The options behind an encoder.

    Args:
        backbone: which model it starts from.
        pooling: how token vectors become one.
        evaluation: the prompt of use is among its options.
    """

    backbone: BackboneConfig
    pooling: PoolingConfig
    evaluation: EvaluationConfig

    @property
    def drops_head(self) -> bool:
        """Whether a layer behind the pooling is there for training alone."""
        return self.pooling.name == _TRAINING_HEAD and not self.pooling.keep_head


def recipe(run: Path) -> Recipe:
    """The recipe of a run.

    Args:
        run: its directory.

    Raises:
        DataError: if its `config.yaml` cannot be read, or has other options than this version.
    """
    path = run / "config.yaml"
    try:
        plain = files.read_yaml(path)
        groups = {name: plain[name] for name in ("backbone", "pooling", "evaluation")}
    except (OSError, ValueError, LookupError, TypeError) as fault:
        reason = " ".join(str(fault).split())
        raise DataError(
            f"{path}: cannot be read ({reason}), and says what the checkpoints of the run belong to"
        ) from fault
    checker = Checker()
    built = checker.build(Recipe, groups)
    if built is None:
        raise DataError([f"{path}: {problem}" for problem in checker.problems])
    return built


def in_place_of(base: Declared, made: Recipe) -> Declared:
    """How the model is used: what the files of the finished run would say.

    Args:
        base: what the files say of the model that the run started from.
        made: the recipe.

    Raises:
        DataError: if the prompt of the recipe is none.
    """
    pooling, says = made.pooling, base
    if pooling.name != "auto":
        says = replace(
            base,
            pooling="cls" if made.drops_head else pooling.name,
            pooling_file="config.yaml of its run",
            first_layer=pooling.first_layer,
            padded_to=pooling.padded_to,
            foreign=(),
            head=None,
        )
    try:
        trained = base.prompt if made.backbone.prompt is None else of(made.backbone.prompt)
        prompt = in_use(trained, made.evaluation.prompt, made.evaluation.text_edit)
    except ConfigError as fault:  # a file's, not the user's
        raise DataError(fault.problems) from fault
    return replace(
        says,
        normalize=base.normalize if pooling.normalize is None else pooling.normalize,
        max_length=made.backbone.max_length or base.max_length,
        prompt=prompt,
        named=base.named if prompt == base.prompt else {},
    )
