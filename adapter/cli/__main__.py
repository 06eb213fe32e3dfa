"""``python -m adapter.cli``: the command line where its script is not on the path."""

from adapter.cli.main import run

if __name__ == "__main__":
    run()
