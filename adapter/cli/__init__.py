"""The command ``almanac``: one module per command; ``main`` maps errors to exit codes."""
