#!/bin/sh
# Make an environment, also with the Python of a Debian that has no ensurepip: environment.sh PYTHON DIRECTORY
set -eu
python=$1 directory=$2
if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    exec "$python" -m venv "$directory"
fi
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
for pip in "$python" .venv/bin/python python3; do
    if "$pip" -m pip install -q --target "$tools" virtualenv 2>"$tools/error"; then
        PYTHONPATH=$tools "$python" -m virtualenv -q "$directory"
        exit
    fi
done
cat "$tools/error" >&2
echo "$python has neither ensurepip nor pip: on Debian, apt-get install python3-venv" >&2
exit 1
