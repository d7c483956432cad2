"""Sentences to vectors: from a file or standard input to one array or table."""

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from embedrun.commands.command_line import Parser
from embedrun.config import BackboneConfig, GpuConfig, PoolingConfig
from embedrun.console import Progress, duration, say
from embedrun.errors import NON_FINITE, ConfigError, RunFailed
from embedrun.files import Plain, as_written, expanded, unwritable, whole_file
from embedrun.prompts import in_use, problem
from embedrun.quantized import DTYPES, ranges_of, stored
from embedrun.runs.directory import Outcome
from embedrun.runs.search import OF_MODEL, named

if TYPE_CHECKING:
    import torch

    from embedrun.encoder import Encoder
    from embedrun.store.read import Texts
    from embedrun.training.together import Together

_EXAMPLES = """FILE is plain text with one text a line (.txt), .jsonl, .tsv or .csv, each also with .gz, or
.parquet; standard input is plain text or, with --field, JSON Lines. Every line or record is one row of OUT,
in their order.

examples:
  embedrun encode HUB_ID_OR_DIR sentences.txt -o vectors.npy
  embedrun encode RUN_DIR reviews.jsonl --field body -o vectors.parquet
  zcat sentences.gz | embedrun encode RUN_DIR - -o vectors.npy"""
_NORMALIZE = "scale vectors to length 1; else as the model's files say"
_TEXTS_AT_ONCE = 50_000
_NUMBERS_AT_ONCE = 2**26  # of the vectors held at a time: 256 MiB


def parser() -> Parser:
    """The parser of `embedrun encode`."""
    made = Parser(
        "embedrun encode",
        usage="%(prog)s MODEL [FILE|-] -o OUT [option ...]",
        description=__doc__,
        examples=_EXAMPLES,
    )
    add = made.add_argument
    add("model", metavar="MODEL", help="hub id, model folder, or finished run (directory, name, latest)")
    add("file", nargs="?", metavar="FILE", help="file of texts; - or none: standard input")
    add("-o", "--output", required=True, metavar="OUT", help=".npy: (texts, dim); or .parquet")
    add("--field", metavar="NAME", help="column or field of the text; else text")
    add("--allow-empty", action="store_true", help="encode empty texts too; else they are refused")
    add("--no-text", action="store_true", help="leave the text column out of a .parquet")
    add("--force", action="store_true", help="replace OUT if it exists")
    what = "most padded tokens of a pass (on CUDA, eight times as many); else 4096"
    add("--batch-tokens", type=_positive, default=4096, metavar="N", help=what)
    add("--precision", choices=("fp32", "bf16"), default="fp32", help="of the forward pass; else fp32")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: cuda where there is one")
    what = "processes that share the texts of a file, one a device; else 1"
    add("--processes", type=_positive, default=1, metavar="N", help=what)
    add("--revision", metavar="REV", help="commit, branch or tag of a hub id")
    add("--max-length", type=_positive, metavar="N", help="tokens of a text; else what the model's files say")
    what = "with the prompt that the model has for such texts"
    add("--as", dest="role", choices=("query", "document"), help=what)
    add("--prompt", metavar="TEMPLATE", help="with {text}; else the model's own; '{text}': none")
    add("--pooling", default="auto", metavar="NAME", help="else what the model's files say, else mean")
    add("--first-layer", type=int, choices=(0, 1), help="of --pooling first_last_mean")
    add("--dims", type=_positive, metavar="N", help="cut to so many first numbers, as loss.matryoshka trains")
    add("--dtype", choices=DTYPES, default="float32", help="of the stored numbers; binary: 8 in a byte")
    what = "of --dtype int8: .npy of the range of each dimension; made of the first block where there is none"
    add("--ranges", metavar="FILE", help=what)
    add("--normalize", action=argparse.BooleanOptionalAction, help=_NORMALIZE)
    return made


