"""A simulated CUDA device: the CUDA path of this project runs on a machine without a GPU.

**How.** `Pretended` is a tensor that claims to be on cuda:0 and holds one of the processor's. Every ATen call
on it passes through `Device.run`, which computes with the inner tensors: real numbers (for small shapes), or
within `Device.shapes_alone` only shapes, on torch's meta device (any size in seconds; the host reads back 1
or True). `install` puts the device in place of `torch.cuda` for the whole process; `pretended_guard` has to
be loaded before torch is imported.

**What it shows.** Python's own control flow on CUDA; the errors that CUDA raises for tensors on two devices
or a generator of the processor; and these accounts:

- *kernels*: one for each ATen call that computes, a few for those known to start more (`_KERNELS`).
- *waits*: of the host for the device, with the line of the project that asks: blocking copies, `item`,
  `tolist`, `nonzero`, masks as indices and the like. *Possible waits* are copies of pageable memory over
  64 KiB that do not block, for which the driver may wait all the same.
- *peak*: the most bytes of live storages, in blocks of 512 as CUDA's allocator has them. What the allocator
  keeps, what a kernel takes for itself, and CUDA's context come on top.
- *products* and *attention*: matrix products by data type, attention by kernel and data type.

**What it cannot tell.** Any time. Faults of CUDA's own kernels. Rounding: TensorFloat-32 is not rounded, and
sums of 16 bits are the processor's. The allocator's fragmentation, streams, NCCL, Triton (`gpu.compile`).
Weights of 4 bits, which are a tensor subclass of their own that does not go over this one. Which kernel
attention takes is read from torch's sources (`pretended_attention.chosen_kernel`).

Private names of torch are used here, in `pretended_attention` and in `guard.cpp` alone: nothing public stands
for a device that is not there.
"""

import os
import sys
import threading
import traceback
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any

import pretended_attention
import torch
from pretended_attention import Attention, arguments
from torch import Tensor
from torch.utils import _device as torch_device
from torch.utils import _foreach_utils
from torch.utils._python_dispatch import TorchDispatchMode

CUDA = torch.device("cuda", 0)
_MEMORY = 80 * 2**30  # bytes, of an H100
_BLOCK = 512  # bytes, of CUDA's allocator
_PAGEABLE = 2**16  # bytes; the driver copies fewer aside first
_DEVICE_CODE = (__file__, pretended_attention.__file__)
_PACKAGE = str(Path(__file__).parents[2] / "embedrun")

# They compute nothing: what they return is a view, or not yet written.
_FREE = {
    "_reshape_alias", "_unsafe_view", "alias", "detach", "empty", "empty_like", "empty_strided",
    "is_same_size", "lift_fresh", "new_empty", "new_empty_strided", "view",
}  # fmt: skip
# Kernels that one call starts, where it is not one; rough, from torch's sources.
_KERNELS = {
    "_flash_attention_backward": 3, "_index_put_impl_": 6, "_scaled_dot_product_cudnn_attention_backward": 3,
    "_scaled_dot_product_efficient_attention_backward": 3, "_scaled_dot_product_flash_attention_backward": 3,
    "_unique2": 6, "argsort": 4, "bincount": 4, "cumsum": 2,
    "embedding_dense_backward": 6, "index_put": 6, "index_put_": 6, "logcumsumexp": 2, "logsumexp": 5,
    "native_layer_norm_backward": 3, "nonzero": 3, "sort": 4,
}  # fmt: skip
_MANY_TENSORS = {"_amp_foreach_non_finite_check_and_unscale_", "_fused_adamw_"}  # as _foreach_*
# What needs a number of the device before it can go on.
_WAITS = {
    "_assert_async", "_local_scalar_dense", "_unique2", "allclose", "bincount", "equal", "is_nonzero",
    "masked_select", "nonzero", "unique_consecutive", "unique_dim",
}  # fmt: skip
_NUMBERS = {"_local_scalar_dense", "allclose", "equal", "is_nonzero"}  # of the host, not tensors
_RANDOM = {
    "bernoulli", "bernoulli_", "exponential_", "multinomial", "native_dropout", "normal", "normal_", "rand",
    "rand_like", "randint", "randint_like", "randn", "randn_like", "random_", "randperm", "uniform_",
}  # fmt: skip
_PRODUCTS = {"addmm", "addmv", "baddbmm", "bmm", "dot", "mm", "mv"}
_INDEXED = {"_index_put_impl_", "index", "index_put", "index_put_"}


