"""One step of every preset of conf/experiment and of every backbone, on the simulated device.

Each preset keeps its losses, pooling, adapter, prompts, optimizer, accumulation, parts and seeds; it has a
small model of its own architecture and 24 rows. QLoRA presets have LoRA on whole weights: neither this device
nor a processor has weights of 4 bits. Every step is compared with the processor's.
"""

import copy
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
import small_models
import torch
from pretended_cuda import Device
from torch import Tensor
from transformers import AutoTokenizer
from whole_step import Words

from embedrun.config.compose import composed
from embedrun.config.presets import folder, stages
from embedrun.config.request import Request
from embedrun.dataset.masking import with_masking
from embedrun.errors import ConfigError
from embedrun.experiment.build import build
from embedrun.experiment.data import Divided
from embedrun.experiment.plan import TrainPlan, plan_train
from embedrun.files import Plain
from embedrun.gpu import Compute
from embedrun.rows import FORMS, Rows
from embedrun.training.checkpoint import seed_random
from embedrun.training.order import Draw
from embedrun.training.processes import Processes

pytestmark = pytest.mark.pretend

ROWS, PART, TOKENS = 24, 6, 32  # rows: more than the 16 ranks that raoe_s1_qwen sets apart
# The parts of a mixture are steps of other presets.
MIXTURES = ("mixture_nli_stsb", "study_mixture")
PRESETS = sorted(
    name
    for name in {path.stem for path in (folder() / "experiment").glob("*.yaml")} - {*MIXTURES}
    if not stages(name, [folder()])  # presets of their own
)
BACKBONES = sorted(path.stem for path in (folder() / "backbone").glob("*.yaml"))
# As test_mixes.py has them.
BARS = {"bf16": 2.0**-4, "fp16": 2.0**-7, "tf32": 1e-4}
WORDS = (
    "a little dog ran fast over the hill and was happy to see the big red ball again one cat sits who runs",
    "dogs were running playing barking all day nobody liked that",
)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A folder with a small model of each architecture."""
    place = tmp_path_factory.mktemp("models")
    folders = {family: str(small_models.put(place / family, family)) for family in small_models.FAMILIES}
    words = AutoTokenizer.from_pretrained(folders["roberta"])  # has no mask token; one of its tokens is that
    words.add_special_tokens({"mask_token": words.convert_ids_to_tokens(300)})
    words.save_pretrained(folders["roberta"])
    return folders


def family_of(name: str) -> str:
    """The architecture of a model of the hub, or of a run that is named after it."""
    known = {"modernbert": "modernbert", "roberta": "roberta", "llama": "llama", "qwen": "qwen2"}
    return next((family for word, family in known.items() if word in name.lower()), "bert")


@cache
def configuration(*overrides: str) -> Plain:
    own_rows = ("dataset.path=texts.txt",) if overrides == ("+experiment=mlm",) else ()
    return composed(Request(command="train", overrides=(*overrides, *own_rows))).config


def made_small(plain: Plain, models: dict[str, str]) -> dict[str, Any]:
    """A configuration with a small model and small batches; the rest as it stands."""
    small = copy.deepcopy(dict(plain))
    backbone, training, evaluation = small["backbone"], small["training"], small["evaluation"]
    if backbone["name"] is None:
        backbone["scratch"] |= {"layers": 2, "width": 16, "heads": 2, "vocabulary": 200}
    else:
        first_stage = backbone["name"].removeprefix("run:")
        if first_stage != backbone["name"]:
            backbone["adapter"] = configuration(f"+experiment={first_stage}")["backbone"]["adapter"]
        backbone["name"] = models[family_of(backbone["name"])]
        backbone["layers"] = backbone["layers"] and 1
    if backbone["adapter"] is not None:
        backbone["adapter"] = {**backbone["adapter"], "quantize": None}
        backbone["dtype"] = None  # float32: otherwise both are rounded to 8 bits, and differ by that
    backbone["max_length"] = TOKENS
    evaluation["max_length"] = evaluation["max_length"] and TOKENS
    training["batch_size"] = ROWS
    training["accumulate"] = min(training["accumulate"], 2)
    training["micro_batch_size"] = training["micro_batch_size"] and PART
    for teacher in training["teachers"] or ():
        teacher["name"] = models[family_of(teacher["name"])]
    if small["dataset"].get("masking"):
        small["dataset"]["masking"]["least_words"] = 3
    return small


def rows_of(plan: TrainPlan) -> Rows:
    """Rows of the form that the preset's data set has, with every target."""
    random = np.random.default_rng(11)
    words = " ".join(WORDS).split()

    def texts() -> list[str]:
        return [" ".join(random.choice(words, random.integers(2, 24))) for _ in range(ROWS)]

    targets = {
        "score": random.integers(0, 6, ROWS) / 5,
        "label": np.arange(ROWS) % 3,
        "hard_negatives": np.ones(ROWS, dtype=np.int64),
    }
    form = plan.dataset.form
    rows = Rows("made up", "train", form, {view: texts() for view in FORMS[form]}, targets)
    return with_masking(rows, getattr(plan.dataset, "masking", None))