def main(argv: Sequence[str]) -> int:
    """Run `embedrun encode`."""
    given, texts = _arguments(argv)
    total = None if texts.path is None else sum(1 for _ in texts.read())  # before a model is loaded
    from embedrun import gpu  # torch comes along
    from embedrun.training import workers
    from embedrun.training.processes import Processes
    from embedrun.training.together import Together

    compute = GpuConfig(device=given.device, processes=given.processes)
    if faults := gpu.problems(compute):
        raise ConfigError([fault.replace("gpu=", "--device ").replace("gpu.", "--", 1) for fault in faults])
    if workers.wanted(compute):
        run = {"run": f"{__name__}:share", "resumed": None, "argv": list(argv)}
        workers.launch(compute, {"gpu": asdict(compute)}, **run)
        return 0
    workers.join(compute, "")
    place = int(os.environ.get("LOCAL_RANK", "0"))
    encoder, processes = _load(given, gpu.start(compute, place=place).device), Processes()
    together = Together(encoder, processes)
    if processes.rank == 0:
        _encode(given, texts, total, encoder, together)
    else:
        together.serve()
    processes.part()
    return 0


def share(plain: Plain, argv: Sequence[str], resumed: Path | None) -> Outcome:
    """One of several processes: the same command line; the first of them writes."""
    main(argv)
    return Outcome()


def _arguments(argv: Sequence[str]) -> "tuple[argparse.Namespace, Texts]":
    from embedrun.store.read import Texts

    given = parser().read(argv)
    file = None if given.file in (None, "-") else expanded(given.file)
    texts = Texts(file, given.field, given.allow_empty)
    check(expanded(given.output), force=given.force)
    if given.prompt is not None and given.role is not None:
        raise ConfigError("--prompt: --as takes the model's own prompt; give one of the two")
    if given.prompt is not None and (fault := problem(given.prompt)):
        raise ConfigError(f"--prompt: {fault}")
    if given.processes > 1 and file is None:
        raise ConfigError("--processes: read a file, not standard input; name it behind the model")
    texts.check()
    return given, texts


