"""Doctor: what is wrong with an Almanac, found by comparing database, Temporal and clocks.

A check is one module in ``checks`` with a ``CHECK``; whoever adds a module has added a check.
"""
