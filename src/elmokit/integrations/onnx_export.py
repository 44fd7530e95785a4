"""Export of a biLM to ONNX, as a graph of public operators with one `Scan` per LSTM.

Inputs: `characters` (W, M) and `words` (W,), the ids of the W distinct words of a batch, each where the model has that
input; `index` (B, T), which word every token is; `lengths` (B,), the tokens of every sentence. Output: `layers`
(B, L + 1, T, 2D), zero after the end of a sentence. W, B and T are dynamic. What `OnnxElmo` needs besides the network,
from the tokenizer to the vocabulary, is in the metadata of the file.
"""

# ruff: noqa: SIM905 - sentences read best as sentences

from __future__ import annotations

import json
import os
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit import __version__
from elmokit.config import ModelConfig
from elmokit.disk.outputs import check_output
from elmokit.disk.whole import new_file
from elmokit.embed.elmo import Elmo
from elmokit.errors import ConfigError, MissingExtraError, OutputError
from elmokit.integrations.onnx import FORMAT_VERSION, METADATA, OnnxElmo
from elmokit.nn.bilm import BiLM
from elmokit.nn.state import LstmState
from elmokit.nn.state_policy import INDEPENDENT_STATES
from elmokit.text.vocabulary import marks_of
from elmokit.weights.model import Model

OPSET = 18  # the first in which every reduction takes its axes as an input
IR_VERSION = 8  # that of opset 18, so that older runtimes can read the file
TOLERANCE = 1e-5  # largest difference from the engine, of vectors up to 1; larger vectors scale it
MAX_BYTES = 2**31 - 2**24  # protobuf messages end at 2 GB

# Sentences of many lengths, with words of every kind of character, to compare the file with the engine.
CHECKED = (
    "The bank raised its interest rates , and they sat on the bank of the river .".split(),
    ["Yes"],
    "Was it 3.14 % or Straße 日本語 ?".split(),
    ["a" * 200, "<S>", "", "the", "the", "the"],
    "In 1998 the two companies merged ; their shares rose by 12 percent to $ 3.4 billion .".split() * 3,
)


def export_onnx(
    elmo: Elmo, path: str | os.PathLike[str], *, half: bool = False, overwrite: bool = False
) -> dict[str, float]:
    """Write a model as an ONNX file, and compare it with the engine before the file appears.

    half: store 16-bit weights; the network still computes in 32 bits.
    Returns the largest differences of a vector: "engine", from the engine with the weights as stored; and "rounding",
    what the rounding of the weights changed, which is 0 without `half`.
    """
    target = check_output(path, overwrite=overwrite)
    onnx = load_onnx()
    if elmo.state not in INDEPENDENT_STATES:
        raise ConfigError(f"state: expected {' or '.join(INDEPENDENT_STATES)} for ONNX, found {elmo.state}")
    if elmo.dtype != "float32":
        raise ConfigError(
            f"dtype: expected float32 for ONNX, found {elmo.dtype}; use half=True to store 16-bit weights"
        )
    stored = _rounded(elmo) if half else elmo
    parameters = sum(tensor.numel() for tensor in stored.model.bilm.state_dict().values())
    if parameters * (2 if half else 4) > MAX_BYTES:
        raise OutputError(f"{target}: a model of {parameters:,} parameters is too large for one ONNX file of 2 GB")
    content = build(stored, half=half).SerializeToString()
    with new_file(target, replace=overwrite) as fresh:
        fresh.write_bytes(content)
        onnx.checker.check_model(str(fresh), full_check=True)
        difference, largest = _difference(stored, OnnxElmo(fresh))
        if not difference <= TOLERANCE * max(1.0, largest):
            raise OutputError(
                f"{target}: expected the vectors of the engine to {TOLERANCE:g}, found a difference of {difference:.1e}"
            )
    return {"engine": difference, "rounding": _rounding(elmo, stored)}


def build(elmo: Elmo, *, half: bool = False) -> Any:
    """ONNX model of a biLM, in memory."""
    onnx = load_onnx()
    graph = _Graph(onnx, half=half)
    config = elmo.config
    inputs = _add_network(graph, elmo)
    shape = ["batch", config.n_vectors, "time", config.vector_dim]
    output = onnx.helper.make_tensor_value_info("layers", onnx.TensorProto.FLOAT, shape)
    made = onnx.helper.make_graph(graph.nodes, "elmo", inputs, [output], initializer=graph.initializers)
    model = onnx.helper.make_model(
        made,
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="elmokit",
        producer_version=__version__,
    )
    onnx.helper.set_model_props(model, {METADATA: json.dumps(_metadata(elmo), ensure_ascii=False)})
    return model


