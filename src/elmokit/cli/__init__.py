"""The command `elmo`: a table of commands, each an ordinary function that imports what it needs when it runs."""

from __future__ import annotations

import io
import signal
import sys
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from elmokit import __version__
from elmokit.cli.ablate import ablate
from elmokit.cli.cache import cache
from elmokit.cli.compare import compare
from elmokit.cli.convert import convert
from elmokit.cli.embed import embed
from elmokit.cli.finetune import finetune
from elmokit.cli.index import index
from elmokit.cli.info import info
from elmokit.cli.neighbors import neighbors
from elmokit.cli.perplexity import perplexity
from elmokit.cli.polysemy import polysemy
from elmokit.cli.predict import predict
from elmokit.cli.pretrain import pretrain
from elmokit.cli.probe import probe
from elmokit.cli.report import report
from elmokit.cli.sample_efficiency import sample_efficiency
from elmokit.cli.static import static
from elmokit.cli.task import task
from elmokit.cli.wsd import wsd
from elmokit.errors import ElmoError


class Terminated(KeyboardInterrupt):
    """The system asked the process to end; treated like Ctrl-C."""


class _Commands(TyperGroup):
    """Commands whose faults are one line on standard error."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command. Exit code 2: it could not be done; 130 and 143: it was interrupted or terminated."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # half a character is shown as its code, which JSON knows
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # nobody reads any more: typer ends quietly
        except ElmoError as error:
            reason = str(error)
        except OSError as error:
            reason = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        except (MemoryError, RuntimeError) as error:  # torch has no error of its own for a full memory
            phrases = ("allocate memory", "out of memory", "not enough memory")
            if isinstance(error, RuntimeError) and not any(phrase in str(error) for phrase in phrases):
                raise
            reason = "out of memory; try a smaller network, smaller batches or less text at a time"
        except KeyboardInterrupt as stop:
            typer.echo(f"elmo: {stop}" if str(stop) else "elmo: interrupted", err=True)
            raise typer.Exit(143 if isinstance(stop, Terminated) else 130) from None
        typer.echo(f"elmo: {reason}", err=True)
        raise typer.Exit(2)


app = typer.Typer(
    cls=_Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip
app.command(short_help="Turn text files into a file of vectors.")(embed)
app.command(short_help="Train a model on text.")(pretrain)
app.command(short_help="Train a model on, on the text of a domain.")(finetune)
app.command(short_help="Guess words before, after or inside a text.")(predict)
app.command(short_help="Measure how well a model predicts a text.")(perplexity)
app.add_typer(task, name="task", short_help="Train and use tasks: ner, sst, snli, squad, srl, coref.")
app.add_typer(ablate, name="ablate", short_help="Train a task with each part of ELMo, and without.")
app.add_typer(sample_efficiency, name="sample-efficiency", short_help="Train a task on less and less data.")
app.command(short_help="Tell word senses apart by their vectors.")(wsd)
app.command(short_help="Read tags off the vectors with a linear classifier.")(probe)
app.command(short_help="Find what is nearest to a word in its sentence.")(neighbors)
app.command(short_help="Compare a word in two sentences.")(compare)
app.command(short_help="Judge whether a model tells senses apart.")(polysemy)
app.add_typer(index, name="index", short_help="Build and search an index over a corpus.")
app.add_typer(static, name="static", short_help="Train and ask vectors without context.")
app.command(short_help="Set results beside the paper's, on one page.")(report)
app.command(short_help="Convert a model into another format.")(convert)
app.command(short_help="Describe a model.")(info)
app.add_typer(cache, name="cache", short_help="List and clear the layers that tasks have computed.")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"elmo {__version__}")
        raise typer.Exit


@app.callback()
def elmo(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Deep contextualized word vectors: ELMo."""


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated


def main() -> None:
    """What `elmo` and `python -m elmokit` run."""
    signal.signal(signal.SIGTERM, _terminate)
    app(prog_name="elmo")
