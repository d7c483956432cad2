"""Every option of every command with its type, unit, range and default.

`embedrun.config.check` holds a composed configuration against these classes. Open families (loss terms,
data sets, evaluation tasks) have no class here: the signature of the class that the YAML names is
their schema.
"""

from collections.abc import Iterator
from dataclasses import Field, dataclass, field, fields, is_dataclass
from typing import Any, Literal, get_args

REQUIRED = "???"  # OmegaConf's mark for a value that the user must give
# What an option decides of a run, the most decisive first; `embedrun.config.decides` asks for it. The hash of
# a run leaves out `nothing`, the key under which a table finds runs also `where`, and a run that differs from
# a row of a paper in `how`, too, is still compared with it.
DECIDES = {
    "what": "what is trained and measured: with another value it is another experiment",
    "how": "with how much memory, how fast and how precisely it is computed: numbers may round differently",
    "where": "which machine computes it, with how many processes and threads",
    "nothing": "no number at all: the name of a run, where data lies, what is logged, how a run starts",
}


def option(
    default: Any = REQUIRED,
    *,
    unit: str,
    decides: Literal["what", "how", "where", "nothing"] = "what",
    training_only: bool = False,
    **bounds: float,
) -> Any:
    """A dataclass field with its unit and range; `embedrun.config.check` holds values to them.

    `bounds` are `at_least`, `above`, `at_most` and `below`. `decides` is a key of `DECIDES`; no option of a
    group decides more than the group itself. With `training_only`, commands that do not train refuse any
    other value than the default.
    """
    metadata = {"unit": unit, "bounds": bounds, "decides": decides, "training_only": training_only}
    if is_dataclass(default):  # a group that older configurations lack
        return field(default_factory=default, metadata=metadata)  # type: ignore[arg-type]
    return field(default=default, metadata=metadata)


_DATA_DIR = "folder of the data store; null: EMBEDRUN_DATA, else the user's cache"
_FIRST_LAYER = "first_last_mean: 0 is the embedding layer, 1 the first transformer layer"
_ENCODER = "hub id, folder, run directory, a checkpoint of it, or run:NAME"
_REVISION = "commit, branch or tag on the hub; null: the newest"
_SCALE = "reduced setting of `embedrun reproduce --scale`; null: none"
_ROLE_PROMPT = "template with {text}; null: as the model's files say, else as for any text; '{text}': none"
_RUN_NAME = "folder below outputs/: letters, digits, . _ -"


@dataclass
class ScratchConfig:
    """The shape of a model trained from scratch; only with a backbone that has no name."""

    architecture: Literal["bert", "ran"] = option("bert", unit="ran: recurrent attention, for long texts")
    vocabulary: int = option(4000, unit="word pieces at most", at_least=100, at_most=1_000_000)
    layers: int = option(2, unit="transformer layers", at_least=1, at_most=1_000)
    width: int = option(128, unit="dimensions of a token vector", at_least=8, at_most=65_536)
    heads: int = option(2, unit="attention heads; divides width without head_size", at_least=1, at_most=1_024)
    positions: int = option(128, unit="tokens of the longest text; ran: any", at_least=8, at_most=1_000_000)
    dropout: float = option(0.1, unit="probability", at_least=0, below=1)
    head_size: int | None = option(None, unit="ran: even dimensions a head; null: width / heads", at_least=2)
    window: int | None = option(None, unit="ran: tokens of a window; null: 256", at_least=1)
    min_window: int | None = option(None, unit="ran: least tokens of a last window; null: 16", at_least=1)


