"""Data-parallel training: every process computes its share of each batch, and all take the same step.

`torchrun` starts the processes and sets their ranks; without it there is a single process. Rank 0 reads checkpoints and
writes all files; the other ranks receive the state from it, so they need the text but not the run folder.
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

from elmokit.errors import ConfigError, ElmoError, first_line
from elmokit.nn.device import find_device
from elmokit.training.checkpoint import Checkpoint

TIMEOUT = timedelta(hours=1)  # other ranks wait while rank 0 counts words or evaluates the held-out text


@dataclass(frozen=True)
class Processes:
    """Rank, world size and device of this process."""

    rank: int = 0
    world: int = 1  # number of processes
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which writes all files."""
        return self.rank == 0

    def total(self, *values: float) -> list[float]:
        """Sum of each value over all processes."""
        if self.world == 1:
            return list(values)
        sums = torch.tensor(values, dtype=torch.double, device=self.device)
        distributed.all_reduce(sums)
        return sums.tolist()  # type: ignore[no-any-return]

    def share(self, checkpoint: Checkpoint | None) -> Checkpoint:
        """Broadcast the checkpoint of rank 0 to all processes."""
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
        """Wrap a module in DistributedDataParallel if `world` > 1; every parameter must get a gradient."""
        return module if self.world == 1 else DistributedDataParallel(module)


def without_sync(module: nn.Module) -> AbstractContextManager[None]:
    """Context in which a wrapped module accumulates gradients without averaging them over the processes."""
    if isinstance(module, DistributedDataParallel):
        return module.no_sync()  # type: ignore[no-any-return]
    return nullcontext()


@contextmanager
def process_group(device: str | None = None) -> Iterator[Processes]:
    """Join the process group started by `torchrun`, if any, and leave it at the end.

    device: "cpu", "cuda", "cuda:1", ...; None is one GPU per process if there are GPUs, else the CPU.
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
        torch.set_float32_matmul_precision("high")  # TF32 for products outside autocast
    if world == 1:
        yield Processes(device=chosen)
        return
    backend = "nccl" if chosen.type == "cuda" else "gloo"
    distributed.init_process_group(backend, store=_store(), rank=rank, world_size=world, timeout=TIMEOUT)
    try:
        yield Processes(rank, world, chosen)
    except RuntimeError as error:
        if not isinstance(error, distributed.DistError) and "gloo" not in str(error):
            raise
        raise ElmoError(
            f"process {rank}: lost another process, see its own message ({first_line(error)}); continue with --resume"
        ) from None
    finally:
        distributed.destroy_process_group()


def _store() -> Store | None:
    """Rendezvous store with one key prefix per restart; None for the default store of torch.

    On a single machine torchrun keeps one store over all restarts, so restarted processes would find the addresses of
    dead ones (pytorch/pytorch#135712). On several machines the restart counts may differ, so no prefix is used.
    """
    environment = os.environ.get
    if environment("TORCHELASTIC_USE_AGENT_STORE") != "True" or environment("GROUP_WORLD_SIZE") != "1":
        return None
    store, _, _ = next(rendezvous("env://", timeout=TIMEOUT))
    return PrefixStore(f"attempt {environment('TORCHELASTIC_RESTART_COUNT')}", store)


def choose_device(name: str | None, local: int = 0, world: int = 1) -> torch.device:
    """Device by name; None is a GPU if there is one. `local`: rank of the process on its machine."""
    device = find_device(name)
    if device.type != "cuda" or device.index is not None:
        return device
    if (index := local if world > 1 else 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"--device: expected one GPU per process, found {torch.cuda.device_count()}; start fewer processes on "
            "this machine, or use --device cpu"
        )
    return torch.device("cuda", index)