def load_onnx() -> Any:
    """The package `onnx`, or the error that says how to install it."""
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError:
        raise MissingExtraError("exporting to ONNX", "onnx") from None
    return onnx


class _Graph:
    """Nodes and initializers of an ONNX graph, with names that cannot collide."""

    def __init__(self, onnx: Any, *, half: bool = False, prefix: str = "") -> None:
        self.onnx, self.half, self._prefix = onnx, half, prefix  # a body must not reuse a name of the graph around it
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self._count = 0

    def add(self, operator: str, *inputs: str, n_outputs: int = 1, **attributes: Any) -> Any:
        """Append a node; returns the name of its output, or a list of names."""
        self._count += 1
        names = [f"{self._prefix}{operator.lower()}_{self._count}" + (f".{k}" if k else "") for k in range(n_outputs)]
        self.nodes.append(self.onnx.helper.make_node(operator, inputs, names, **attributes))
        return names[0] if n_outputs == 1 else names

    def constant(self, name: str, array: NDArray[Any] | np.generic) -> str:
        """Append an initializer as it is; returns its name."""
        self.initializers.append(self.onnx.numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def integers(self, *values: int) -> str:
        """Append a one-dimensional constant of integers."""
        self._count += 1
        return self.constant(f"{self._prefix}integers_{self._count}", np.array(values, np.int64))

    def weight(self, name: str, tensor: Tensor) -> str:
        """Append a weight; one in half precision is cast, which runtimes do once, when they load the file."""
        array = tensor.detach().cpu().float().numpy()
        if not self.half:
            return self.constant(name, array)
        stored = self.constant(f"{name}.half", array.astype(np.float16))
        return str(self.add("Cast", stored, to=self.onnx.TensorProto.FLOAT))


def _add_network(graph: _Graph, elmo: Elmo) -> list[Any]:
    """Add all nodes; returns the inputs of the graph."""
    onnx, config = graph.onnx, elmo.config
    tensors = elmo.model.bilm.state_dict()

    def integer_input(name: str, *shape: str | int) -> Any:
        return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, shape)

    inputs = []
    if config.char_cnn is not None:
        inputs.append(integer_input("characters", "words", config.char_cnn.max_characters))
    if config.n_words:
        inputs.append(integer_input("words", "words"))
    inputs += [integer_input("index", "batch", "time"), integer_input("lengths", "batch")]

    vectors = _add_token_encoder(graph, config, tensors)  # (W, D)
    index = graph.add("Transpose", "index", perm=[1, 0])  # (T, B)
    mirrored = _mirror(graph, index)
    forward = _add_stack(graph, elmo, "forward", vectors, index)
    backward = [_mirror(graph, x) for x in _add_stack(graph, elmo, "backward", vectors, mirrored)]
    tokens = graph.add("Gather", vectors, index)  # (T, B, D)
    halves = [tokens, tokens, *(half for pair in zip(forward, backward, strict=True) for half in pair)]
    stacked = graph.add("Concat", *halves, axis=2)  # (T, B, (L + 1) 2D)
    stacked = graph.add("Where", _alive(graph, index), stacked, graph.constant("zero", np.float32(0)))
    shape = graph.integers(0, 0, config.n_vectors, config.vector_dim)  # 0 keeps a size
    layers = graph.add("Reshape", stacked, shape)  # (T, B, L + 1, 2D)
    graph.nodes.append(onnx.helper.make_node("Transpose", [layers], ["layers"], perm=[1, 2, 0, 3]))
    return inputs


def _mirror(graph: _Graph, x: str) -> str:
    """Reverse the tokens of every sentence, (T, B, ...); padding stays at the end."""
    return str(graph.add("ReverseSequence", x, "lengths", time_axis=0, batch_axis=1))


def _alive(graph: _Graph, index: str) -> str:
    """(T, B, 1): whether a sentence has a token at this time."""
    n_steps = graph.add("Gather", graph.add("Shape", index), graph.constant("first", np.int64(0)))
    zero, one = graph.constant("start", np.int64(0)), graph.constant("step", np.int64(1))
    time = graph.add("Unsqueeze", graph.add("Range", zero, n_steps, one), graph.integers(1))  # (T, 1)
    return str(graph.add("Unsqueeze", graph.add("Less", time, "lengths"), graph.integers(2)))


