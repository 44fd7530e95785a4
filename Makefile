.PHONY: test slow faults ray flair lint bench docs coverage report figures tables

test:  ## what CI runs after lint and docs
	pip install '.[test]' && pytest

slow:  ## the tests that take minutes, but for those of `make faults`
	pytest -m slow --ignore=tests/faults

coverage:  ## the ordinary tests, with the share of lines that they run
	pip install pytest-cov && pytest --cov=elmokit --cov-report=term-missing:skip-covered

faults:  ## mutated files, kills, full disks, threads: about 15 minutes on two cores
	pytest -rP -m 'slow or not slow' tests/faults tests/disk tests/embed/test_sharing.py

ray:  ## all tests of Ray, in an environment of its own, build/ray
	python -m venv build/ray
	build/ray/bin/pip install '.[ray]' pytest pytest-xdist pytest-timeout hypothesis
	build/ray/bin/pytest -n 0 -m 'slow or not slow' tests/integrations/test_ray.py

flair:  ## all tests of flair and its page, in an environment of its own, build/flair: it conflicts with transformers 5
	python -m venv build/flair
	build/flair/bin/pip install '.[flair]' pytest pytest-xdist pytest-timeout hypothesis
	build/flair/bin/pytest -n 0 -m slow tests/integrations/test_flair.py tests/integrations/test_integration_pages.py

lint:
	ruff check . && ruff format --check . && mypy

docs:  ## the documentation site, in site/
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict

bench:  ## tokens per second, side by side with the straightforward way: make bench TEXT=sentences.txt
	python benchmarks/embed.py $(TEXT)

tables:  ## figures and tables of the pages, from docs/results
	python recipes/tables.py

report:  ## report, tables and figures of the pages, from docs/results, where recipes/keep_results.py puts results and records of runs
	$(if $(wildcard docs/results/runs),,$(error docs/results/runs: expected records of runs, see docs/tasks.md))
	python recipes/task_table.py docs/results/runs
	elmo report docs/results docs/results/runs -o docs/report.html --overwrite
	python recipes/front_picture.py
	python recipes/tables.py

figures:  ## the report's figures for the explorer page, after docs/report.md was made again
	python -m elmokit.serve.figures docs/report.md