@dataclass
class AdapterConfig:
    """Low-rank matrices beside the linear layers of a frozen model; they alone are trained (LoRA, QLoRA)."""

    r: int = option(16, unit="rank of the matrices", at_least=1, at_most=65_536)
    alpha: float = option(16, unit="scale of what the matrices add: alpha / r", above=0)
    dropout: float = option(0.0, unit="probability, on what goes into the matrices", at_least=0, below=1)
    variant: Literal["lora", "dora"] = option("lora", unit="dora: also a trained length of each row of W")
    rs: bool = option(False, unit="alpha / sqrt(r) in place of alpha / r, for large ranks")
    targets: Literal["all-linear"] | list[str] = option(
        "all-linear", unit="all-linear, or linear layers by the ends of their names, as [q_proj, v_proj]"
    )
    quantize: Literal["nf4"] | None = option(None, unit="nf4: frozen layers in 4 bits (CUDA, bitsandbytes)")
    double_quantize: bool = option(True, unit="quantize: store the scales of the 4-bit weights in 8 bits")
    compute_dtype: Literal["float32", "bfloat16", "float16"] = option(
        "float32", unit="quantize: type that 4-bit weights are converted to for computing"
    )


@dataclass
class BackboneConfig:
    """The transformer that turns tokens into token vectors."""

    name: str | None = option(unit=f"{_ENCODER}; null makes one from `scratch`")
    revision: str | None = option(None, unit=_REVISION)
    layers: int | None = option(None, unit="layers that are kept, the first ones; null: all", at_least=0)
    max_length: int | None = option(
        None, unit="tokens of a training text with prompt; null: as its files say, else positions", at_least=4
    )
    prompt: str | None = option(None, unit="template with {text}; null: as its own files say; '{text}': none")
    attention: Literal["sdpa", "eager", "flash_attention_2"] = option(
        "sdpa", unit="attention implementation; flash_attention_2 needs CUDA, flash-attn and bf16 or fp16"
    )
    bidirectional: bool = option(
        False, unit="each token of a decoder sees the whole text, not what is before it"
    )
    dtype: Literal["float32", "bfloat16"] | None = option(
        None, unit="of weights; bfloat16 only under an adapter; null: float32, or as an adapter's files say"
    )
    adapter: AdapterConfig | None = option(
        None, unit="{} or its options: train an adapter; null: all weights, or the adapter that `name` has"
    )
    scratch: ScratchConfig | None = option(None, unit="shape of a model trained from scratch")


@dataclass
class PoolingConfig:
    """How token vectors become one vector."""

    name: str = option("auto", unit="`auto`: as the model's own files say, else mean")
    normalize: bool | None = option(None, unit="scale to length 1; null: as its files say, else false")
    first_layer: Literal[0, 1] | None = option(None, unit=_FIRST_LAYER)
    padded_to: int | None = option(None, unit="_legacy poolings: tokens to pad shorter texts to", at_least=1)
    skip_prompt: bool | None = option(
        None, unit="leave the tokens before a text out of the mean; null: as its files say, else false"
    )
    keep_head: bool = option(False, unit="cls_mlp: whether its layer is saved, and used after training too")


@dataclass
class PromptsConfig:
    """What stands around the texts that are queries or documents."""

    query: str | None = option(None, unit=_ROLE_PROMPT)
    document: str | None = option(None, unit=_ROLE_PROMPT)


@dataclass
class MatryoshkaConfig:
    """Sentence vectors that can be cut: the losses are also taken at their first numbers."""

    dims: list[int] = option(unit="how many of the first numbers, each a loss of its own")
    weights: list[float] | None = option(None, unit="unitless, >= 0, one for each of `dims`; null: 1 each")


@dataclass
class LayersConfig:
    """Sentence vectors of inner layers: the losses are also taken there, so that layers can be left out."""

    every: int = option(1, unit="layers from one to the next, from the first to the last", at_least=1)
    weight: float = option(
        1.0, unit="unitless, of the mean over inner layers; the last layer has 1", at_least=0
    )
    weighting: Literal["uniform", "log"] = option("uniform", unit="log: 1 / (1 + ln(1 + l)) of layer l")
    divergence: float = option(
        0.0, unit="unitless, of the divergence of inner layers from the last", at_least=0
    )
    temperature: float = option(0.3, unit="of the divergence, unitless", above=0)


