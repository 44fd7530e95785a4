.PHONY: test slow lint bench

test:  ## what CI runs after lint
	pip install '.[test]' && pytest

slow:  ## the tests that take minutes
	pytest -m slow

lint:
	ruff check . && ruff format --check . && mypy

bench:  ## tokens per second, side by side with the straightforward way: make bench TEXT=sentences.txt
	python benchmarks/embed.py $(TEXT)
