#!/bin/sh
# Makes the virtual environment: make_venv.sh VENV [PYTHON]
# Locked requirements first, by hash; then the project itself, which may ask for nothing more.
set -eu

venv=$1
wanted=${2:-}

fail() {
    echo "setup: $1" >&2
    exit 1
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

if ! is_new_enough "$venv/bin/python"; then
    python=
    for candidate in ${wanted:-python3.11 python3 python3.12 python3.13 python3.14}; do
        if is_new_enough "$candidate"; then
            python=$candidate
            break
        fi
    done
    if [ -z "$python" ]; then
        found=$("${wanted:-python3}" --version 2>&1) || found="no Python at all"
        fail "Python 3.11 or newer is needed, but ${wanted:-python3} is $found. Install one, or name it: make setup PYTHON=/path/to/python3"
    fi
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$python cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv"
    echo "setup: making $venv with $("$python" --version)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi

pip() {
    "$venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"
}

echo "setup: installing the locked requirements (about 200 MB the first time)"
pip install --require-hashes -r requirements/dev.txt
echo "setup: installing temporal-almanac from this checkout"
pip install --no-deps --no-build-isolation --editable .
touch "$venv/.ready"
echo "setup: done"
