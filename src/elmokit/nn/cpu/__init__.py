"""Fast forms of the network for CPUs: the same numbers as the plain modules of `elmokit.nn`, in less time.

`optimize.optimize_` is the way in: it turns a network into its fast form. Each `Fast...` class inherits from a plain
class and computes as that one does wherever it has nothing faster. torch's private operators are in `operators` alone.
"""
