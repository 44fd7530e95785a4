"""`python -m elmokit` is the command `elmo`."""

from elmokit.cli import main

main()
