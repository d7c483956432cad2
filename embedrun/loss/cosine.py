"""Unit vectors, cosines and angles, in float32 or wider, finite at the zero vector."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def widen(values: Tensor) -> Tensor:
    """Half-precision values as float32; float32 and float64 as they are.

    Losses are never computed in half precision: a cosine of 0.999999 is 1 in float16 and
    in bfloat16, and the gradient at the end of a range is lost or not a number.
    """
    return values if values.dtype == torch.float64 else values.float()


def normalize(vectors: Tensor) -> Tensor:
    """Scale every vector, ``(..., dim)``, to length 1; a zero vector stays zero and gets a zero gradient.

    Dividing by ``max(length, 1e-12)`` would give a zero vector a gradient of 1e12. Any floating type is
    taken; the result is float32 or wider. A vector with a NaN or an infinite entry becomes NaN, so that it is
    noticed.
    """
    vectors = widen(vectors)
    # Without a graph the same vectors are others: a term must not get those that another one detached.
    kind = f"unit, graph {torch.is_grad_enabled()}"
    return _once(kind, vectors, lambda: _Normalize.apply(vectors, _inverse_length(vectors)))


_found: ContextVar[dict[tuple[str, int, int], tuple[Tensor, Tensor]] | None] = ContextVar(
    "found", default=None
)


@contextmanager
def normalizing_once() -> Iterator[None]:
    """Within it, the lengths and unit vectors of a tensor are computed once, however many terms ask.

    They are kept until its end, by the tensor itself: an equal copy of it is another one.
    """
    token = _found.set({})
    try:
        yield
    finally:
        _found.reset(token)


def _once(kind: str, vectors: Tensor, compute: Callable[[], Tensor]) -> Tensor:
    found = _found.get()
    if found is None or vectors.is_inference():  # such a tensor does not say whether it was written to
        return compute()
    key = (kind, id(vectors), vectors._version)
    if key not in found:
        found[key] = (vectors, compute())  # with the vectors, so that no other tensor gets their id
    return found[key][1]


def _asked_for(kind: str, vectors: Tensor) -> bool:
    """Whether `_once` would keep what it is given, and has none yet."""
    found = _found.get()
    if found is None or vectors.is_inference():
        return False
    return (kind, id(vectors), vectors._version) not in found


def _inverse_length(vectors: Tensor) -> Tensor:
    """1 / length of each vector, ``(..., dim)`` to ``(..., 1)``; 0 for a zero vector, and no gradient.

    NaN where an entry is NaN or infinite. Too short for a finite gradient counts as zero.
    """
    own = vectors.detach()
    return _once("length", vectors, lambda: _computed_inverse_length(own, _length(own)))


def _length(vectors: Tensor) -> Tensor:
    """The length of each vector, ``(..., dim)`` to ``(..., 1)``; infinite where its square is."""
    return torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)


def _computed_inverse_length(vectors: Tensor, length: Tensor) -> Tensor:
    limits = torch.finfo(vectors.dtype)
    if _usual(inverse := length.reciprocal()):
        return inverse
    # Scaled to where squares neither overflow nor vanish; the direction does not depend on it.
    scale = torch.ones_like(length).masked_fill_(length == torch.inf, limits.max**-0.75)  # (..., 1)
    scale = scale.masked_fill_(length < limits.tiny**0.25, limits.tiny**-0.5)
    # Below this the gradient, which grows as 1 / length, nears the end of the type's range.
    empty = length < limits.tiny**0.5  # (..., 1); False for NaN
    length = _length(vectors * scale)  # (..., 1)
    length = length.masked_fill_(length == torch.inf, torch.nan).masked_fill_(empty, 1)
    return scale.masked_fill_(empty, 0).div_(length)


def _usual(inverse: Tensor) -> bool:
    """Whether no square of any of these vectors overflows or vanishes, by 1 / length, ``(..., 1)``.

    Never so on CUDA: looking would make the processor wait for it.
    """
    if inverse.device.type != "cpu" or not inverse.numel():
        return False
    limits, (low, high) = torch.finfo(inverse.dtype), inverse.aminmax()  # NaN where one is
    return limits.max**-0.5 < low.item() and high.item() < limits.tiny**-0.25


class _Normalize(torch.autograd.Function):
    r"""The gradient at *x* of one *g* at :math:`u = x / \|x\|` is :math:`(g - (g \cdot u) u) / \|x\|`.

    Written out because it reads and writes large tensors half as often as backpropagation through the single
    steps of the forward pass.
    """

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, inverse: Tensor) -> Tensor:
        unit = vectors * inverse  # (..., dim)
        ctx.save_for_backward(unit, inverse)
        return unit

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        unit, inverse = ctx.saved_tensors  # (..., dim) and (..., 1)
        along = (grad * unit).sum(dim=-1, keepdim=True)  # (..., 1)
        return torch.addcmul(grad, unit, along, value=-1).mul_(inverse), None


def require_pairs(left: Tensor, right: Tensor) -> None:
    """Raise ValueError unless both have one shape, ``(pairs, dim)``."""
    if left.ndim != 2 or left.shape != right.shape:
        raise ValueError(
            "left and right must both have shape (pairs, dim), "
            f"got {tuple(left.shape)} and {tuple(right.shape)}"
        )


def cosine(left: Tensor, right: Tensor) -> Tensor:
    """Cosine of each pair of ``(pairs, dim)`` vectors of any length, ``(pairs,)``; 0 if either is zero."""
    return _of_pairs(_Cosine, left, right, turned=False)


def turned_cosine(left: Tensor, right: Tensor) -> Tensor:
    r"""Real part of :math:`(1 + i) v \overline{u}` of each pair of unit vectors *u* and *v*, ``(pairs,)``.

    The first half of a vector, of even width, holds real parts and the second half imaginary parts. 0 if
    either is zero. Both sides are ``(pairs, dim)``, and need not be unit length.
    """
    return _of_pairs(_Cosine, left, right, turned=True)


def angle(left: Tensor, right: Tensor) -> Tensor:
    r"""Angle of each pair in radians, ``(pairs,)``, 0 to π; π/2 if either vector is zero.

    Exact at both ends (Kahan), where arccos of a cosine loses all digits and its gradient. At 0 and π the
    angle has a kink; the gradient there is zero: always finite. Both sides are ``(pairs, dim)``, and need not
    be unit length.
    """
    return _of_pairs(_Angle, left, right)


def _of_pairs(
    function: type[torch.autograd.Function], left: Tensor, right: Tensor, *, turned: bool = False
) -> Tensor:
    require_pairs(left, right)
    left, right = widen(left), widen(right)
    with normalizing_once() if _found.get() is None else nullcontext():
        # One reading of both sides for all; elsewhere than on a processor none is known to be usual.
        product = _products(left, right, turned) if left.device.type == "cpu" else None  # (pairs, 1)
        (x, per_x), (y, per_y) = _measured(left), _measured(right)  # (pairs, dim) and (pairs, 1) each
        if product is None or x is not left or y is not right:
            product = _products(x, y, turned)  # (pairs, 1)
    return function.apply(x, per_x, y, per_y, product * (per_x * per_y), turned)


def _measured(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors whose squares neither overflow nor vanish, ``(pairs, dim)``, and 1 / length, ``(pairs, 1)``.

    These very vectors where that is so, else of length 1. For a zero vector 0 stands in place of 1 / length.
    """
    vectors = widen(vectors)
    inverse = _inverse_length(vectors)  # (pairs, 1)
    return (vectors, inverse) if _usual(inverse) else (normalize(vectors), (inverse != 0).to(inverse.dtype))