@dataclass
class LossConfig:
    """A weighted sum of terms; a weight of 0 skips the term entirely."""

    terms: dict[str, Any] = option(unit="options by term; `weight` (unitless, >= 0) and the term's own")
    matryoshka: MatryoshkaConfig | None = option(None, unit="null: the losses see whole vectors alone")
    layers: LayersConfig | None = option(None, unit="null: the losses see the last layer alone")


@dataclass
class TeacherConfig:
    """A frozen encoder whose vectors the losses learn from."""

    name: str = option(unit=_ENCODER)
    revision: str | None = option(None, unit=_REVISION)
    pooling: str = option("auto", unit="`auto`: as the model's own files say, else mean")
    first_layer: Literal[0, 1] | None = option(None, unit=_FIRST_LAYER)
    max_length: int | None = option(None, unit="tokens; null: what the model's own files say", at_least=4)


@dataclass
class AnnotatorConfig(TeacherConfig):
    """A frozen encoder whose cosines score pairs."""

    prompt: str | None = option(None, unit="template with {text}, or a prefix; null: the texts as they are")


@dataclass
class TrainingConfig:
    """One training run."""

    epochs: float = option(1, unit="passes over the training rows", above=0, at_most=1_000_000)
    max_steps: int | None = option(None, unit="optimizer steps; null: as epochs say", at_least=1)
    data_fraction: float = option(1.0, unit="share of the training rows, drawn by seed", above=0, at_most=1)
    batch_size: int = option(32, unit="rows that the losses compare", at_least=1, at_most=10_000_000)
    batch_tokens: int | None = option(
        None, unit="tokens of a batch, which then has batch_size rows or fewer; null: no limit", at_least=1
    )
    batching: Literal["random", "length_grouped", "text_grouped"] = option(
        "random",
        unit="length_grouped: rows of similar length, faster where passes are padded, but other pairs are "
        "compared; text_grouped: rows with the same first text are neighbours",
    )
    grouped_batches: int = option(50, unit="length_grouped: batches that are sorted together", at_least=2)
    distinct_texts: bool = option(False, unit="no two equal texts in one batch")
    accumulate: int = option(1, unit="batches averaged in an optimizer step", at_least=1, at_most=1_000_000)
    micro_batch_size: int | None = option(
        None, unit="rows encoded at a time: less memory, same gradient; null: all", at_least=1, decides="how"
    )
    seeded_dropout: bool | None = option(
        None,
        unit="a dropout seed a text, the same on any number of processes; null: if micro_batch_size needs it",
    )
    gradient_checkpointing: bool = option(False, unit="less memory, about 1.3 x the time", decides="how")
    optimizer: Literal["adamw", "sam"] = option(
        "adamw", unit="sam: AdamW with the gradient at the nearby point of highest loss; two gradients a step"
    )
    sam_rho: float = option(0.05, unit="sam: radius of what is nearby, as a norm over all weights", above=0)
    lr: float = option(5e-5, unit="peak learning rate, per optimizer step", above=0)
    schedule: Literal["linear", "cosine", "constant"] = option(
        "linear", unit="after warm-up: linear or half-cosine decay to 0, or constant"
    )
    warmup_ratio: float = option(0.1, unit="warm-up, as a share of all steps", at_least=0, at_most=1)
    warmup_steps: int | None = option(None, unit="steps of warm-up; null: by warmup_ratio", at_least=0)
    weight_decay: float = option(0.0, unit="per step, times lr; biases and norms have none", at_least=0)
    adam_beta1: float = option(0.9, unit="decay of the mean gradient", at_least=0, below=1)
    adam_beta2: float = option(0.999, unit="decay of the mean squared gradient", at_least=0, below=1)
    adam_epsilon: float = option(1e-8, unit="added to the denominator", above=0)
    clip: float | None = option(1.0, unit="largest gradient norm; null: no clipping", above=0)
    ema: float | None = option(
        None,
        unit="decay of a moving average of the weights, as 0.999, which is then scored and kept; null: none",
        above=0,
        below=1,
    )
    evaluate_every: int | None = option(125, unit="steps between dev scores; null: at the end", at_least=1)
    evaluations_per_epoch: int | None = option(None, unit="of dev; null: evaluate_every", at_least=1)
    dev: Literal["auto", "stsb", "none"] = option(
        "auto",
        unit="which rows pick the checkpoint. auto: those of the own dev split; without one, STS-B dev, but "
        "for your own data 5 % of scored training rows, else the last checkpoint is kept; stsb: STS-B dev; "
        "none: the last checkpoint is kept",
    )
    dev_tasks: dict[str, Any] | None = option(
        None, unit="evaluation tasks on dev splits, by name, beside the data set's own; null: none"
    )
    select_by: str | dict[str, float] | None = option(
        None,
        unit="key of the dev score that selects, or a mapping of keys to weights; null: Spearman on dev, the "
        "mean over the parts of a mixture",
    )
    select_lowest: bool = option(False, unit="whether a lower score is better")
    select_floor: dict[str, float] | None = option(
        None, unit="by dev score, the change against the untrained model that a checkpoint must have at least"
    )
    select_untrained: bool = option(
        False, unit="whether the model before the first step is kept if no step scores better on dev"
    )
    patience: int | None = option(
        None, unit="early stopping after so many dev scores without a new best; null: never", at_least=1
    )
    score_test: bool = option(
        False,
        unit="also test scores at each dev score: what the choice of the step costs; it does not see them",
        decides="nothing",
    )
    save_every: int | None = option(None, unit="steps between checkpoints; null: as dev scores", at_least=1)
    teachers: list[TeacherConfig] | None = option(None, unit="frozen encoders that the losses learn from")
    teacher_vectors: Literal["step", "memory", "disk"] = option(
        "step",
        unit="step: computed for each batch; memory: all texts before step 1, and kept; disk: also for other "
        "runs, in the user's cache",
    )
    keep_checkpoints: int = option(2, unit="newest checkpoints kept, beside the best", at_least=2)
    resume: Literal["never", "auto"] = option(
        "never", unit="auto: resume an unfinished run of this configuration", decides="nothing"
    )
    max_time: str | None = option(
        None,
        unit="such as 3h50m: then the run saves a checkpoint and exits 143, to be resumed; null: no limit",
        decides="nothing",
    )


