"""What trains: encoder, losses, rows as tokens, and their order, from a plan."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain

import numpy as np
from torch.nn import ModuleDict

from embedrun.backbone.adapter import count
from embedrun.backbone.masked_language import head_of, hiding
from embedrun.backbone.tokens import tokenize
from embedrun.config import BackboneConfig, PoolingConfig, TrainConfig, TrainingConfig
from embedrun.config.mixture import parts_of
from embedrun.dataset import roles_of, views_of
from embedrun.dataset.mix import Mix as Mixed
from embedrun.dataset.mix import each
from embedrun.encoder import Encoder
from embedrun.errors import ConfigError
from embedrun.experiment import baseline
from embedrun.experiment.data import Divided
from embedrun.experiment.plan import TrainPlan
from embedrun.gpu import Compute
from embedrun.loss.mix import Mix
from embedrun.loss.terms import Pass, reads_tokens
from embedrun.prompts import Prompt, by_role, in_training, in_use
from embedrun.rows import Rows, numbered_negatives
from embedrun.store import cache
from embedrun.training import shards
from embedrun.training.feed import Feed, Feeds, Teachers, encoded, order_of
from embedrun.training.mixture import Mixture, mixed_batches
from embedrun.training.order import Draw, Schedule
from embedrun.training.processes import Processes
from embedrun.training.step import Stepper


@dataclass(frozen=True)
class Built:
    """What trains: an untrained encoder, and the rows as tokens; `order` has the rows of each step."""

    encoder: Encoder
    stepper: Stepper
    feed: Feed | Feeds
    order: Schedule


def build(plan: TrainPlan, rows: Divided, compute: Compute, processes: Processes) -> Built:
    """Everything that training needs, made in one order, so that a seed determines the run."""
    config, train = plan.config, rows.train
    encoder, trained_prompt, declared = build_encoder(plan, rows, compute)
    feeds: dict[str, Feed] = {}
    steps = {layers.every for losses in plan.losses.values() for layers in losses.layers}
    if len(steps) > 1 or len({len(losses.layers) for losses in plan.losses.values()}) > 1:
        raise ConfigError("loss.layers: the parts of a mixture share one encoding pass; give it for all")
    encoder.layers_every = next(iter(steps), None)
    guesses = any(reads_tokens(term) for losses in plan.losses.values() for term in losses.terms.values())
    for part, losses in plan.losses.items():
        if (most := max(losses.cuts, default=0)) > encoder.dim:
            raise ConfigError(
                f"loss.matryoshka.dims: {most} is more than the {encoder.dim} numbers of the model's vectors"
            )
        _check_views(losses.passes.values(), encoder.backbone.max_length)
        feeds[part] = Feed(
            train[part],
            partial(tokenize, encoder.backbone),
            losses.passes,
            losses.targets,
            seed=config.seed,
            processes=processes,
            mask=_mask(train[part], encoder),
            prompts=prompts_of(plan, trained_prompt, declared, part),
            anew=encoder.backbone.tokenize,
            hide=hiding(encoder.backbone.tokenizer) if guesses else None,
            before=sum(len(feed.texts) for feed in feeds.values()),
        )
    teachers = _teachers(config, list(feeds.values()), compute)
    head = head_of(encoder.backbone, seed=config.seed) if guesses else None
    mixes = {
        part: Mix(
            losses.options,
            dim=encoder.dim,
            teacher_dims=teachers.dims,
            negatives=len(numbered_negatives(train[part].texts)),
            cuts=losses.cuts,
            layers=next(iter(losses.layers), None),
            head=head,
        )
        for part, losses in plan.losses.items()
    }
    if config.gpu.shard == "full":
        shards.shard(encoder, processes)
    mix = (mixes[""] if "" in mixes else ModuleDict(mixes)).to(compute.device)
    taught = list(dict.fromkeys(view for losses in plan.losses.values() for view in losses.taught))
    stepper = Stepper(
        encoder, mix, compute, config.training, teachers=teachers, taught=taught, processes=processes
    )
    # What a backbone cannot do should show before anything is scored.
    for part, feed in feeds.items():
        first = np.arange(min(max(2, processes.size), len(train[part])))  # (first,)
        stepper.rehearse(feed.batch(Draw(0, 0, first, part)))
    feed = feeds[""] if "" in feeds else Feeds(feeds)
    return Built(encoder, stepper, feed, _order(plan, rows, feeds, processes))


def build_encoder(
    plan: TrainPlan, rows: Divided, compute: Compute
) -> tuple[Encoder, Prompt | None, Mapping[str, Prompt | None]]:
    """The untrained encoder, with the prompts of scoring; the prompts of training are beside it."""
    config = plan.config
    encoder = Encoder.build(
        config.backbone,
        config.pooling,
        seed=config.seed,
        vocabulary_texts=lambda: chain.from_iterable(part.sentences() for part in rows.train.values()),
    ).to(compute.device)
    # A prompt that is given stands in place of all that the model declares.
    prompt, declared = encoder.prompt, {} if config.backbone.prompt is not None else encoder.roles
    encoder.score_at(config.evaluation.max_length, trained=config.backbone.max_length)
    encoder.use(
        in_use(encoder.prompt, config.evaluation.prompt, config.evaluation.text_edit),
        by_role(asdict(config.prompts), {} if config.evaluation.prompt is not None else declared),
    )
    return encoder, prompt, declared


def _order(plan: TrainPlan, rows: Divided, feeds: Mapping[str, Feed], processes: Processes) -> Schedule:
    training, seed, mix = plan.config.training, plan.config.seed, plan.dataset
    if isinstance(mix, Mixed) and mix.batches == "mixed":
        return mixed_batches(mix, rows.sizes, training, seed)
    orders = {
        part: order_of(feed, rows.train[part], training, seed, processes=processes.size)
        for part, feed in feeds.items()
    }
    if isinstance(mix, Mixed):
        return Mixture(mix, orders, seed=seed, accumulate=training.accumulate)
    return orders[""]


def announcement(
    built: Built, train: Mapping[str, Rows], training: TrainingConfig, compute: Compute, processes: Processes
) -> list[str]:
    """What is about to be trained, and warnings of what a person may not expect: a line each."""
    encoder, order = built.encoder, built.order
    total = sum(map(len, train.values()))
    names = ", ".join(rows.name for rows in train.values())
    weights = sum(weight.numel() for weight in encoder.parameters() if weight.requires_grad)
    steps = order.steps(training.epochs, training.max_steps)
    most = "at most " if training.batch_tokens is not None else ""
    lines = [
        f"{total:,} rows of {names}, {steps:,} steps of {most}{training.batch_size} rows"
        + (f" x {training.accumulate}" if training.accumulate > 1 else "")
        + f", {weights:,} of {count(encoder):,} parameters trainable"
        + f", {compute.device.type} {compute.precision}, pooling {encoder.pooling.name}"
    ]
    if processes.size > 1:
        size = training.batch_size
        lines.append(
            f"{size:,} rows over {processes.size} processes, each anchor is compared with {size - 1:,} others"
        )
    if training.distinct_texts or training.batch_tokens is not None:
        lines.append(f"{order.left_out(0):,} of {total:,} rows fill no batch in the first epoch")
    if training.accumulate > 1:
        lines.append(
            f"warning: training.accumulate={training.accumulate}: the losses compare the "
            f"{training.batch_size} rows of a batch only, not all "
            f"{training.batch_size * training.accumulate} of a step"
        )
    for rows in (rows for rows in train.values() if rows.masked is not None):
        usable = int(rows.targets["maskable"].sum())
        share = 100 * usable / len(rows)
        lines.append(f"{usable:,} of {len(rows):,} sentences ({share:.1f} %) are long enough to be masked")
    if isinstance(order, Mixture):
        lines.append(
            "an epoch of the mixture has "
            + ", ".join(f"{count:,} batches of {part}" for part, count in order.counts.items())
        )
    return lines


def prompts_of(
    plan: TrainPlan, prompt: Prompt | None, declared: Mapping[str, Prompt | None], part: str
) -> dict[str, Prompt | None]:
    """What stands around the texts of each view of a part; `prompt` and `declared` are those of the model."""
    data_sets = each(plan.dataset, "train")
    dataset = data_sets.get(part, next(iter(data_sets.values())))
    own = parts_of(plan.config.dataset).get(part, {}).get("prompts") or {}
    given = asdict(plan.config.prompts) | {role: one for role, one in own.items() if one is not None}
    return in_training(prompt, by_role(given, declared), roles_of(dataset), views_of(dataset))


def _check_views(passes: Iterable[Pass], longest: int) -> None:
    most = max((way.max_length or 0 for way in passes), default=0)
    if most > longest:
        raise ConfigError(
            f"a loss asks for a view of {most} tokens, and training reads {longest}; lower max_length of the "
            "view, or raise backbone.max_length where the model allows it"
        )


def _mask(rows: Rows, encoder: Encoder) -> str:
    if rows.masked is None or rows.masked.kind == "delete":
        return ""
    token = encoder.backbone.tokenizer.mask_token
    if token is None:
        raise ConfigError(
            "dataset.masking.kind: this backbone's tokenizer has no mask token; choose kind: delete"
        )
    return token


def _teachers(config: TrainConfig, feeds: Sequence[Feed], compute: Compute) -> Teachers:
    training = config.training
    encoders = [
        Encoder.build(
            BackboneConfig(name=teacher.name, revision=teacher.revision, max_length=teacher.max_length),
            PoolingConfig(name=teacher.pooling, first_layer=teacher.first_layer),
            seed=config.seed,
        ).to(compute.device)
        for teacher in training.teachers or ()
    ]
    first, *others = (feed.texts for feed in feeds)
    texts = [*chain(first, *others)] if others and encoders else first  # as they are numbered
    keep = {"step": None, "memory": encoded, "disk": _on_disk}[training.teacher_vectors]
    return Teachers(encoders, texts, keep=keep)


def _on_disk(encoder: Encoder, texts: Sequence[str]) -> np.ndarray:
    """A teacher's vectors, from the user's cache where an earlier run has put them."""
    file, name = "vectors.npy", encoder.backbone.origin["name"]
    known = baseline.identity(encoder)
    if known is None:
        return encoded(encoder, texts)
    digest = hashlib.sha256(json.dumps(list(texts)).encode()).hexdigest()
    place = cache.kept(
        "teacher",
        {**known, "texts": digest},
        lambda folder: np.save(folder / file, encoded(encoder, texts)),
        what=f"vectors of {len(texts):,} texts by {name}",
    )
    return np.load(place / file, mmap_mode="r")
