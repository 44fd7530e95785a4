"""What `elmo pretrain` and `elmo finetune` have in common: their options, and how they show a run."""

from __future__ import annotations

import functools
import inspect
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from elmokit.cli.progress import clock

if TYPE_CHECKING:
    from elmokit.pretrain.distributed import Processes
    from elmokit.pretrain.loop import Step
    from elmokit.pretrain.run import Look, Run

Output = Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="Folder of the run and the model.")]
Device = Annotated[
    str | None, typer.Option(metavar="NAME", help="cpu, cuda, cuda:1; by default a GPU where there is one.")
]
Threads = Annotated[int | None, typer.Option(metavar="N", min=1, max=4096, help="Threads of the CPU; by default all.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint; begin if there is none.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the run that is in the folder.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only warnings and errors.")]

# The flags that are settings, each under the name of its field, in the order of --help. What is not given is None.
# (`tokenize` is no field, but short for a tokenizer.)
FLAGS: dict[str, Any] = {
    "train": Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILES",
            help="Text, one sentence a line; also compressed, and patterns in quotes; may be repeated.",
        ),
    ],
    "heldout": Annotated[str | None, typer.Option(metavar="FILE", help="Text whose perplexity decides what is best.")],
    "vocabulary": Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Words to predict: <S>, </S>, <UNK>, then by frequency; else it is built."),
    ],
    "vocabulary_size": Annotated[
        int | None, typer.Option(metavar="N", help="Words of a vocabulary that is built, with the three marks.")
    ],
    "tokenizer": Annotated[
        str | None, typer.Option(metavar="spaces|words|spacy:xx", help="How lines become tokens; by default spaces.")
    ],
    "tokenize": Annotated[bool, typer.Option("--tokenize", help="Raw text: the same as --tokenizer words.")],
    "max_sentence": Annotated[int | None, typer.Option(metavar="N", help="Longer sentences are cut into pieces.")],
    "encoding_errors": Annotated[
        Literal["strict", "replace", "ignore"] | None, typer.Option(help="What to do about bytes that are not UTF-8.")
    ],
    "epochs": Annotated[float | None, typer.Option(metavar="N", help="Passes over the text.")],
    "steps": Annotated[int | None, typer.Option(metavar="N", help="Instead of --epochs: updates.")],
    "minutes": Annotated[float | None, typer.Option(metavar="N", help="Instead of --epochs: time.")],
    "batch_tokens": Annotated[int | None, typer.Option(metavar="N", help="Tokens of a batch, over all processes.")],
    "accumulate": Annotated[int | None, typer.Option(metavar="N", help="Batches whose gradients make one update.")],
    "loss": Annotated[
        Literal["full", "sampled", "adaptive"] | None,
        typer.Option(help="Softmax: over all words, a sample, or in tiers."),
    ],
    "n_samples": Annotated[int | None, typer.Option(metavar="N", help="Words of a sample.")],
    "dropout": Annotated[float | None, typer.Option(metavar="P", help="Share of numbers dropped.")],
    "optimiser": Annotated[Literal["adam", "adagrad"] | None, typer.Option(help="Published: adagrad.")],
    "learning_rate": Annotated[float | None, typer.Option(metavar="X", help="At its highest.")],
    "warm_up": Annotated[int | None, typer.Option(metavar="STEPS", help="Until the learning rate is at its highest.")],
    "decay": Annotated[Literal["none", "linear", "cosine"] | None, typer.Option(help="How the learning rate falls.")],
    "clip": Annotated[float | None, typer.Option(metavar="X", help="Longest gradient.")],
    "loss_scale": Annotated[float | None, typer.Option(metavar="X", hidden=True)],
    "seed": Annotated[int | None, typer.Option(metavar="N", help="Of all random numbers.")],
    "heldout_every": Annotated[
        int | None, typer.Option(metavar="STEPS", help="Between two looks at the held-out text.")
    ],
    "checkpoint_every": Annotated[int | None, typer.Option(metavar="STEPS", help="Between two checkpoints.")],
    "log_every": Annotated[int | None, typer.Option(metavar="STEPS", help="Between two lines of metrics.jsonl.")],
    "precision": Annotated[
        Literal["auto", "float32", "bfloat16"] | None,
        typer.Option(help="Of matrix products; auto is bfloat16 on GPUs that have it."),
    ],
}


