"""The flags of each command, for the tab key."""

_EVERY = ("--help", "--debug")  # the second is taken out before a command sees its arguments
_SHOWN = ("--cfg", "--package", "--resolve", "--info", "--config-dir")  # of what Hydra composes
# Those of `data` are what each of its actions takes.
_OWN = {
    "train": ("--multirun", "--again", *_SHOWN),
    "evaluate": ("--multirun", "--again", *_SHOWN),
    "check": ("--multirun", *_SHOWN),
    "annotate": ("--multirun", *_SHOWN),
    "generate": ("--multirun", *_SHOWN),
    "collect": _SHOWN,  # it refuses a multirun
    "tune": ("--trials", "--study", "--no-prune", "--config-dir"),
    "reproduce": ("--seeds", "--only", "--scale", "--dry-run", "--again"),
    "table": (
        "--format",
        "--seeds",
        "--scale",
        "--output",
        "--outputs",
        "--data-dir",
        "--tokenizer",
    ),
    "encode": (
        "--output",
        "--field",
        "--revision",
        "--pooling",
        "--first-layer",
        "--normalize",
        "--no-normalize",
        "--max-length",
        "--prompt",
        "--device",
        "--precision",
        "--batch-tokens",
        "--no-text",
        "--allow-empty",
        "--force",
    ),
    "export": ("--merge-lora", "--repo-id", "--license"),
    "runs": ("--diff", "--draws", "--json"),
    "report": ("--output",),
    "doctor": ("--data-dir", "--json"),
    "data": ("--data-dir",),
    "resume": (),
    "completion": (),
}
FLAGS = {command: (*own, *_EVERY) for command, own in _OWN.items()}
