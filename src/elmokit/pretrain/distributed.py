"""One run on many processes: each takes a share of every batch, and all make the same step.

`torchrun` starts the processes and tells each its number; without it there is one. The first process reads checkpoints
and writes everything; the others get what they need from it, so they need the text but not the folder of the run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta

import torch
from torch import Tensor, distributed, nn
from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from elmokit.errors import ConfigError, ElmoError
from elmokit.nn.device import find_device
from elmokit.training.checkpoint import Checkpoint
from elmokit.weights.model import first_line

PATIENCE = timedelta(hours=1)  # the others wait while the first one counts words or reads the held-out text


@dataclass(frozen=True)
class Processes:
    """The processes of a run, as one of them sees them."""

    rank: int = 0  # its number
    world: int = 1  # how many there are
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def is_first(self) -> bool:
        """Whether this is the one that writes."""
        return self.rank == 0

    def total(self, *values: float) -> list[float]:
        """The sum of each value over all processes."""
        if self.world == 1:
            return list(values)
        sums = torch.tensor(values, dtype=torch.double, device=self.device)
        distributed.all_reduce(sums)
        return sums.tolist()  # type: ignore[no-any-return]

    def share(self, checkpoint: Checkpoint | None) -> Checkpoint:
        """The checkpoint that the first process has, on all of them."""
        if self.world == 1:
            assert checkpoint is not None
            return checkpoint
        described = None
        if checkpoint is not None:
            described = checkpoint.record, {k: (tuple(t.shape), t.dtype) for k, t in checkpoint.tensors.items()}
        box = [described]
        distributed.broadcast_object_list(box, src=0, device=self.device)
        assert box[0] is not None
        record, shapes = box[0]
        tensors: dict[str, Tensor] = {}
        for name, (shape, dtype) in shapes.items():
            here = None if checkpoint is None else checkpoint.tensors[name].to(self.device)
            tensors[name] = torch.empty(shape, dtype=dtype, device=self.device) if here is None else here
            distributed.broadcast(tensors[name], src=0)
        return Checkpoint(record, {name: tensor.cpu() for name, tensor in tensors.items()})

    def wrap(self, module: nn.Module) -> nn.Module:
        """A module whose backward pass averages gradients over the processes; every parameter must have one."""
        return module if self.world == 1 else DistributedDataParallel(module)


def on_its_own(module: nn.Module) -> AbstractContextManager[None]:
    """Within, a wrapped module adds up gradients without averaging them over the processes yet."""
    if isinstance(module, DistributedDataParallel):
        return module.no_sync()  # type: ignore[no-any-return]
    return nullcontext()


@contextmanager
def joined(device: str | None = None) -> Iterator[Processes]:
    """Meet the other processes that `torchrun` has started, if it has; part at the end.

    device: "cpu", "cuda", "cuda:1", ...; None is a GPU for each process where there are any, else the CPU.
    """
    try:
        rank, world, local = (
            int(os.environ.get(name, other)) for name, other in (("RANK", 0), ("WORLD_SIZE", 1), ("LOCAL_RANK", 0))
        )
    except ValueError:
        raise ConfigError("RANK, WORLD_SIZE, LOCAL_RANK: expected numbers, as torchrun sets them") from None
    chosen = choose_device(device, local, world)
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
        torch.set_float32_matmul_precision("high")  # TF32 in what is not bfloat16
    if world == 1:
        yield Processes(device=chosen)
        return
    backend = "nccl" if chosen.type == "cuda" else "gloo"
    distributed.init_process_group(backend, store=_store(), rank=rank, world_size=world, timeout=PATIENCE)
    try:
        yield Processes(rank, world, chosen)
    except RuntimeError as error:
        if not isinstance(error, distributed.DistError) and "gloo" not in str(error):
            raise
        raise ElmoError(
            f"process {rank}: lost another one, whose own message says why ({first_line(error)}); go on with --resume"
        ) from None
    finally:
        distributed.destroy_process_group()


def _store() -> Store | None:
    """Where the processes find each other's addresses, if not where torch looks by itself.

    On a single machine torchrun keeps one store over all restarts, and processes that it has started again would find
    the addresses of those that are gone (pytorch/pytorch#135712). Of several machines each counts its own restarts.
    """
    environment = os.environ.get
    if environment("TORCHELASTIC_USE_AGENT_STORE") != "True" or environment("GROUP_WORLD_SIZE") != "1":
        return None
    store, _, _ = next(rendezvous("env://", timeout=PATIENCE))
    return PrefixStore(f"attempt {environment('TORCHELASTIC_RESTART_COUNT')}", store)


def choose_device(name: str | None, local: int = 0, world: int = 1) -> torch.device:
    """The device of that name, or a GPU where there is one; for the `local`-th process of a machine."""
    device = find_device(name)
    if device.type != "cuda" or device.index is not None:
        return device
    if (index := local if world > 1 else 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"--device: expected a GPU for each process, found {torch.cuda.device_count()}; start fewer processes on "
            "this machine, or use --device cpu"
        )
    return torch.device("cuda", index)
