"""What other tools call our options, for the hint behind an unknown key."""

import difflib
from collections.abc import Collection, Iterable

_FOLDER, _FILE = "DIR", "FILE"  # placeholders of a hint, for a value of the user's
# What is typed here, and its names in transformers' TrainingArguments, in sentence-transformers and in the
# scripts around them. Of several for one name, the first counts that the command has.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "training.lr": ("learning_rate", "learningrate"),
    "training.epochs": ("num_train_epochs", "num_epochs", "n_epochs", "max_epochs", "epoch"),
    "training.max_steps": ("num_steps", "num_train_steps", "max_train_steps", "total_steps", "steps"),
    "training.batch_size": ("per_device_train_batch_size", "train_batch_size", "bs"),
    "training.accumulate": ("gradient_accumulation_steps", "accumulation_steps", "grad_accum"),
    "training.micro_batch_size": ("mini_batch_size", "gc_mini_batch_size"),
    "training.warmup_ratio": ("warmup", "warmup_proportion"),
    "training.schedule": ("lr_scheduler_type", "lr_scheduler", "scheduler"),
    "training.optimizer": ("optim",),
    "training.clip": ("max_grad_norm", "clip_grad_norm", "gradient_clip_val", "grad_clip"),
    "training.evaluate_every": ("eval_steps", "evaluation_steps", "eval_every"),
    "training.save_every": ("save_steps", "checkpoint_save_steps"),
    "training.keep_checkpoints": ("save_total_limit", "checkpoint_save_total_limit"),
    "training.select_by": ("metric_for_best_model",),
    "training.patience": ("early_stopping_patience", "early_stopping"),
    "training.resume=auto": ("resume_from_checkpoint",),
    "backbone.name": ("model", "model_name_or_path", "model_name", "model_path", "base_model"),
    "backbone.max_length": ("max_seq_length", "max_seq_len", "model_max_length", "max_len"),
    "backbone.attention": ("attn_implementation",),
    "backbone.dtype": ("torch_dtype",),
    "model": ("model_name_or_path", "model_name", "model_path", "base_model"),
    "max_length": ("max_seq_length", "max_seq_len", "model_max_length", "max_len"),
    "pooling.name": ("pooling_mode",),
    "pooling.normalize": ("normalize_embeddings",),
    "gpu.precision=fp16": ("fp16", "use_amp", "amp"),
    "gpu.precision=bf16": ("bf16",),
    "gpu.precision=tf32": ("tf32",),
    "gpu.device=cpu": ("no_cuda", "use_cpu", "cpu"),
    "gpu.device=cuda": ("cuda", "use_cuda"),
    "gpu.compile": ("torch_compile",),
    "gpu.processes": ("nproc_per_node", "num_gpus", "n_gpu", "gpus", "world_size"),
    "gpu.nodes": ("nnodes", "num_nodes"),
    "evaluation.batch_tokens": ("per_device_eval_batch_size", "eval_batch_size", "test_batch_size"),
    "tracking.log_every": ("logging_steps", "log_steps", "print_every"),
    "tracking=wandb": ("report_to", "use_wandb"),
    "seed": ("random_seed", "random_state", "data_seed", "manual_seed"),
    "name": ("run_name", "experiment_name", "exp_name"),
    f"dataset=pairs dataset.path={_FILE}": ("train_file", "train_data", "train_dataset", "data_path"),
    f"dataset.dev={_FILE}": ("validation_file", "eval_file", "eval_dataset", "dev_file"),
    f"dataset.test={_FILE}": ("test_file", "test_dataset"),
    "output": ("output_dir", "output_path", "save_dir", "out_dir"),
    f"hydra.run.dir={_FOLDER}": ("output_dir", "output_path", "save_dir", "out_dir", "logging_dir"),
}  # fmt: skip
_SPELLED: dict[str, list[str]] = {}
for _hint, _names in SYNONYMS.items():
    for _name in _names:
        _SPELLED.setdefault(_name, []).append(_hint)


def meant(key: str, paths: Collection[str]) -> str | None:
    """What to type for an option that other tools call `key`; None where it is none of theirs.

    `paths` are the options that the command has, each by its full path.
    """
    tops = {path.partition(".")[0] for path in paths} | {"hydra"} if "name" in paths else set()
    for hint in _SPELLED.get(key.lower().replace("-", "_"), ()):
        option = hint.partition("=")[0]
        if option in paths or ("=" in hint and option.partition(".")[0] in tops):
            return hint
    return None


def option_named(word: str, paths: Collection[str]) -> str | None:
    """The option that a word names: its full path, its last name, or what other tools call it."""
    if word in paths:
        return word
    return next((path for path in paths if path.rpartition(".")[2] == word), None) or meant(word, paths)


def lead_on(where: str, paths: Collection[str], siblings: Collection[str] = ()) -> str:
    """`"; did you mean 'training.lr'?"` for an unknown key, by its full path, or an empty string.

    `paths` are the options and groups that there are, `siblings` the names that may stand in its place, for
    places that are no options, such as in a list. It is `alike`.
    """
    found = alike(where, paths, siblings)
    return f"; did you mean '{found}'?" if found else ""


def alike(where: str, paths: Collection[str], siblings: Collection[str] = ()) -> str | None:
    """What an unknown key may have meant, of what `lead_on` takes; None for nothing.

    It is, in this order, an option of that name in another group, what other tools call so, the nearest
    spelling in the same group, and that in any.
    """
    parent, _, key = where.rpartition(".")
    found = option_named(key, paths)
    if found is None:
        beside = {path.rpartition(".")[2]: path for path in paths if path.rpartition(".")[0] == parent}
        beside |= {name: f"{parent}.{name}" if parent else name for name in siblings}
        words = {path.rpartition(".")[2]: path for path in reversed(list(paths))}
        found = _nearest(key, beside, 0.6) or _nearest(key, words, 0.7)
    return found


def _nearest(word: str, paths: dict[str, str], cutoff: float) -> str | None:
    near: Iterable[str] = difflib.get_close_matches(word, paths, n=1, cutoff=cutoff)
    return next((paths[one] for one in near), None)
