"""`elmo ablate`: what each part of ELMo brings to a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from elmokit.cli import training
from elmokit.cli.options import Quiet
from elmokit.cli.output import print_table, results_table
from elmokit.cli.study import Folder, Seeds, make_study, seeds_of, study_command, study_group
from elmokit.cli.task_options import CacheFolder, CacheLimit, DevFile, TestFile, TrainFiles, data_files, given_settings
from elmokit.tasks.shared.task_registry import get_task

if TYPE_CHECKING:
    from rich.table import Table

    from elmokit.analysis.shared.results import Results
    from elmokit.analysis.studies.study import Outcome

_HEADINGS = {"layers": "which layers, at the {place} (Table 2)", "places": "where, with lambda 0.001 (Table 3)"}
_PLACES = {"input": "input", "output": "output", "both": "input and output"}


def _command(name: str) -> Any:
    from elmokit.analysis.studies.ablation import VARIED

    chosen = get_task(name)

    def ablate(
        output: Folder,
        train: TrainFiles = None,
        dev: DevFile = None,
        test: TestFile = None,
        seeds: Seeds = "0",
        device: training.Device = None,
        cache_dir: CacheFolder = None,
        cache_limit: CacheLimit = 20,
        threads: training.Threads = None,
        quiet: Quiet = False,
        **values: Any,
    ) -> None:
        from elmokit.analysis.studies.ablation import numbers, tables
        from elmokit.analysis.studies.study import Study

        given = given_settings(values)
        compared = tables(chosen.settings(**given))
        variants = [variant for rows in compared.values() for variant in rows.values()]
        study = Study(chosen, given, data_files(train, dev, test), training.expanded(output), variants, seeds_of(seeds))

        def summarize(outcomes: Mapping[str, list[Outcome]]) -> Results:
            return study.results("ablate", numbers(compared, outcomes), outcomes)

        results = make_study(
            study, summarize, device=device, cache_dir=cache_dir, cache_limit=cache_limit, threads=threads, quiet=quiet
        )
        print_table(_table(results.numbers))

    return study_command(
        ablate,
        chosen,
        after="seeds",
        varied=VARIED,
        help=f"""Train the task without ELMo, with its top layer, with all layers; at the input, at the output, at both:

        \b
        elmo ablate {name} --train train.txt --dev dev.txt --test test.txt -o ablate-{name} --seeds 0,1,2

        Tables 2 and 3 of the paper. Layers are compared at the place of --elmo-at, places with all layers and lambda
        0.001; variants in both tables are trained once. Each run is one of `elmo task {name} train`, with the settings
        that are given here. After an interruption the same command continues. --train-fraction 0.1 uses a
        tenth of the training data, if all of it would take too long.
        """,
    )


ablate = typer.Typer(cls=study_group(_command), no_args_is_help=True, rich_markup_mode=None)


@ablate.callback()
def _ablate() -> None:
    """Ablate ELMo on one task: its layers (Table 2 of the paper) and where it is added (Table 3), for example:

    elmo ablate snli --train train.jsonl --dev dev.jsonl --test test.jsonl -o ablate-snli --seeds 0,1,2
    """


def _table(facts: Mapping[str, Any]) -> Table:
    from elmokit.tasks.runs.run_comparison import shown

    metric, place = facts["metric"], _PLACES[facts["place"]]
    table = results_table("", f"dev {metric}", f"test {metric}", "gain")
    for name, rows in facts["tables"].items():
        table.add_section()
        table.add_row(_HEADINGS[name].format(place=place), style="italic")
        for row in rows:
            difference = "" if row["gain"] is None else f"{row['gain']:+.2f}"
            table.add_row(f"  {row['row']}", shown(row["dev"]), shown(row["test"]), difference)
    return table