@dataclass
class GpuConfig:
    """Where and how precisely a run computes."""

    device: Literal["auto", "cpu", "cuda"] = option("auto", unit="auto: cuda if possible", decides="where")
    precision: Literal["auto", "fp32", "tf32", "bf16", "fp16"] = option(
        "auto", unit="of the training backbone; auto on CUDA: bf16, else fp16; on a CPU: fp32", decides="how"
    )
    threads: int | None = option(
        None, unit="of the CPU; null: OMP_NUM_THREADS, else all", at_least=1, at_most=4_096, decides="where"
    )
    deterministic: bool = option(False, unit="only deterministic CUDA kernels", decides="how")
    compile: bool = option(False, unit="by torch.compile; slow to start", decides="how", training_only=True)
    most_skipped: int = option(20, unit="fp16: overflows in a row, at most", at_least=1, decides="how")
    processes: int = option(
        1,
        unit="processes here, one a device; train, evaluate, annotate",
        at_least=1,
        at_most=1_024,
        decides="where",
    )
    shard: Literal["none", "full"] = option(
        "none", unit="full: each process holds a part of the weights", decides="how", training_only=True
    )
    nodes: int = option(
        1, unit="machines of the run; train, evaluate", at_least=1, at_most=10_000, decides="where"
    )
    rendezvous: str | None = option(
        None, unit="host:port where machines meet; null: one machine", decides="nothing"
    )


