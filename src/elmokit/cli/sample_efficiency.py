"""`elmo sample-efficiency`: how much training data, and how many epochs, ELMo saves a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmokit.cli import training
from elmokit.cli.options import Quiet
from elmokit.cli.output import print_table, results_table
from elmokit.cli.setting_flags import choices_from
from elmokit.cli.study import Folder, Seeds, make_study, numbers_of, seeds_of, study_command, study_group
from elmokit.cli.task_options import CacheFolder, CacheLimit, DevFile, TestFile, TrainFiles, data_files, given_settings
from elmokit.tasks.shared.task_registry import get_task

if TYPE_CHECKING:
    from rich.table import Table

    from elmokit.analysis.shared.results import Results
    from elmokit.analysis.studies.study import Outcome

PICTURE = "curve.png"
Fractions = Annotated[str, typer.Option(metavar="X,X", help="Fractions of the training data, above 0 and up to 1.")]
Choose = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SETTING=V,V",
        help="Choose this setting on the dev data, for every part with and without ELMo; repeatable [none].",
    ),
]

ChooseUpTo = Annotated[
    float,
    typer.Option(metavar="X", min=0, max=1, help="Largest fraction for which --choose applies."),
]


def _command(name: str) -> Any:
    from elmokit.analysis.studies.sample_efficiency import VARIED

    chosen = get_task(name)

    def sample_efficiency(
        output: Folder,
        train: TrainFiles = None,
        dev: DevFile = None,
        test: TestFile = None,
        fractions: Fractions = "0.001,0.01,0.1,1",
        seeds: Seeds = "0",
        choose: Choose = None,
        choose_up_to: ChooseUpTo = 1.0,
        device: training.Device = None,
        cache_dir: CacheFolder = None,
        cache_limit: CacheLimit = 20,
        threads: training.Threads = None,
        quiet: Quiet = False,
        **values: Any,
    ) -> None:
        from elmokit.analysis.shared.plots import require_drawing, save_picture
        from elmokit.analysis.studies.sample_efficiency import curve, numbers, variants
        from elmokit.analysis.studies.study import Study
        from elmokit.errors import ConfigError
        from elmokit.tasks.runs.small_data import ADAPTED
        from elmokit.training.settings_fields import flag

        expected = "numbers above 0 and up to 1, such as 0.001,0.01,0.1,1"
        parts: list[float] = numbers_of(fractions, "--fractions", float, expected, lambda part: 0 < part <= 1)
        choices = choices_from(choose or (), chosen.settings, VARIED)
        if own := sorted(choices.keys() & set(ADAPTED)):
            raise ConfigError(f"--choose {flag(own[0])[2:]}: small parts of the data adapt it; choose another setting")
        if both := sorted(name for name in choices if values.get(name) is not None):
            raise ConfigError(f"{flag(both[0])}: expected it once, found it under --choose, too; leave one out")
        require_drawing()
        folder = training.expanded(output)
        study = Study(
            chosen,
            given_settings(values),
            data_files(train, dev, test),
            folder,
            variants(parts, choices, choose_up_to),
            seeds_of(seeds),
        )

        def summarize(outcomes: Mapping[str, list[Outcome]]) -> Results:
            return study.results("sample-efficiency", numbers(parts, outcomes, choices, choose_up_to), outcomes)

        results = make_study(
            study, summarize, device=device, cache_dir=cache_dir, cache_limit=cache_limit, threads=threads, quiet=quiet
        )
        save_picture(curve(results.numbers), folder / PICTURE, overwrite=True)
        print_table(_table(results.numbers))

    return study_command(
        sample_efficiency,
        chosen,
        after="choose_up_to",
        varied=VARIED,
        help=f"""Train the task on parts of the training data, without ELMo and with it:

        \b
        elmo sample-efficiency {name} --train train.txt --dev dev.txt --test test.txt -o less-{name} --fractions 0.1,1

        Figure 1 of the paper. Smaller parts are contained in larger ones. "As good after" is the first epoch of ELMo
        whose dev score is at least the baseline's best, with the updates until then. The folder gets results.json and
        {PICTURE}. Each run is one of `elmo task {name} train`, with the settings that are given here; parts too small
        for 1,000 updates with them get smaller batches and more epochs. After an interruption the same command
        continues.

        \b
        --choose dropout=0.2,0.5 --choose learning-rate=0.0005,0.001

        trains every part with each of the four combinations, with and without ELMo, and reports the one with the best
        dev score of each. --choose-up-to 0.3 saves time: larger parts are trained with the settings that are given.
        """,
    )


sample_efficiency = typer.Typer(cls=study_group(_command), no_args_is_help=True, rich_markup_mode=None)


@sample_efficiency.callback()
def _sample_efficiency() -> None:
    """Train one task on less and less data, with ELMo and without (Figure 1 of the paper), for example:

    elmo sample-efficiency snli --train train.jsonl --dev dev.jsonl --test test.jsonl -o less-snli
    """


def _table(facts: Mapping[str, Any]) -> Table:
    from elmokit.analysis.studies.sample_efficiency import columns, rows

    table = results_table(*columns(facts))
    for row in rows(facts):
        table.add_row(*row)
    return table
