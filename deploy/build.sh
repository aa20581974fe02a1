#!/bin/sh
# The steps that fill the image, in the current folder, which has a copy of this repository. Nothing is fetched later.
# Needs Python 3.11 or newer as PYTHON (left out: python3), and Java 17 or 21 in JAVA_HOME.
set -eu
"${PYTHON:-python3}" -m venv .venv
.venv/bin/pip install --no-cache-dir --quiet --disable-pip-version-check --require-hashes -r requirements.lock
.venv/bin/pip install --no-cache-dir --quiet --disable-pip-version-check --require-hashes -r deploy/requirements-image.lock
.venv/bin/pip install --no-cache-dir --quiet --disable-pip-version-check --no-deps --no-build-isolation .
# in another folder, so that the installed package is used, and not its source
cd .venv
bin/python -c 'from pipelines.runtime import jars; jars.fetch_for_s3(jars.directory())'
# the class-data archive knows its jars by their times, of which a layer of an image keeps whole seconds
find . -name '*.jar' -exec touch --date=@1700000000 {} +
bin/tailrace setup --s3
test -n "$(find share/tailrace/classes -name '*.jsa')"