@dataclass
class EvaluationConfig:
    """Which suites score the model, and how sentences are fed to it."""

    tasks: dict[str, Any] = option(unit="options by task; {} for none")
    batch_tokens: int = option(4096, unit="padded tokens a pass; CUDA: 8 times", at_least=64, decides="how")
    max_length: int | None = option(
        None,
        unit="tokens of a text that is scored or that the saved model reads, prompt included; null: as its "
        "own files say, else its positions, but no more than 512, or backbone.max_length if that is more",
        at_least=4,
    )
    precision: Literal["fp32", "bf16"] = option("fp32", unit="of a pass; vectors are float32", decides="how")
    dims: list[int] | None = option(
        None,
        unit="also scores of vectors cut to so many of their first numbers, as [256, 64]",
    )
    vectors: list[Literal["float16", "int8", "binary"]] | None = option(
        None, unit="also scores of vectors stored as these; float32 is always scored"
    )
    contamination: str | list[str] | None = option(
        None, unit="data that the model has seen, as stsb or stsb_dev, or a list; left out of `_clean` scores"
    )
    near: float | None = option(
        None,
        unit="share of words: `_clean` scores also leave out rows so near to seen ones; null: equal",
        above=0,
        at_most=1,
    )
    prompt: str | None = option(
        None, unit="template with {text}; null: as trained, or its own files say; '{text}': none"
    )
    text_edit: Literal["none", "angle_llm"] | None = option(
        None, unit="edit of texts before the prompt; null: as the model's files say, else none"
    )


@dataclass
class WandbConfig:
    """Weights & Biases; the account's key comes from the environment or its own login, never from here."""

    mode: Literal["offline", "online"] = option("offline", unit="offline: files in the run directory only")
    project: str = option("embedrun", unit="name")
    entity: str | None = option(None, unit="account or team; null: the account's default")
    group: str | None = option(None, unit="group name that runs of one study share; null: the run's name")
    tags: list[str] | None = option(None, unit="words")


@dataclass
class TrackingConfig:
    """What is written while a run goes on."""

    log_every: int = option(10, unit="steps between logged training losses", at_least=1)
    wandb: WandbConfig | None = option(None, unit="{} or its options: also to Weights & Biases")
    tensorboard: bool = option(False, unit="also TensorBoard files in the run directory")
    patience: float = option(30.0, unit="seconds that trackers may hold up a run's end", above=0, at_most=30)


@dataclass
class PlotsConfig:
    """The figures of a run."""

    format: Literal["png", "pdf", "svg"] = option(
        "png", unit="pdf, svg: for a paper, beside the png that the page shows", decides="nothing"
    )


@dataclass
class TrainConfig:
    """The whole of `embedrun train`."""

    backbone: BackboneConfig = option(unit="group")
    pooling: PoolingConfig = option(unit="group")
    loss: LossConfig = option(unit="group")
    dataset: dict[str, Any] = option(unit="group; `name` and the data set's own options")
    training: TrainingConfig = option(unit="group")
    gpu: GpuConfig = option(unit="group")
    evaluation: EvaluationConfig = option(unit="group")
    tracking: TrackingConfig = option(unit="group", decides="nothing")
    prompts: PromptsConfig = option(PromptsConfig, unit="group")
    seed: int = option(42, unit="of data order, initial weights and dropout", at_least=0, below=2**31)
    plots: PlotsConfig = option(PlotsConfig, unit="figures", decides="nothing")
    name: str = option("train", unit=_RUN_NAME, decides="nothing")
    data_dir: str | None = option(None, unit=_DATA_DIR, decides="nothing")
    scale: str | None = option(None, unit=_SCALE)


@dataclass
class WhitenConfig:
    """A linear map behind the pooling that gives the vectors of these texts mean 0 and covariance 1."""

    dataset: str = option(unit="name of a data set, whose training texts it is fitted on, such as nli")
    dims: int | None = option(None, unit="numbers that are kept, of most variance; null: all", at_least=1)


