"""torch's private operators: all that this package uses, and whether they still compute what we expect.

They may change with any version of torch. Each group is compared with public operators once, at its first use; if it
differs, one line is logged and the plain forms are used instead.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

log = logging.getLogger(__name__)

Activation = Literal["none", "sigmoid"]


def _find(namespace: Any, name: str) -> Any:
    """An operator, or None where this torch has none of that name."""
    return getattr(namespace, name, None)


_reorder = _find(torch.ops.mkldnn, "_reorder_linear_weight")
_linear = _find(torch.ops.mkldnn, "_linear_pointwise")
_linear_binary = _find(_linear, "binary")

# Derivatives, each with `grad_input=` for the result: sigmoid_backward(d, sigmoid(x)), tanh_backward(d, tanh(x)),
# hardtanh_backward(d, x, low, high), threshold_backward(d, x, threshold)
sigmoid_backward = _find(torch.ops.aten, "sigmoid_backward")
tanh_backward = _find(torch.ops.aten, "tanh_backward")
hardtanh_backward = _find(torch.ops.aten, "hardtanh_backward")
threshold_backward = _find(torch.ops.aten, "threshold_backward")


def onednn_reorder(weight: Tensor) -> Tensor:
    """W (N, K) in oneDNN's blocked layout. `to_dense` turns it back exactly."""
    blocks: Tensor = _reorder(weight)
    return blocks


def onednn_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, then: Activation = "none") -> Tensor:
    """activation(x W^T + b) by oneDNN: x (n, K), W (N, K), reordered or not, b (N,) to (n, N).

    In bfloat16, accumulation is in float32 and the result is rounded.
    """
    y: Tensor = _linear(x, weight, bias, then, [], "")
    return y


def onednn_linear_add(x: Tensor, weight: Tensor, other: Tensor) -> Tensor:
    """x W^T + other by oneDNN: x (n, K), W (N, K), other (n, N)."""
    y: Tensor = _linear_binary(x, other, weight, None, "add")
    return y


def quantize_weight(columns: Tensor, scales: Tensor) -> Any:
    """W (N, K) in 8 bits, with a scale per row (N,), in the layout of torch's quantized linear layer."""
    engine = torch.backends.quantized.engine
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch announces the move of its quantization front end
            torch.backends.quantized.engine = "fbgemm"  # the one whose product takes a given scale of x
            zeros = torch.zeros(len(scales), dtype=torch.long)
            quantized = torch.quantize_per_channel(columns, scales.double(), zeros, 0, torch.qint8)
            return torch.ops.quantized.linear_prepack(quantized, None)
    finally:
        torch.backends.quantized.engine = engine


def quantized_linear(x: Tensor, scale: float, zero: int, weight: Any) -> Tensor:
    """x W^T in 8 bits: x (n, K), as the unsigned integers x / scale + zero, to (n, N) in float32."""
    y: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(x, scale, zero, weight)
    return y


@cache
def has_onednn() -> bool:
    """Whether oneDNN's products of float32 matrices can be used."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False  # expected on some kinds of CPU, so nothing is logged
    return _works(_check_onednn, "oneDNN's linear operators", "plain matrix products")


@cache
def has_bfloat16() -> bool:
    """Whether this CPU multiplies matrices of bfloat16 faster than those of float32."""
    is_supported = _find(torch.cpu, "_is_avx512_bf16_supported")
    if is_supported is None or not is_supported() or not has_onednn():
        return False
    return _works(_check_bfloat16, "oneDNN's linear operators of bfloat16", "float32")


@cache
def has_derivatives() -> bool:
    """Whether the derivatives of activations can be used."""
    return _works(_check_derivatives, "the derivatives of activations", "autograd")


@cache
def has_int8() -> bool:
    """Whether the product of 8-bit integers can be used."""
    return _works(_check_int8, "the quantized linear operator", "no 8-bit weights")


def _works(check: Callable[[], None], name: str, instead: str) -> bool:
    try:
        with torch.inference_mode(False), torch.no_grad(), torch.autocast("cpu", enabled=False):
            check()
    except Exception as error:  # whatever torch may raise for an operator that it has changed
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        log.warning("torch %s: %s gave %s; using %s instead", torch.__version__, name, reason, instead)
        return False
    return True


def _numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def _check_onednn() -> None:
    for n, n_in, n_out in ((1, 33, 20), (8, 16, 64)):
        x, weight, bias, other = _numbers(n, n_in), _numbers(n_out, n_in), _numbers(n_out), _numbers(n, n_out)
        exact = x @ weight.t()
        blocks = onednn_reorder(weight)
        _require_equal(blocks.to_dense(), weight)
        for form in (weight, blocks, weight.t().contiguous().t()):
            _require_close(onednn_linear(x, form), exact)
            _require_close(onednn_linear(x, form, bias), exact + bias)
            _require_close(onednn_linear(x, form, bias, "sigmoid"), torch.sigmoid(exact + bias))
        _require_close(onednn_linear_add(x, weight, other), exact + other)


def _check_bfloat16() -> None:
    x, weight = _numbers(8, 64).bfloat16(), _numbers(32, 64).bfloat16()
    exact = x.float() @ weight.float().t()
    for form in (weight, onednn_reorder(weight), weight.t().contiguous().t()):
        found = onednn_linear(x, form)
        if found.dtype != torch.bfloat16 or not (found.float() - exact).norm() < 0.01 * exact.norm():
            raise ValueError("numbers far from the product in float32")


def _check_derivatives() -> None:
    x, d = _numbers(2, 5, 7)
    functions: tuple[tuple[Callable[[Tensor], Tensor], Callable[..., Tensor]], ...] = (
        (torch.sigmoid, lambda y, **out: sigmoid_backward(d, y, **out)),
        (torch.tanh, lambda y, **out: tanh_backward(d, y, **out)),
        (lambda x: functional.hardtanh(x, -0.5, 0.5), lambda y, **out: hardtanh_backward(d, y, -0.5, 0.5, **out)),
        (functional.relu, lambda y, **out: threshold_backward(d, y, 0, **out)),
    )
    for function, derivative in functions:
        with torch.enable_grad():
            own = x.clone().requires_grad_()
            y = function(own)
            (exact,) = torch.autograd.grad(y, own, d)
        _require_close(derivative(y.detach()), exact)
        out = torch.empty_like(d)
        derivative(y.detach(), grad_input=out)
        _require_close(out, exact)


def _check_int8() -> None:
    x, weight = _numbers(3, 32).clamp(-1, 1), _numbers(16, 32)
    scales = weight.abs().amax(dim=1) / 127
    found, exact = quantized_linear(x, 2 / 127, 64, quantize_weight(weight, scales)), x @ weight.t()
    if not (found - exact).norm() < 0.03 * exact.norm():
        raise ValueError("numbers far from the product in float32")


def _require_close(found: Tensor, expected: Tensor) -> None:
    if found.shape != expected.shape or not torch.allclose(found, expected, atol=1e-4, rtol=1e-4):
        raise ValueError("results that differ from those of public operators")


def _require_equal(found: Tensor, expected: Tensor) -> None:
    if not torch.equal(found, expected):
        raise ValueError("a reordered weight that cannot be restored")
