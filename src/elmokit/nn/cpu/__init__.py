"""Fast forms of the network for CPUs: the same numbers as the plain modules of `elmokit.nn`, in less time.

`optimize.optimize_` is the entry point: it converts a network to its fast form. Each `Fast...` class inherits from a
plain class and falls back to it where it has nothing faster. torch's private operators are used in `operators` only.
"""