@dataclass
class EvaluateConfig:
    """The whole of `embedrun evaluate`."""

    model: str = option(unit=_ENCODER)
    revision: str | None = option(None, unit=_REVISION)
    layers: int | None = option(None, unit="layers that are kept, the first ones; null: all", at_least=0)
    max_length: int | None = option(None, unit="tokens; short for evaluation.max_length", at_least=4)
    whiten: WhitenConfig | None = option(None, unit="{dataset: NAME}: also saves the model; null: none")
    pooling: PoolingConfig = option(unit="group")
    dataset: dict[str, Any] | None = option(None, unit="group; only for evaluation=heldout")
    gpu: GpuConfig = option(unit="group")
    evaluation: EvaluationConfig = option(unit="group")
    prompts: PromptsConfig = option(PromptsConfig, unit="group")
    seed: int = option(42, unit="of generated data sets", at_least=0, below=2**31)
    plots: PlotsConfig = option(PlotsConfig, unit="figures", decides="nothing")
    name: str = option("evaluate", unit=_RUN_NAME, decides="nothing")
    data_dir: str | None = option(None, unit=_DATA_DIR, decides="nothing")
    scale: str | None = option(None, unit=_SCALE)


@dataclass
class MiningConfig:
    """Hard negatives of pairs, by sentence-transformers' `mine_hard_negatives`, under its names."""

    num_negatives: int = option(3, unit="hard negatives of each pair", at_least=1, at_most=100)
    range_min: int = option(0, unit="nearest candidates that are passed over", at_least=0)
    range_max: int | None = option(None, unit="nearest candidates looked at; null: as needed", at_least=1)
    max_score: float | None = option(None, unit="cosine of anchor and negative, at most; null: any")
    min_score: float | None = option(None, unit="cosine of anchor and negative, at least; null: any")
    absolute_margin: float | None = option(
        None, unit="cosine by which negatives are farther than the positive; null: any", at_least=0
    )
    relative_margin: float | None = option(
        None, unit="the same as a share of the positive's cosine, 0.05: 5 %; null: any", at_least=0
    )
    sampling_strategy: Literal["top", "random"] = option("top", unit="top: nearest; random: drawn by seed")
    query_prompt: str | None = option(
        None, unit="of anchors, as a teacher's prompt; null: that, else what the model's own files say"
    )
    corpus_prompt: str | None = option(None, unit="of positives and negatives, likewise")
    positive_from: float | None = option(None, unit="score of a positive pair; null: entailments or all")
    seed: int = option(42, unit="of sampling_strategy=random", at_least=0, below=2**31)


@dataclass
class AnnotateConfig:
    """The whole of `embedrun annotate`."""

    dataset: dict[str, Any] = option(unit="group; pairs with a label; of mine, anchors with positives")
    teachers: list[AnnotatorConfig] = option(unit="encoders whose cosines are averaged; mine takes one")
    output: str = option(unit="folder; finished blocks in it are not done again")
    gpu: GpuConfig = option(unit="group")
    mode: Literal["score", "mine"] = option(
        "score", unit="score: cosines of labelled pairs; mine: hard negatives of positive pairs"
    )
    mining: MiningConfig = option(unit="of mode=mine")
    shard: str = option("0/1", unit="I/N, I from 0: of the blocks, this process does I, I + N, I + 2N, ...")
    block_rows: int = option(50_000, unit="rows of a block, the unit of work and of resuming", at_least=1)
    batch_tokens: int = option(4096, unit="padded tokens a pass; CUDA: 8 times", at_least=64, decides="how")
    merge_only: bool = option(False, unit="encode nothing; merge the blocks that are done")
    data_dir: str | None = option(None, unit=_DATA_DIR, decides="nothing")


@dataclass
class LlmConfig:
    """A language model that writes sentences: a local one, or one behind an HTTP endpoint."""

    kind: Literal["local", "http"] = option(unit="local: run here; http: OpenAI-compatible endpoint")
    name: str | None = option(None, unit="local: hub id or folder of a causal language model")
    revision: str | None = option(None, unit="local: commit, branch or tag on the hub; null: the newest")
    batch_size: int | None = option(None, unit="local: prompts decoded together; null: 8", at_least=1)
    url: str | None = option(None, unit="http: address above /chat/completions, https://HOST/v1")
    model: str | None = option(None, unit="http: name of the model at the endpoint")
    key_variable: str | None = option(None, unit="http: environment variable with the key; null: no key")
    parallel: int | None = option(None, unit="http: requests at a time; null: 4", at_least=1, at_most=256)
    max_new_tokens: int | None = option(
        512, unit="tokens of an answer at most; null, only for http: as the endpoint has it", at_least=1
    )
    temperature: float | None = option(0.0, unit="0: likeliest; null: the endpoint's", at_least=0, at_most=5)
    seed: int | None = option(None, unit="of sampling; null: local 0, http none", at_least=0, below=2**31)