def with_flags(command: Callable[..., None]) -> Callable[..., None]:
    """A command with a parameter for every flag of FLAGS instead of its `**given`, which gets them as settings.

    They stand behind its positional parameters and before those that are keywords only.
    """
    own = list(inspect.signature(command, eval_str=True).parameters.values())
    keyword = inspect.Parameter.KEYWORD_ONLY
    flags = [
        inspect.Parameter(name, keyword, default=False if name == "tokenize" else None, annotation=kind)
        for name, kind in FLAGS.items()
    ]
    front = [parameter for parameter in own if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    parameters = [*front, *flags, *(parameter for parameter in own if parameter.kind is keyword)]

    @functools.wraps(command)
    def run(**values: Any) -> None:
        given = {name: values.pop(name) for name in FLAGS}
        tokenize = given.pop("tokenize")
        given["tokenizer"] = given["tokenizer"] or ("words" if tokenize else None)
        given["train"] = tuple(str(absolute(path)) for path in given["train"] or ()) or None
        command(**values, **given | {name: absolute(given[name]) for name in ("heldout", "vocabulary")})

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


_LINE_SECONDS, _BAR_SECONDS = 10.0, 0.2
_PASSING_ON = 5.0  # seconds in which a second SIGTERM is the first again


def absolute(path: str | None) -> str | None:
    """Where a path leads from anywhere: a run may be resumed from another folder."""
    return str(expanded(path).absolute()) if path is not None else None


def expanded(path: str | Path) -> Path:
    """A path without its `~`; one of a user who is not there stays as it is, where that of pathlib fails."""
    return Path(os.path.expanduser(path))


def command_line() -> str:
    """The command as it was typed, but for the program's own path."""
    return shlex.join(["elmo", *sys.argv[1:]])


@contextmanager
def session(output: Path, device: str | None, threads: int | None) -> Iterator[Processes]:
    """This process among those that `torchrun` has started, if it has; the first one holds the lock of the folder."""
    import torch

    from elmokit.pretrain.distributed import joined
    from elmokit.training.memory import keep_freed_memory
    from elmokit.weights.lock import locked

    keep_freed_memory()
    if threads is not None:
        torch.set_num_threads(threads)
    with joined(device) as processes, locked(output) if processes.is_first else nullcontext():
        yield processes


def follow(run: Run, *, quiet: bool) -> None:
    """Make the steps of a run and show them. SIGTERM and Ctrl-C end it with a checkpoint after the present step."""
    from elmokit.cli import Terminated

    first = run.processes.is_first
    for fault in run.faults:
        typer.echo(f"elmo: warning: {fault}; going on from the checkpoint before it", err=True)
    if first and (n := run.state.notes.get("overlap")):
        typer.echo(
            f"elmo: warning: {run.state.settings.heldout}: {n:,} of its sentences are also in the training text; its "
            "perplexity will be too low",
            err=True,
        )
    if first and not quiet:
        typer.echo(_heading(run), err=True)
        if find_spec("tensorboard") is None:
            typer.echo("metrics.jsonl only; for TensorBoard as well: pip install 'elmokit[pretrain]'", err=True)
    began = run.state.step
    with signals() as caught, _display(run, quiet=quiet or not first) as show:
        for event in run.go(lambda: bool(caught)):
            show(event)
    state = run.state
    if state.done < 1:
        if not first:
            raise typer.Exit(143)
        kind = KeyboardInterrupt if signal.SIGINT in caught else Terminated
        raise kind(f"stopped after step {state.step:,}; go on with --resume")
    if run.lost:
        typer.echo(f"elmo: warning: {run.lost}; the model has the best weights as they were exported", err=True)
    if first and not quiet:
        typer.echo(_summary(run, was_complete=state.step == began), err=True)


@contextmanager
def counting(what: str = "counting words", *, quiet: bool) -> Iterator[Callable[[float], None]]:
    """A function to call with the fraction of that work that is done."""
    shown = time.monotonic()
    is_terminal = sys.stderr.isatty()

    def show(done: float) -> None:
        nonlocal shown
        if not quiet and time.monotonic() - shown >= (_BAR_SECONDS if is_terminal else _LINE_SECONDS):
            shown = time.monotonic()
            _clear(is_terminal)
            typer.echo(f"{done:6.1%}  {what}", err=True, nl=not is_terminal)

    yield show
    _clear(is_terminal and not quiet)


@contextmanager
def signals() -> Iterator[list[int]]:
    """Collects signals to end; a second one has its usual effect.

    Who ends a job may signal all its processes, and torchrun then passes on what it got: that is still the first.
    """
    caught: list[int] = []
    first = 0.0
    usual = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal first
        if number not in caught:
            caught.append(number)
            first = time.monotonic()
        elif number == signal.SIGINT or time.monotonic() - first > _PASSING_ON:
            signal.signal(number, usual[signal.Signals(number)])
            signal.raise_signal(number)

    for number in usual:
        signal.signal(number, note)
    try:
        yield caught
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


@contextmanager
def _display(run: Run, *, quiet: bool) -> Iterator[Callable[[Step | Look], None]]:
    """A function to call with every event: a line on a terminal that changes, else one every ten seconds."""
    if quiet:
        yield lambda _: None
        return
    from elmokit.pretrain.run import Look

    started = shown = time.monotonic()
    before = run.state.done
    is_terminal = sys.stderr.isatty()

    def show(event: Step | Look) -> None:
        nonlocal shown
        now = time.monotonic()
        if isinstance(event, Look):
            _clear(is_terminal)
            typer.echo(_look_lines(event), err=True)
        elif now - shown >= (_BAR_SECONDS if is_terminal else _LINE_SECONDS):
            shown = now
            _clear(is_terminal)
            left = (now - started) * (1 - event.done) / max(1e-9, event.done - before)
            typer.echo(_step_line(event, left), err=True, nl=not is_terminal)

    try:
        yield show
    finally:
        _clear(is_terminal)


def _clear(is_terminal: bool) -> None:
    if is_terminal:
        typer.echo("\r\x1b[2K", err=True, nl=False)


def _step_line(step: Step, left: float) -> str:
    return (
        f"{step.done:6.1%}  step {step.step:,}  epoch {step.epoch:.2f}  loss {step.loss:.3f}  "
        f"perplexity {step.perplexity:,.1f}  {step.tokens_per_second:,.0f} tokens/s  {clock(left)} left"
    )


def _look_lines(look: Look) -> str:
    figures = look.perplexity
    lines = [
        f"step {look.step:,}: held-out perplexity {figures.mean:,.2f} (forward {figures.forward:,.2f}, backward "
        f"{figures.backward:,.2f}, {figures.out_of_vocabulary:.1%} unknown words){', the best' if look.is_best else ''}"
    ]
    return "\n".join([*lines, f"  {look.sample}"] if look.sample else lines)


def _heading(run: Run) -> str:
    state = run.state
    n = sum(p.numel() for p in state.bilm.parameters())
    place = f"from step {state.step:,}" if state.step else "from the start"
    return (
        f"{run.folder}: {n / 1e6:.1f} M parameters, {len(state.vocabulary):,} words to predict, "
        f"{len(run.corpus.files):,} file(s) of text, {place}"
    )


def _summary(run: Run, *, was_complete: bool) -> str:
    state = run.state
    if was_complete:
        return f"{run.folder}: was complete already, after step {state.step:,}"
    best = f"; held-out perplexity {state.best['mean']:,.2f} at step {state.best['step']:,}" if state.best else ""
    cut = f"; {state.position.long_sentences:,} long sentence(s) cut" if state.position.long_sentences else ""
    return f"{run.folder}: {state.step:,} steps, {state.tokens:,} tokens in {clock(state.seconds)}{best}{cut}"