def _add_token_encoder(graph: _Graph, config: ModelConfig, tensors: dict[str, Tensor]) -> str:
    """(W, D) the context-free vectors of the words, as `nn.token_encoder` computes them."""

    def weight(name: str) -> str:
        return graph.weight(name, tensors[f"token_encoder.{name}"])

    parts = []
    if config.n_words:
        parts.append(graph.add("Gather", weight("word_embedding"), "words"))
    if config.char_cnn is not None:
        characters = graph.add("Gather", weight("char_embedding"), "characters")  # (W, M, e)
        x = graph.add("Transpose", characters, perm=[0, 2, 1])
        pooled = []
        for k, (width, count) in enumerate(config.char_cnn.filters):
            name = f"convolutions.{k}"
            rows = tensors[f"token_encoder.{name}.weight"]  # (width e, count)
            filters = rows.reshape(width, config.char_cnn.embedding_dim, count).permute(2, 1, 0)
            convolved = graph.add("Conv", x, graph.weight(f"{name}.weight", filters), kernel_shape=[width])
            best = graph.add("ReduceMax", convolved, graph.integers(2), keepdims=0)
            pooled.append(graph.add("Add", best, weight(f"{name}.bias")))
        features = graph.add("Concat", *pooled, axis=1) if len(pooled) > 1 else pooled[0]
        features = graph.add("Tanh" if config.char_cnn.activation == "tanh" else "Relu", features)
        for k in range(config.char_cnn.n_highway):
            features = _add_highway(graph, features, {part: weight(f"highways.{k}.{part}") for part in HIGHWAY})
        parts.append(features)
    vectors = graph.add("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
    if config.has_token_projection:
        vectors = graph.add("MatMul", vectors, weight("projection.weight"))
        vectors = graph.add("Add", vectors, weight("projection_bias"))
    return str(vectors)


HIGHWAY = ("gate.weight", "gate_bias", "transform.weight", "transform_bias")


def _add_highway(graph: _Graph, x: str, part: dict[str, str]) -> str:
    """x + g (relu(x W_t + b_t) - x)."""
    gate = graph.add("Add", graph.add("MatMul", x, part["gate.weight"]), part["gate_bias"])
    transform = graph.add("Add", graph.add("MatMul", x, part["transform.weight"]), part["transform_bias"])
    change = graph.add("Sub", graph.add("Relu", transform), x)
    return str(graph.add("Add", x, graph.add("Mul", graph.add("Sigmoid", gate), change)))


def _add_stack(graph: _Graph, elmo: Elmo, direction: str, vectors: str, index: str) -> list[str]:
    """The LSTM layers of one direction: L outputs (T, B, D)."""
    lstm, tensors = elmo.config.lstm, elmo.model.bilm.state_dict()
    start = getattr(elmo.start_state, direction)
    outputs: list[str] = []
    for k in range(lstm.n_layers):
        name = f"{direction}_layers.{k}"
        weight = {part: graph.weight(f"{name}.{part}", tensors[f"{name}.{part}"]) for part in _parts(lstm)}
        if k == 0:  # every distinct word is multiplied once
            product = graph.add("MatMul", vectors, weight["input.weight"])
            gates = graph.add("Gather", graph.add("Add", product, weight["bias"]), index)  # (T, B, 4C)
        else:
            gates = graph.add("Add", graph.add("MatMul", outputs[-1], weight["input.weight"]), weight["bias"])
        x = _add_scan(graph, lstm, name, gates, index, weight, start[k])
        outputs.append(graph.add("Add", x, outputs[-1]) if k and lstm.skip_connections else x)
    return outputs


def _parts(lstm: Any) -> list[str]:
    return ["input.weight", "state.weight", "bias", *(["projection.weight"] if lstm.has_projection else [])]


def _add_scan(
    graph: _Graph, lstm: Any, name: str, gates: str, index: str, weight: dict[str, str], start: LstmState
) -> str:
    """The recurrence of an LSTM, as `nn.lstm` computes it: input products (T, B, 4C) to outputs (T, B, D)."""
    onnx = graph.onnx
    body = _Graph(onnx, prefix=f"{name}.")
    output, cell, products = (f"{name}.{part}" for part in ("output_before", "cell_before", "products"))
    state = body.add("MatMul", output, weight["state.weight"])  # the weights are those of the outer graph
    total = body.add("Add", products, state)
    opened, candidate = body.add("Split", total, body.integers(3 * lstm.dim, lstm.dim), n_outputs=2, axis=1)
    i, f, o = body.add("Split", body.add("Sigmoid", opened), body.integers(*[lstm.dim] * 3), n_outputs=3, axis=1)
    new = body.add("Mul", i, body.add("Tanh", candidate))
    c = _clip(body, body.add("Add", body.add("Mul", f, cell), new), lstm.cell_clip)
    m = body.add("Mul", o, body.add("Tanh", c))
    if lstm.has_projection:
        m = _clip(body, body.add("MatMul", m, weight["projection.weight"]), lstm.proj_clip)
    copy = body.add("Identity", m)  # a state and an output cannot share a name

    def value(label: str, dim: int) -> Any:
        return onnx.helper.make_tensor_value_info(label, onnx.TensorProto.FLOAT, ["batch", dim])

    step = onnx.helper.make_graph(
        body.nodes,
        f"{name}.step",
        [value(output, lstm.projection_dim), value(cell, lstm.dim), value(products, 4 * lstm.dim)],
        [value(m, lstm.projection_dim), value(c, lstm.dim), value(copy, lstm.projection_dim)],
        initializer=body.initializers,
    )
    batch = graph.add("Slice", graph.add("Shape", index), graph.integers(1), graph.integers(2))
    states = [
        graph.add(
            "Expand",
            graph.constant(f"{name}.start_{part}", getattr(start, part)[:1].cpu().float().numpy()),
            graph.add("Concat", batch, graph.integers(dim), axis=0),
        )
        for part, dim in (("output", lstm.projection_dim), ("cell", lstm.dim))
    ]
    return str(graph.add("Scan", *states, gates, n_outputs=3, body=step, num_scan_inputs=1)[2])


def _clip(graph: _Graph, x: str, limit: float | None) -> str:
    if limit is None:
        return x
    low, high = (graph.constant(f"{x}.{name}", np.float32(value)) for name, value in (("low", -limit), ("high", limit)))
    return str(graph.add("Clip", x, low, high))


def _metadata(elmo: Elmo) -> dict[str, Any]:
    """Everything that turns text into the inputs of the graph."""
    model = elmo.model
    return {
        "format": FORMAT_VERSION,
        "options": model.config.to_options(),
        "state": elmo.state,
        "vocabulary": model.vocabulary if model.config.n_words else None,
        "alphabet": model.alphabet,
        "license": model.license,
        "fingerprint": model.fingerprint,
    }


def _rounded(elmo: Elmo) -> Elmo:
    """The same model with weights rounded to half precision."""
    bilm = BiLM(config=elmo.config)
    tensors = {}
    for name, tensor in elmo.model.bilm.state_dict().items():
        tensors[name] = tensor.detach().cpu().half().float()
        if not torch.isfinite(tensors[name].sum()):
            raise OutputError(f"--half: {name} has numbers too large for half precision; leave --half out")
    bilm.load_state_dict(tensors)
    model: Model = replace(elmo.model, bilm=bilm.eval())
    return Elmo(model, state=elmo.state)


def _sentences(elmo: Elmo) -> list[list[str]]:
    """Sentences to compare; of a model that knows only the words of its table, those words."""
    model = elmo.model
    if not model.config.n_words or model.vocabulary is None or marks_of(model.config)[2] in model.vocabulary:
        return [list(tokens) for tokens in CHECKED]
    known = cycle(word for word in model.vocabulary if word)
    return [[next(known) for _ in tokens] for tokens in CHECKED]


def _difference(elmo: Elmo, exported: OnnxElmo) -> tuple[float, float]:
    """Largest difference between the vectors of both, and the largest number in them; NaN if there is one."""
    sentences = _sentences(elmo)
    expected = [sentence.layers.ravel() for sentence in elmo.embed(sentences)] * 2
    found = [sentence.layers.ravel() for sentence in exported.embed(sentences)]
    found += [sentence.layers.ravel() for tokens in sentences for sentence in exported.embed([tokens])]
    engine, other = np.concatenate(expected), np.concatenate(found)
    return float(np.abs(engine - other).max()), float(np.abs(engine).max())


def _rounding(elmo: Elmo, stored: Elmo) -> float:
    if stored is elmo:
        return 0.0
    sentences = _sentences(elmo)
    pairs = zip(elmo.embed(sentences), stored.embed(sentences), strict=True)
    return max(float(np.abs(a.layers - b.layers).max()) for a, b in pairs)