@dataclass
class GenerateConfig:
    """The whole of `embedrun generate`."""

    output: str = option(unit="folder for pairs.jsonl.gz; one of the same configuration is resumed")
    llms: list[LlmConfig] = option(unit="language models; the pairs of several are joined")
    gpu: GpuConfig = option(unit="group; only for local language models")
    input: str | None = option(None, unit="text file, a sentence a line, also .gz; null: a data set's texts")
    dataset: dict[str, Any] | None = option(None, unit="group; whose texts are read, instead of input")
    split: Literal["train", "dev", "test"] = option("train", unit="of the data set")
    column: str | None = option(None, unit="of the data set, text1, text2, anchor, ...; null: the first")
    limit: int | None = option(None, unit="different sentences to take, the first; null: all", at_least=1)
    size: int = option(5, unit="sentences asked for, of each kind for each input", at_least=1, at_most=100)
    filter_small_differences: int | None = option(
        None, unit="words that must differ in a negative; AnglE's first release: 5", at_least=1
    )
    responses: str | None = option(None, unit="folder of stored answers; null: responses/ in output")
    retries: int = option(6, unit="retries of a failed request", at_least=0, at_most=100)
    timeout: float = option(120.0, unit="seconds without a byte that end a request", above=0, at_most=3600)
    shard: str = option("0/1", unit="I/N, I from 0: this process does the blocks I, I + N, I + 2N, ...")
    dry_run: bool = option(False, unit="print the first prompts and the number of requests; write nothing")
    data_dir: str | None = option(None, unit=_DATA_DIR, decides="nothing")


@dataclass
class SplitsConfig:
    """How many of the pairs are for choosing and for testing; the others are for training."""

    dev: float = option(0.0714, unit="below 1: share of all pairs; else pairs; 0: no such split", at_least=0)
    test: float = option(0.0715, unit="below 1: share of all pairs; else pairs; 0: no such split", at_least=0)


@dataclass
class CollectConfig:
    """The whole of `embedrun collect`."""

    output: str = option(unit="folder of the data set, new or to resume")
    repositories: list[str] = option(unit="each as owner/name")
    api: str = option("https://api.github.com", unit="root of GitHub's REST API")
    token_variable: str = option("GITHUB_TOKEN", unit="environment variable with the access token")
    max_issues: int | None = option(None, unit="issues a repository, the newest; null: all", at_least=1)
    negatives: float = option(0.962, unit="negative pairs for each positive one", at_least=0, at_most=100)
    splits: SplitsConfig = option(unit="pairs of dev and test")
    seed: int = option(42, unit="of splits and negatives", at_least=0, below=2**31)
    tokenizer: str | None = option(None, unit="folder with tokenizer.json, for lengths; null: in words")
    timeout: float = option(30.0, unit="seconds without a byte that end a request", above=0)
    retries: int = option(6, unit="further attempts on 5xx and lost connections", at_least=0, at_most=100)


# By the name of their root in conf/; `check`, `tune` and `reproduce` take what `train` takes.
COMMANDS = {
    "train": TrainConfig,
    "evaluate": EvaluateConfig,
    "annotate": AnnotateConfig,
    "generate": GenerateConfig,
    "collect": CollectConfig,
}


def declared(schema: type, path: str = "") -> Iterator[tuple[str, Field]]:
    """Every option and group of a class by its full path, a group before what it holds."""
    for item in fields(schema):
        yield f"{path}{item.name}", item
        for part in (item.type, *get_args(item.type)):
            if isinstance(part, type) and is_dataclass(part):
                yield from declared(part, f"{path}{item.name}.")