def _encode(
    given: argparse.Namespace, texts: "Texts", total: int | None, encoder: "Encoder", together: "Together"
) -> None:
    """Encode `total` texts, None if that is not known, and write them."""
    from torch import from_numpy  # imported with the encoder; a fault before it should not wait for it

    started, done = time.monotonic(), 0
    bar = contextlib.nullcontext() if total is None else Progress("encode", total, "texts")
    dim = _dim(given, encoder)
    width, ranges = (dim // 8 if given.dtype == "binary" else dim), _ranges(given, dim)
    kind = np.dtype("int8" if given.dtype == "binary" else given.dtype)
    output = expanded(given.output)
    add_to = writing(output, width, kind, with_text=not given.no_text)
    with add_to as add, bar as progress, together.asking():
        reader, size = texts.read(), min(_TEXTS_AT_ONCE, max(1, _NUMBERS_AT_ONCE // encoder.dim))
        while block := list(islice(reader, size)):

            def reached(encoded: int, distinct: int, before: int = done, many: int = len(block)) -> None:
                if progress is not None:
                    progress.reach(before + many * encoded // distinct)

            vectors = encoder.encode(
                block,
                role=given.role,
                batch_tokens=given.batch_tokens,
                precision=given.precision,
                progress=reached,
            )  # (block, dim)
            _check_finite(vectors, done)
            if given.dims is not None:
                vectors = encoder.scale(from_numpy(vectors[:, :dim])).numpy()  # (block, dim)
            if given.dtype == "int8" and ranges is None:
                ranges = ranges_of(vectors)
                if given.ranges is not None:
                    np.save(expanded(given.ranges), ranges)
            add(block, stored(vectors, given.dtype, ranges))
            done += len(block)
    seconds = max(time.monotonic() - started, 1e-9)
    rate = f"{done / seconds:,.0f} texts/s"
    say(f"{done:,} texts, dim {dim}, {duration(seconds)}, {rate}: {output}", sys.stdout)


def _dim(given: argparse.Namespace, encoder: "Encoder") -> int:
    dim = given.dims or encoder.dim
    if dim > encoder.dim:
        raise ConfigError(f"--dims: the model's vectors have {encoder.dim} numbers, got {dim}")
    if given.dtype == "binary" and dim % 8:
        raise ConfigError(f"--dtype: binary has 8 dimensions in a byte, and {dim} is no multiple; add --dims")
    return dim


def _ranges(given: argparse.Namespace, dim: int) -> np.ndarray | None:
    """The calibration of an earlier file, so that the vectors of both can be compared."""
    if given.ranges is None:
        return None
    if given.dtype != "int8":
        raise ConfigError("--ranges: is of --dtype int8; leave it out")
    path = expanded(given.ranges)
    if path.suffix != ".npy":
        raise ConfigError(f"--ranges: {str(path)!r} must end in .npy")
    if not path.is_file():
        return None
    with as_written(path, f"two rows of {dim} numbers", "name a new file, which is then made"):
        return np.load(path).reshape(2, dim)


def _check_finite(vectors: np.ndarray, before: int) -> None:
    finite = np.isfinite(vectors).all(axis=1)  # (block,)
    if not finite.all():
        row = before + int(finite.argmin()) + 1
        raise RunFailed(
            f"the vector of text {row:,} is not finite; weights may be damaged, or need --precision fp32",
            exit_code=NON_FINITE,
        )


def _load(given: argparse.Namespace, device: "torch.device") -> "Encoder":
    from embedrun.encoder import Encoder

    model = named(given.model, OF_MODEL)
    backbone = BackboneConfig(name=model, revision=given.revision, max_length=given.max_length)
    pooling = PoolingConfig(name=given.pooling, first_layer=given.first_layer, normalize=given.normalize)
    encoder = Encoder.build(backbone, pooling, seed=0, encodes_only=device.type == "cpu").to(device).eval()
    if given.role is not None and not encoder.roles:
        raise ConfigError(
            f"--as {given.role}: {given.model} has no prompts by role; give --prompt, or leave it out"
        )
    encoder.use(in_use(encoder.prompt, given.prompt, None))
    return encoder


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number, at least 1, got {text!r}")
    return number


def check(path: Path, *, force: bool) -> None:
    """Refuse a path that cannot be written to, or may not be replaced."""
    if path.suffix.lower() not in (".npy", ".parquet"):
        raise ConfigError(f"-o: {str(path)!r} must end in .npy or .parquet")
    if path.is_dir():
        raise ConfigError(f"-o: {str(path)!r} is a folder; name a file in it")
    if path.exists() and not force:
        raise ConfigError(f"-o: {str(path)!r} exists; name another, or replace it with --force")
    if why := unwritable(path):
        raise ConfigError(f"-o: {str(path)!r} cannot be made: {why}; name another")


Add = Callable[[Sequence[str], np.ndarray], None]  # writes texts and their vectors, (texts, dim)


@contextlib.contextmanager
def writing(path: Path, dim: int, dtype: np.dtype, *, with_text: bool) -> Iterator[Add]:
    """Yields what writes blocks into a file that gets its name when the block ends, or leaves nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as aside:
        is_array = path.suffix.lower() == ".npy"
        block = _npy(aside, dim, dtype) if is_array else _parquet(aside, dim, dtype, with_text)
        with block as add:
            yield add


@contextlib.contextmanager
def _npy(path: Path, dim: int, dtype: np.dtype) -> Iterator[Add]:
    """One array, ``(texts, dim)``; its header, as long for any number of texts, is written last."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (0, dim)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)

        def add(texts: Sequence[str], vectors: np.ndarray) -> None:
            file.write(np.ascontiguousarray(vectors, dtype=dtype).data)
            header["shape"] = (header["shape"][0] + len(vectors), dim)

        yield add
        file.seek(0)
        np.lib.format.write_array_header_1_0(file, header)


@contextlib.contextmanager
def _parquet(path: Path, dim: int, dtype: np.dtype, with_text: bool) -> Iterator[Add]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kind = pa.from_numpy_dtype(dtype)
    fields = [("text", pa.string())] if with_text else []
    schema = pa.schema([*fields, ("vector", pa.list_(kind, dim))])
    with pq.ParquetWriter(path, schema) as writer:

        def add(texts: Sequence[str], vectors: np.ndarray) -> None:
            flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1), type=kind), dim)
            columns = [pa.array(texts, type=pa.string()), flat] if with_text else [flat]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))

        yield add