class _Cosine(torch.autograd.Function):
    r"""With :math:`u = x / \|x\|` and :math:`v = y / \|y\|`: :math:`c = u \cdot v`.

    The gradient of *c* is what changes the direction of a vector, divided by its length:

    .. math:: \frac{\partial c}{\partial x} = \frac{v - c u}{\|x\|}
              = \frac{1}{\|x\| \|y\|} y - \frac{c}{\|x\|^2} x, \qquad
              \frac{\partial c}{\partial y} = \frac{1}{\|x\| \|y\|} x - \frac{c}{\|y\|^2} y

    With `turned` it is :math:`c = u \cdot (1 + i) v`, of complex numbers, and :math:`(1 + i) y` and
    :math:`(1 - i) x` are the first *y* and *x* of the gradients.
    """

    @staticmethod
    def forward(
        ctx: Any,
        left: Tensor,
        per_left: Tensor,
        right: Tensor,
        per_right: Tensor,
        value: Tensor,
        turned: bool,
    ) -> Tensor:
        ctx.turned = turned
        ctx.save_for_backward(left, per_left, right, per_right, value)
        return value.squeeze(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        measured = _Measured(*ctx.saved_tensors[:4])
        to_left, to_right = _gradients(measured, ctx.saved_tensors[4], grad[:, None], ctx.turned)
        return to_left, None, to_right, None, None, None


class _Measured(NamedTuple):
    left: Tensor  # (pairs, dim)
    per_left: Tensor  # (pairs, 1); 1 / length
    right: Tensor  # (pairs, dim)
    per_right: Tensor  # (pairs, 1)


@torch.no_grad()
def _products(left: Tensor, right: Tensor, turned: bool) -> Tensor:
    """The sum of the products of each pair, ``(pairs, 1)``, whatever its lengths.

    Inside `normalizing_once` the lengths are measured on the way, while the numbers are in the cache.
    """
    value = torch.empty_like(left[:, :1])  # (pairs, 1)
    unknown = [side for side in (left, right) if _asked_for("length", side)]
    lengths = [torch.empty_like(value) for _ in unknown]  # (pairs, 1) each
    halves = right.chunk(2, dim=1) if turned else ()
    columns = zip(_in_cache(left, right, value, *halves), _in_cache(left, *unknown, *lengths), strict=True)
    room = torch.empty_like(next(_in_cache(left))[0])  # (some, dim); new memory costs more than a pass
    real, imaginary = room.chunk(2, dim=1) if turned else (room, room)
    for (x, y, c, *parts), (_, *measured) in columns:
        for vectors, length in zip(measured[: len(unknown)], measured[len(unknown) :], strict=True):
            torch.linalg.vector_norm(vectors, dim=1, keepdim=True, out=length)
        out = room[: len(x)]  # (some, dim)
        if turned:  # (1 + i) y
            torch.sub(*parts, out=real[: len(x)])
            torch.add(*parts, out=imaginary[: len(x)])
            out.mul_(x)
        else:
            torch.mul(x, y, out=out)
        torch.sum(out, dim=1, keepdim=True, out=c)
    for side, length in zip(unknown, lengths, strict=True):
        _once("length", side, lambda side=side, length=length: _computed_inverse_length(side, length))
    return value


def _gradients(measured: _Measured, value: Tensor, grad: Tensor, turned: bool) -> tuple[Tensor, Tensor]:
    """The gradient at both sides, ``(pairs, dim)`` each, of `grad` at *c*, ``(pairs, 1)`` both."""
    left, per_left, right, per_right = measured
    to_left, to_right = torch.empty_like(left), torch.empty_like(right)  # (pairs, dim) each
    across, along = grad * per_left * per_right, -grad * value  # (pairs, 1) each
    columns = (across, along * per_left.square(), along * per_right.square())  # (pairs, 1) each
    every = (left, right, to_left, to_right)
    halves = [half for one in every for half in one.chunk(2, dim=1)] if turned else []
    for x, y, dx, dy, k, along_x, along_y, *parts in _in_cache(*every, *columns, *halves):
        torch.mul(y, k, out=dx).addcmul_(x, along_x)
        torch.mul(x, k, out=dy).addcmul_(y, along_y)
        if turned:  # k (1 + i) y is k y + k i y, and likewise k (1 - i) x
            real_x, imag_x, real_y, imag_y, real_dx, imag_dx, real_dy, imag_dy = parts
            real_dx.addcmul_(imag_y, k, value=-1)
            imag_dx.addcmul_(real_y, k)
            real_dy.addcmul_(imag_x, k)
            imag_dy.addcmul_(real_x, k, value=-1)
    return to_left, to_right


NEAR = 0.95  # cosine from which on, either way, an angle is not computed from it


class _Angle(torch.autograd.Function):
    r"""The angle of :math:`u = x / \|x\|` and :math:`v = y / \|y\|`: :math:`\theta = \arccos(u \cdot v)`.

    The gradient is that of *c* times :math:`-1/\sin\theta`. Near 0 and π neither has digits left. There,
    with :math:`\sigma = 1` near 0 and -1 near π, the short vector :math:`w = v - \sigma u` has them all:

    .. math:: \theta = 2 \arcsin(\|w\|/2) \ \text{or}\ \pi - 2 \arcsin(\|w\|/2), \qquad
              \sin\theta = \|w\| \sqrt{1 - \|w\|^2/4}

    .. math:: \frac{\partial\theta}{\partial x}
              = -\frac{1}{\sin\theta}\,\frac{w - (u \cdot w)\,u}{\|x\|}, \qquad
              \frac{\partial\theta}{\partial y}
              = \frac{\sigma}{\sin\theta}\,\frac{w - (v \cdot w)\,v}{\|y\|}

    since :math:`v - (u \cdot v) u` and :math:`w - (u \cdot w) u` are equal, and :math:`u = \sigma(v - w)`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        left: Tensor,
        per_left: Tensor,
        right: Tensor,
        per_right: Tensor,
        value: Tensor,
        turned: bool,
    ) -> Tensor:
        measured = _Measured(left, per_left, right, per_right)
        found = value.acos()  # (pairs, 1)
        near = value.abs() > NEAR  # (pairs, 1)
        rows = _where(near)
        if rows is not None:
            *_, length, sign = _short(measured, value, rows)  # (near, 1) both
            small = 2 * (length / 2).asin()  # (near, 1)
            exact = torch.where(sign > 0, small, torch.pi - small)  # (near, 1)
            found[rows] = torch.where(near[rows], exact, found[rows])
        ctx.rows = rows
        ctx.save_for_backward(left, per_left, right, per_right, value, near)
        return found.squeeze(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        measured, (value, near) = _Measured(*ctx.saved_tensors[:4]), ctx.saved_tensors[4:]  # (pairs, 1) each
        rows, grad = ctx.rows, grad[:, None]  # (pairs, 1)
        slope = (-grad * (1 - value.square()).rsqrt()).masked_fill_(near, 0)  # (pairs, 1)
        to_left, to_right = _gradients(measured, value, slope, turned=False)  # (pairs, dim) each
        if rows is not None:
            u, v, w, length, sign = _short(measured, value, rows)  # (near, dim) and (near, 1)
            slope = grad[rows] / (length * (1 - length.square() / 4).sqrt())  # (near, 1)
            slope = slope.masked_fill_((length == 0) | ~near[rows], 0)  # at the kinks there is none
            along = (u * w).sum(dim=1, keepdim=True)  # (near, 1)
            to_left[rows] -= (w - along * u) * (slope * measured.per_left[rows])
            along = sign * along + length.square()  # (near, 1); v · w, because v is w + sign u
            to_right[rows] += (w - along * v) * (sign * slope * measured.per_right[rows])
        return to_left, None, to_right, None, None, None


def _where(near: Tensor) -> Tensor | slice | None:
    """The rows that are marked, ``(pairs, 1)``, or None; on CUDA all, because looking would wait for it."""
    if near.device.type != "cpu":
        return slice(None)
    rows = near.squeeze(1).nonzero().squeeze(1)  # (near,)
    return rows if len(rows) else None


def _short(
    measured: _Measured, value: Tensor, rows: Tensor | slice
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Of some rows: unit vectors *u* and *v*, *w* and its length, and the sign σ, as in :class:`_Angle`."""
    left, per_left, right, per_right = measured
    u, v = left[rows] * per_left[rows], right[rows] * per_right[rows]  # (near, dim) each
    sign = torch.where(value[rows] > 0, 1.0, -1.0).to(u.dtype)  # (near, 1)
    w = v - sign * u  # (near, dim)
    return u, v, w, torch.linalg.vector_norm(w, dim=1, keepdim=True), sign


CACHED = 2**18  # numbers of one tensor, a thread; measured at 384 and 768 dimensions


def _in_cache(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The same rows of tensors, the first ``(rows, dim)``; on a CPU so few that they stay in its cache.

    Then what is written in one pass is read from there in the next, and needs no more memory.
    """
    first = tensors[0]
    few = max(1, CACHED * torch.get_num_threads() // max(1, first.shape[1]))
    rows = few if first.device.type == "cpu" else max(1, len(first))
    return zip(*(tensor.split(rows) for tensor in tensors), strict=True)


def cosines(rows: Tensor, *columns: Tensor) -> Tensor:
    """Cosine of every row with every column, ``(rows, columns)``; 0 where either vector is zero.

    In float32 or wider even under autocast, which would compute the matrix product in half precision. Vectors
    are ``(rows, dim)`` and ``(columns, dim)``, and need not be unit length. Columns may come in several
    tensors, one after another.
    """
    with torch.autocast(rows.device.type, enabled=False):
        units = [normalize(some) for some in columns]  # (columns, dim) each
        return normalize(rows) @ (torch.cat(units) if len(units) > 1 else units[0]).T
