#!/bin/sh
# Makes the virtual environment: make_venv.sh PYTHON VENV
# Locked requirements first, by hash; then the project itself, which may ask for nothing more.
set -eu

python=$1
venv=$2

fail() {
    echo "setup: $1" >&2
    exit 1
}

command -v "$python" >/dev/null 2>&1 ||
    fail "no Python found. Install Python 3.11 or newer, or name one: make setup PYTHON=/path/to/python3"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$("$python" --version) is too old. Python 3.11 or newer is needed: make setup PYTHON=/path/to/python3"

if ! "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$python cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv"
    echo "setup: making $venv with $("$python" --version)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi

pip() {
    "$venv/bin/python" -m pip --disable-pip-version-check "$@"
}

echo "setup: installing the locked requirements (about 200 MB the first time)"
pip install --quiet --require-hashes -r requirements/dev.txt
echo "setup: installing temporal-almanac from this checkout"
pip install --quiet --no-deps --no-build-isolation --editable .
touch "$venv/.ready"
echo "setup: done"