class Pretended(Tensor):
    """A tensor that claims to be on cuda:0; `inner` has its values, or its shape alone."""

    __slots__ = ["inner"]
    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor, requires_grad: bool = False) -> "Pretended":
        return Tensor._make_wrapper_subclass(
            cls, inner.size(), strides=inner.stride(), storage_offset=inner.storage_offset(),
            dtype=inner.dtype, layout=inner.layout, device=CUDA, requires_grad=requires_grad,
        )  # fmt: skip

    def __init__(self, inner: Tensor, requires_grad: bool = False) -> None:
        self.inner = inner

    def __repr__(self) -> str:
        return f"Pretended({tuple(self.shape)}, {self.dtype})"

    # Libraries tell weights apart by these.
    def untyped_storage(self) -> torch.UntypedStorage:
        return self.inner.untyped_storage()

    def data_ptr(self) -> int:
        return self.inner.data_ptr()

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, operator: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        return DEVICE.run(operator, args, kwargs or {})


def inner(value: Any) -> Any:
    """What a simulated tensor holds; anything else as it is."""
    return value.inner if isinstance(value, Pretended) else value


# As torch's own walk over trees, which takes a third of a step's time: a call holds lists of tensors at most.
def _leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, list | tuple | dict):
        for branch in tree.values() if isinstance(tree, dict) else tree:
            yield from _leaves(branch)
    else:
        yield tree


def _mapped(change: Callable[[Any], Any], tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: _mapped(change, branch) for name, branch in tree.items()}
    if isinstance(tree, list | tuple):
        branches = [_mapped(change, branch) for branch in tree]
        return branches if isinstance(tree, list) else tuple(branches)
    return change(tree)


def _is_cuda(device: Any) -> bool:
    return device is not None and torch.device(device).type == "cuda"


