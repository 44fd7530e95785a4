"""The command `elmo`: a table of commands, each an ordinary function that imports what it needs when it runs."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from elmokit import __version__
from elmokit.cli.ablate import ablate
from elmokit.cli.cache import cache
from elmokit.cli.compare import compare
from elmokit.cli.convert import convert
from elmokit.cli.embed import embed
from elmokit.cli.export import export
from elmokit.cli.finetune import finetune
from elmokit.cli.index import index
from elmokit.cli.info import info
from elmokit.cli.map import map_word
from elmokit.cli.neighbors import neighbors
from elmokit.cli.perplexity import perplexity
from elmokit.cli.polysemy import polysemy
from elmokit.cli.predict import predict
from elmokit.cli.pretrain import pretrain
from elmokit.cli.probe import probe
from elmokit.cli.progress import warnings
from elmokit.cli.report import report
from elmokit.cli.sample_efficiency import sample_efficiency
from elmokit.cli.serve import serve
from elmokit.cli.static import static
from elmokit.cli.tag import tag
from elmokit.cli.task import task
from elmokit.cli.wsd import wsd
from elmokit.disk.limits import raise_limits
from elmokit.errors import ElmoError, Terminated, naming_flags, one_line
from elmokit.tasks.shared.task_registry import TASKS


@contextmanager
def _interruptions() -> Iterator[None]:
    """One line and an exit code for Ctrl-C and SIGTERM."""
    try:
        yield
    except KeyboardInterrupt as stop:
        typer.echo(f"elmo: {one_line(str(stop))}" if str(stop) else "elmo: interrupted", err=True)
        raise typer.Exit(143 if isinstance(stop, Terminated) else 130) from None


class _Commands(TyperGroup):
    """Command group that prints an error as one line on standard error."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read the command line. Interrupted here, typer would end without a message."""
        with _interruptions():
            return super().make_context(*args, **kwargs)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command; for a task, as in `elmo ner`, the error names the full command."""
        if args and args[0] in TASKS and args[0] not in self.commands:
            ctx.fail(f"No such command {args[0]!r}; use: elmo task {' '.join(args[:2])}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a command. Exit code 2: it could not be done; 130 and 143: it was interrupted or terminated."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # a lone surrogate is shown as its escape
        try:
            with naming_flags(), warnings(), _interruptions():
                return super().invoke(ctx)
        except BrokenPipeError:
            raise  # the reader has closed the pipe: typer ends quietly
        except ElmoError as error:
            reason = str(error)
        except OSError as error:
            reason = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        except (MemoryError, RuntimeError) as error:  # torch has no error of its own for a full memory
            phrases = ("allocate memory", "out of memory", "not enough memory")
            if isinstance(error, RuntimeError) and not any(phrase in str(error) for phrase in phrases):
                raise
            reason = "out of memory; try a smaller network, smaller batches or less text at a time"
        typer.echo(f"elmo: {one_line(reason)}", err=True)
        raise typer.Exit(2)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(short_help="Turn text files into a file of vectors.")(embed)
app.command(short_help="Tag entities, parts of speech or sentiment in text.")(tag)
app.command("pretrain", short_help="Train a model on text.")(pretrain)
app.command("finetune", short_help="Fine-tune a model on the text of a domain.")(finetune)
app.command(short_help="Predict words before, after or inside a text.")(predict)
app.command(short_help="Compute the perplexity of a model on text.")(perplexity)
app.add_typer(task, name="task", short_help=f"Train and use tasks: {', '.join(TASKS)}.")
app.add_typer(ablate, name="ablate", short_help="Compare layers and places of ELMo on a task.")
app.add_typer(sample_efficiency, name="sample-efficiency", short_help="Train a task on smaller and smaller data.")
app.command(short_help="Disambiguate word senses by their vectors.")(wsd)
app.command(short_help="Probe the layers with a linear classifier.")(probe)
app.command(short_help="Find the nearest neighbors of a word in its sentence.")(neighbors)
app.command(short_help="Compare a word in two sentences.")(compare)
app.command("map", short_help="Draw the occurrences of a word on a plane.")(map_word)
app.command(short_help="Judge whether a model separates word senses.")(polysemy)
app.add_typer(index, name="index", short_help="Build and search an index over a corpus.")
app.add_typer(static, name="static", short_help="Train and query static word vectors.")
app.command(short_help="Compare results with the paper, on one page.")(report)
app.command(short_help="Serve the explorer page and an HTTP API.")(serve)
app.command(short_help="Convert a model into another format.")(convert)
app.add_typer(export, name="export", short_help="Export a model to a web page or to ONNX.")
app.command(short_help="Describe a model.")(info)
app.add_typer(cache, name="cache", short_help="List and clear the biLM layers cached by tasks.")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"elmo {__version__}")
        raise typer.Exit


@app.callback()
def elmo(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
    limits: Annotated[
        float,
        typer.Option(
            metavar="FACTOR",
            help="Factor on the limits of untrusted files: lines of 64 MB, 200 times the packed size.",
        ),
    ] = 1.0,
) -> None:
    """Deep contextualized word vectors: ELMo."""
    raise_limits(limits)


def run() -> None:
    """Run the command line; `elmokit.__main__` calls it once signal handlers are installed."""
    app(prog_name="elmo")
