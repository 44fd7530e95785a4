"""In-place conversion of the plain network to its fast form: the entry point of this package."""

from __future__ import annotations

from typing import TypeVar, cast

from torch import nn

from elmokit.errors import ConfigError
from elmokit.nn.bilm import BiLM
from elmokit.nn.convolution import Convolution
from elmokit.nn.cpu.both_directions import SMALL, BidirectionalStack
from elmokit.nn.cpu.fast_bilm import FastBiLM
from elmokit.nn.cpu.fast_convolution import FastConvolution
from elmokit.nn.cpu.fast_encoder import FastTokenEncoder
from elmokit.nn.cpu.fast_highway import FastHighway
from elmokit.nn.cpu.fast_lstm import FastLstmLayer
from elmokit.nn.cpu.fast_softmax import FastAdaptiveHead, FastSoftmaxHead
from elmokit.nn.cpu.packed_matmul import Int8Matmul, Precision, packed
from elmokit.nn.cpu.products import can_use_onednn
from elmokit.nn.highway import Highway
from elmokit.nn.lstm import LstmLayer
from elmokit.nn.matmul import Matmul
from elmokit.nn.softmax import AdaptiveHead, SoftmaxHead
from elmokit.nn.token_encoder import TokenEncoder

Network = TypeVar("Network", bound=nn.Module)

# Each fast class inherits from the plain one, adds no parameters, and computes as the plain one does on other devices.
FAST_FORMS: dict[type[nn.Module], type[nn.Module]] = {
    BiLM: FastBiLM,
    TokenEncoder: FastTokenEncoder,
    Convolution: FastConvolution,
    Highway: FastHighway,
    LstmLayer: FastLstmLayer,
    SoftmaxHead: FastSoftmaxHead,
    AdaptiveHead: FastAdaptiveHead,
}


def optimize_(network: Network, precision: Precision | None = None) -> Network:
    """Give every module of a network its fast form, in place.

    Without a precision the parameters stay as they are and can be trained. With one, a biLM on a CPU is frozen and its
    weights are packed for inference, for good: in "float32" the same numbers; in "int8" the LSTMs compute with 8-bit
    weights, while word vectors, which are computed once per word, stay exact.

    A state dict has the same names and numbers before and after ("int8" has none), so the plain network, as an export
    wants it, is `plain = BiLM(config=bilm.config)` and `plain.load_state_dict(bilm.state_dict())`.
    """
    for module in network.modules():
        # As torch's own lazy and parametrized modules do: objects, parameters and names stay, only the methods change.
        module.__class__ = FAST_FORMS.get(type(module), type(module))  # type: ignore[assignment]
    if precision is not None and isinstance(network, FastBiLM):
        _pack_(network, precision)
    return network


def _pack_(bilm: FastBiLM, precision: Precision) -> None:
    bilm.requires_grad_(False)
    if precision == "float32" and any(isinstance(module, Int8Matmul) for module in bilm.modules()):
        raise ConfigError("int8 weights cannot be converted back: load the model again with dtype float32")
    if bilm.device.type != "cpu":
        return
    cast(FastTokenEncoder, bilm.token_encoder).tabulate_()
    if precision == "float32" and _is_small(bilm):
        bilm.add_module("bidirectional_stack", BidirectionalStack(bilm.forward_layers, bilm.backward_layers))
        if can_use_onednn(next(bilm.parameters())):
            # the first layer multiplies each distinct word once: better than fusing
            for layer in (*bilm.forward_layers[1:], *bilm.backward_layers[1:]):
                cast(FastLstmLayer, layer).fuse_()
    # one matrix at a time: nothing here may hold on to the old ones
    parents = [(path, module) for path, module in bilm.named_modules() if not isinstance(module, Matmul)]
    for path, module in parents:
        wanted: Precision = "float32" if path.startswith("token_encoder") else precision
        # a small projection is fast as it is, and can write into its output (`out=`)
        kept = ["projection"] if bilm.both_directions is not None and isinstance(module, LstmLayer) else []
        for name in [n for n, child in module.named_children() if isinstance(child, Matmul) and n not in kept]:
            replacement = packed(getattr(module, name).weight, wanted)
            if replacement is not None:
                setattr(module, name, replacement)


def _is_small(bilm: FastBiLM) -> bool:
    """Whether both directions of a single sentence should run at once; False for a network that is packed already."""
    lstm = bilm.config.lstm
    plain = all(isinstance(layer.state, Matmul) for layer in bilm.forward_layers if hasattr(layer, "state"))
    return plain and bilm.both_directions is None and 4 * lstm.dim * lstm.projection_dim <= SMALL