class Memory:
    """Bytes of the storages that are alive on the device.

    Attributes:
        live: now.
        peak: the most since it was last set to `live`.
        limit: above which the device is out of memory; None: never.
    """

    def __init__(self) -> None:
        self.live = self.peak = 0
        self.limit: float | None = None
        self._sizes: dict[int, int] = {}  # by the address of the storage
        self._lock = threading.RLock()  # torch's engine frees in a thread of its own

    def add(self, tensor: Tensor) -> None:
        """Count the storage of a new tensor until nothing refers to it."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        with self._lock:
            if key in self._sizes:
                return
            size = -(-storage.nbytes() // _BLOCK) * _BLOCK
            if self.limit is not None and self.live + size > self.limit:
                raise torch.OutOfMemoryError(
                    f"CUDA out of memory. Tried to allocate {size:,} bytes (pretended)"
                )
            self._sizes[key] = size
            self.live += size
            self.peak = max(self.peak, self.live)
            weakref.finalize(storage, self._drop, key)

    def _drop(self, key: int) -> None:
        with self._lock:
            self.live -= self._sizes.pop(key, 0)


class Device:
    """What happens on the device, and the accounts of it.

    Attributes:
        installed: whether the device is there.
        values: whether there are numbers, or shapes alone.
        generator: of its random numbers.
        memory: that its tensors take.
        kernels: started, by operator.
        waits: of the host, by cause and line of the project.
        possible_waits: copies that may be one, likewise.
        products: matrix products, by data type.
        attention: calls of attention, by kernel and data type.
    """

    def __init__(self) -> None:
        self.installed = False
        self.values = True
        self.generator = torch.Generator().manual_seed(0)
        self.memory = Memory()
        self.reset()

    def reset(self) -> None:
        """Begin new accounts; the peak of memory begins at what is alive."""
        self.kernels: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()
        self.possible_waits: Counter[str] = Counter()
        self.products: Counter[str] = Counter()
        self.attention: Counter[str] = Counter()
        self.memory.peak = self.memory.live

    @contextmanager
    def shapes_alone(self) -> Iterator[None]:
        """Within it, new tensors are shapes without values."""
        before, self.values = self.values, False
        try:
            yield
        finally:
            self.values = before

    def run(self, operator: Any, args: tuple, kwargs: dict) -> Any:
        """One ATen call, from whatever code makes it."""
        name = operator._schema.name.split("::")[-1]
        tensors = [leaf for leaf in _leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        known = {id(tensor.inner): tensor for tensor in tensors if isinstance(tensor, Pretended)}
        if not known and not _is_cuda(kwargs.get("device")):
            return operator(*args, **kwargs)
        if name == "_to_copy":
            return self._to_copy(operator, args[0], kwargs)
        if name == "copy_":
            return self._copy(operator, arguments(operator, args, kwargs))
        _refuse(name, args, kwargs, tensors)
        self._note_waits(operator, name, args, kwargs, tensors)
        args, kwargs = _mapped(inner, args), _mapped(inner, kwargs)
        if _is_cuda(kwargs.get("device")):
            kwargs["device"] = torch.device("cpu" if self.values else "meta")
        result = self._result(operator, name, args, kwargs)
        self._account(operator, name, args, kwargs)
        return result if name in _NUMBERS else _mapped(lambda value: self._on_device(value, known), result)

    def wait(self, cause: str) -> None:
        """Count a wait of the host, with the line that asks for it."""
        self.waits[f"{cause} @ {_line()}"] += 1

    def _on_device(self, value: Any, known: dict[int, Pretended]) -> Any:
        """A result as a tensor of the device; what a call writes in place is the tensor that it was given."""
        if not isinstance(value, Tensor) or isinstance(value, Pretended):
            return value
        if id(value) in known:
            return known[id(value)]
        self.memory.add(value)
        return Pretended(value)

    def _note_waits(self, operator: Any, name: str, args: tuple, kwargs: dict, tensors: list[Tensor]) -> None:
        if name in _WAITS:
            self.wait(name)
        if name in _INDEXED:
            if any(tensor.dtype in (torch.bool, torch.uint8) for tensor in tensors[1:]):
                self.wait(f"{name} by a mask")
            for index in args[1]:
                if isinstance(index, Tensor) and not isinstance(index, Pretended) and index.dim():
                    self.wait(f"{name} by an index of the processor")
        by_lengths = name == "repeat_interleave" and "Tensor" in operator._overloadname
        if by_lengths and kwargs.get("output_size") is None:
            self.wait("repeat_interleave without output_size")

    # Copies from and to the processor.

    def _to_copy(self, operator: Any, source: Tensor, kwargs: dict) -> Tensor:
        device, blocking = kwargs.pop("device", None), not kwargs.pop("non_blocking", False)
        to_cuda = isinstance(source, Pretended) if device is None else _is_cuda(device)
        if not to_cuda:
            self.wait(f"copy to the processor, {source.nbytes:,} bytes")
            return self._read(inner(source), kwargs.get("dtype"))
        if isinstance(source, Pretended):
            self.kernels["_to_copy"] += 1
        else:
            self._note_copy(source, blocking)
            if not self.values:
                kwargs["device"] = torch.device("meta")
        return self._on_device(operator(inner(source), **kwargs), {})

    def _copy(self, operator: Any, call: SimpleNamespace) -> Tensor:
        target, source = call.self, call.src
        if not isinstance(target, Pretended):
            self.wait("copy to the processor")
            operator(target, self._read(source.inner, None))
        elif isinstance(source, Pretended):
            self.kernels["copy_"] += 1
            operator(target.inner, source.inner)
        else:
            self._note_copy(source, not call.non_blocking)
            if not target.inner.is_meta:
                operator(target.inner, source)
        return target

    def _read(self, tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
        """What the host gets: of a shape without values, ones."""
        dtype = dtype or tensor.dtype
        return torch.ones(tensor.shape, dtype=dtype) if tensor.is_meta else tensor.to(dtype, copy=True)

    def _note_copy(self, source: Tensor, blocking: bool) -> None:
        if blocking:
            self.wait("blocking copy to the device")
        elif not getattr(source, "pretended_pinned", False) and source.nbytes > _PAGEABLE:
            self.possible_waits[f"pageable copy to the device @ {_line()}"] += 1

    # Results, and what they cost.

    def _result(self, operator: Any, name: str, args: tuple, kwargs: dict) -> Any:
        make = (_VALUES if self.values else _SHAPES).get(name)
        if make is not None:
            result = make(self, arguments(operator, args, kwargs))
            if result is not NotImplemented:
                return result
        takes_generator = any(argument.name == "generator" for argument in operator._schema.arguments)
        if self.values and name in _RANDOM and takes_generator and kwargs.get("generator") is None:
            kwargs = {**kwargs, "generator": self.generator}
        return operator(*args, **kwargs)

    def _account(self, operator: Any, name: str, args: tuple, kwargs: dict) -> None:
        aliases = [returned.alias_info for returned in operator._schema.returns]
        if name in _FREE or any(alias is not None and not alias.is_write for alias in aliases):
            return
        tensors = [leaf for leaf in _leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        count = _KERNELS.get(name, 1)
        if name.startswith("_foreach") or name in _MANY_TENSORS:
            count = max(1, -(-len(tensors) // 100))
        elif name == "cat":
            count = max(1, -(-len(tensors) // 64))
        self.kernels[name] += count
        if name in _PRODUCTS:
            tf32 = tensors[-1].dtype == torch.float32 and torch.backends.cuda.matmul.allow_tf32
            self.products["tf32" if tf32 else str(tensors[-1].dtype).removeprefix("torch.")] += 1


_Line = tuple[str, int, str]  # file, number and function


def _line() -> str:
    """The last line of the package on the stack, and of a library below it; of a backward pass its node."""
    # Not extract_stack, which asks the file system for every file: half the time of a step with many waits.
    stack = [
        (frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in traceback.walk_stack(None)
    ]
    stack = [line for line in stack if line[0] not in _DEVICE_CODE]  # innermost first
    ours = [line for line in stack if line[0].startswith(_PACKAGE)]
    outside_torch = [line for line in stack if f"{os.sep}torch{os.sep}" not in line[0]]
    node = torch._C._current_autograd_node()
    if node is not None and not ours:
        return f"backward of {node.name()}"
    return " <- ".join(_short(line) for line in dict.fromkeys([*ours[:1], *outside_torch[:1]]))


def _short(line: _Line) -> str:
    path, number, function = line
    for folder in (os.path.dirname(_PACKAGE), *sys.path):
        path = path.removeprefix(f"{folder}{os.sep}")
    return f"{path}:{number} {function}"


def _refuse(name: str, args: tuple, kwargs: dict, tensors: list[Tensor]) -> None:
    """Raise what CUDA raises."""
    strange = [tensor for tensor in tensors if tensor.dim() and not isinstance(tensor, Pretended)]
    if name in _INDEXED and isinstance(args[0], Pretended):  # CUDA takes indices of the processor
        strange = [tensor for tensor in strange if not any(tensor is index for index in args[1])]
    if strange and any(isinstance(tensor, Pretended) for tensor in tensors):
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! "
            f"({name}: {[tuple(tensor.shape) for tensor in strange]} on the processor)"
        )
    if name == "_pin_memory":
        raise RuntimeError("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned")
    generator = kwargs.get("generator")
    if name in _RANDOM and generator is not None and generator is not DEVICE.generator:
        raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")


# Operators that compute otherwise on CUDA than on a processor.


def _dropout(device: Device, call: SimpleNamespace) -> tuple[Tensor, Tensor]:
    kept = torch.empty(call.input.shape).bernoulli_(1 - call.p, generator=device.generator).bool()
    return (call.input * kept / (1 - call.p)).to(call.input.dtype), kept


def _softmax(operator: Any) -> Callable[[Device, SimpleNamespace], Any]:
    """16 bits in and float32 out, which CUDA alone has in one kernel."""

    def compute(_: Device, call: SimpleNamespace) -> Any:
        return operator(call.self.float(), call.dim, False) if call.half_to_float else NotImplemented

    return compute


def _softmax_backward(operator: Any) -> Callable[[Device, SimpleNamespace], Any]:
    def compute(_: Device, call: SimpleNamespace) -> Any:
        if call.input_dtype == call.grad_output.dtype:
            return NotImplemented
        return operator(call.grad_output, call.output, call.dim, call.grad_output.dtype).to(call.input_dtype)

    return compute


_aten = torch.ops.aten
_VALUES: dict[str, Callable[[Any, SimpleNamespace], Any]] = {
    "_log_softmax": _softmax(_aten._log_softmax),
    "_log_softmax_backward_data": _softmax_backward(_aten._log_softmax_backward_data),
    "_softmax": _softmax(_aten._softmax),
    "_softmax_backward_data": _softmax_backward(_aten._softmax_backward_data),
    "native_dropout": _dropout,
    **pretended_attention.VALUES,
}


# Shapes that depend on values, or that torch does not give for its meta device.


def _number(_: Device, call: SimpleNamespace) -> bool | float:
    """True or 1; but False to transformers, which asks of a mask whether there is no padding."""
    if call.self.dtype == torch.bool:
        return not any("masking_utils" in frame.f_code.co_filename for frame, _ in traceback.walk_stack(None))
    return 1.0 if call.self.is_floating_point() else 1


def _indexed(_: Device, call: SimpleNamespace) -> Tensor:
    """Half of the elements, where a mask chooses."""

    def places(index: Tensor | None) -> Tensor | None:
        if index is None or index.dtype != torch.bool:
            return None if index is None else index.to("meta")
        return torch.empty(index.numel() // 2 + 1, dtype=torch.int64, device="meta")

    return _aten.index(call.self, [places(index) for index in call.indices])


def _integers(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.int64, device="meta")


_SHAPES: dict[str, Callable[[Any, SimpleNamespace], Any]] = {
    "_amp_foreach_non_finite_check_and_unscale_": lambda _, call: None,
    "_amp_update_scale_": lambda _, call: call.self,
    "_fused_adamw_": lambda _, call: None,
    "_local_scalar_dense": _number,
    "_unique2": lambda _, call: (call.self.new_empty(min(3, call.self.numel())), _integers(0), _integers(0)),
    "bincount": lambda _, call: _integers(max(call.self.numel(), call.minlength)),
    "equal": lambda _, call: False,
    "index": _indexed,
    "native_dropout": lambda _, call: (
        torch.empty_like(call.input),
        torch.empty_like(call.input, dtype=torch.bool),
    ),
    "nonzero": lambda _, call: _integers(call.self.numel(), call.self.dim()),
}

DEVICE = Device()


class _Everywhere(TorchDispatchMode):
    """Sees the calls that make a tensor on the device and get none of it."""

    def __torch_dispatch__(self, operator: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        return DEVICE.run(operator, args, kwargs or {})


class _Stream:
    """One stream, in which all is done already."""

    device = CUDA

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> "_Stream":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        pass

    def synchronize(self) -> None:
        DEVICE.wait("synchronize")

    def query(self) -> bool:
        return True

    def wait_stream(self, _: Any) -> None:
        pass

    wait_event = record = wait = wait_stream

    def record_event(self, event: Any = None) -> Any:
        return event or _Stream()


def install() -> Device:
    """Pretend, for the rest of the process, that there is one H100."""
    memory, generator = DEVICE.memory, DEVICE.generator
    stream = _Stream()
    properties = SimpleNamespace(
        name="Pretended H100", major=9, minor=0, total_memory=_MEMORY, multi_processor_count=132
    )

    def limit(share: float, *_: Any) -> None:
        memory.limit = None if share >= 1 else share * _MEMORY

    def begin_peak(*_: Any) -> None:
        memory.peak = memory.live

    names: dict[str, Any] = {
        "Event": _Stream,
        "Stream": _Stream,
        "_is_in_bad_fork": lambda: False,
        "_lazy_init": lambda: None,
        "current_device": lambda: 0,
        "current_stream": lambda *_: stream,
        "default_stream": lambda *_: stream,
        "device": _Stream,
        "device_count": lambda: 1,
        "empty_cache": lambda: None,
        "get_device_capability": lambda *_: (properties.major, properties.minor),
        "get_device_name": lambda *_: properties.name,
        "get_device_properties": lambda *_: properties,
        "get_rng_state": lambda *_: generator.get_state(),
        "is_available": lambda: True,
        "is_bf16_supported": lambda *_: True,
        "is_current_stream_capturing": lambda: False,
        "is_initialized": lambda: True,
        "manual_seed": generator.manual_seed,
        "manual_seed_all": generator.manual_seed,
        "max_memory_allocated": lambda *_: memory.peak,
        "mem_get_info": lambda *_: (_MEMORY - memory.live, _MEMORY),
        "memory_allocated": lambda *_: memory.live,
        "reset_peak_memory_stats": begin_peak,
        "set_device": lambda *_: None,
        "set_per_process_memory_fraction": limit,
        "set_rng_state": lambda state, *_: generator.set_state(state),
        "stream": lambda _: stream,
        "synchronize": lambda *_: DEVICE.wait("synchronize"),
    }
    for name, value in names.items():
        setattr(torch.cuda, name, value)
    torch.cuda._initialized = True
    for scaler in (torch.cuda.amp.common, torch.amp.grad_scaler):
        scaler.amp_definitely_not_available = lambda: False  # type: ignore[attr-defined]
    torch.__future__.set_overwrite_module_params_on_conversion(True)  # `.data =` would lose the subclass
    _foreach_utils._foreach_supported_types.append(Pretended)  # as plain tensors of CUDA are
    torch_device._device_constructors()  # keeps torch's own function, which `with torch.device()` looks for
    _replace_functions()
    Attention(lambda text: DEVICE.attention.update([text])).install()
    _Everywhere().__enter__()
    DEVICE.installed = True
    return DEVICE


def _replace_functions() -> None:
    """Functions of torch that do not reach the dispatcher, or refuse a subclass there."""
    plain_tensor, plain_list, plain_numpy = torch.tensor, Tensor.tolist, Tensor.numpy

    def tensor(data: Any, *, device: Any = None, requires_grad: bool = False, **options: Any) -> Tensor:
        """CUDA, too, makes it on the processor and copies."""
        made = plain_tensor(data, **options)
        made = made if device is None else made.to(device)
        return made.requires_grad_() if requires_grad else made

    def tolist(values: Tensor) -> Any:
        return plain_list(values.cpu() if isinstance(values, Pretended) else values)

    def numpy(values: Tensor, **options: Any) -> Any:
        if isinstance(values, Pretended):
            raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first")
        return plain_numpy(values, **options)

    def pin_memory(values: Tensor, *_: Any) -> Tensor:
        pinned = values.clone()
        pinned.pretended_pinned = True  # type: ignore[attr-defined]
        return pinned

    torch.tensor = tensor
    Tensor.tolist, Tensor.numpy, Tensor.pin_memory = tolist, numpy, pin_memory  # type: ignore[method-assign]