def taken(small: Plain, device: str, precision: str) -> tuple[float, dict[str, Tensor]]:
    """Loss of the first step, and the gradient of every weight that it trains, by name."""
    plan = plan_train({**small, "gpu": {**small["gpu"], "device": device, "precision": precision}})
    seed_random(plan.config.seed)
    compute = Compute(torch.device(device), precision)
    rows = rows_of(plan)
    built = build(plan, Divided({"": rows}, {"": rows}, None, "nothing"), compute, Processes())
    stepper, gradient = built.stepper, {}
    if plan.config.training.teachers and plan.config.training.seeded_dropout:
        # Cosines of small teachers differ by 1.6e-7: rounding would decide the order that is learnt.
        stepper._teachers = Words(torch.float32)  # type: ignore[assignment]
    # Torch's own scale, 65536, costs up to ten skipped steps a test.
    stepper.scaler = torch.amp.GradScaler(device, init_scale=2.0**6, enabled=precision == "fp16")

    def keep(*_: Any, **__: Any) -> None:
        for name, weight in stepper.trained.named_parameters():
            if weight.grad is not None:
                gradient[name] = weight.grad.detach().cpu()

    stepper.optimizer.step = keep  # type: ignore[method-assign]
    batches = [
        built.feed.batch(Draw(number, 0, np.arange(ROWS)))
        for number in range(plan.config.training.accumulate)
    ]
    return float(stepper.take(1, 10, batches)["loss"]), gradient


def flat(gradient: dict[str, Tensor]) -> Tensor:
    return torch.cat([gradient[name].flatten() for name in sorted(gradient)])


@cache
def of_the_processor(overrides: tuple[str, ...], models: tuple[tuple[str, str], ...]) -> tuple[float, Tensor]:
    """With dropout by seeds, which is the same on every device."""
    loss, gradient = taken(seeded(made_small(configuration(*overrides), dict(models))), "cpu", "fp32")
    return loss, flat(gradient)


def seeded(small: dict[str, Any]) -> dict[str, Any]:
    return {**small, "training": {**small["training"], "seeded_dropout": True}}


def check(overrides: tuple[str, ...], precision: str, models: dict[str, str]) -> None:
    """The step as it stands is finite; with dropout by seeds it has the gradient of the processor's."""
    small = made_small(configuration(*overrides), models)
    loss, gradient = taken(small, "cuda", precision)
    assert math.isfinite(loss)
    assert flat(gradient).isfinite().all()
    expected_loss, expected = of_the_processor(overrides, tuple(models.items()))
    loss, gradient = taken(seeded(small), "cuda", precision)
    assert loss == pytest.approx(expected_loss, rel=BARS[precision])
    assert float((flat(gradient) - expected).norm()) <= BARS[precision] * float(expected.norm())


@pytest.mark.parametrize("precision", BARS)
@pytest.mark.parametrize("preset", PRESETS)
def test_a_step_of_a_preset(device: Device, models: dict[str, str], preset: str, precision: str):
    overrides = (f"+experiment={preset}",)
    if precision == "fp16" and configuration(*overrides)["training"]["optimizer"] == "sam":
        with pytest.raises(ConfigError, match="fp16"):
            taken(made_small(configuration(*overrides), models), "cuda", precision)
        return
    check(overrides, precision, models)


@pytest.mark.parametrize("precision", BARS)
@pytest.mark.parametrize("backbone", BACKBONES)
def test_a_step_of_a_backbone(device: Device, models: dict[str, str], backbone: str, precision: str):
    check(("+experiment=quickstart", f"backbone={backbone}"), precision, models)
