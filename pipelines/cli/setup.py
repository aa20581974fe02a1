"""``tailrace setup``: what Tailrace needs besides its Python packages."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.cli.common import emit, progress

S3 = Annotated[bool, typer.Option("--s3", help="Also bring what Spark needs for a lakehouse on S3.")]


def setup(s3: S3 = False) -> None:
    """Bring what is missing: Delta's jars and the class-data archive, and Java where the extra 'java' is installed."""
    from pipelines.core.errors import EnvironmentUnfit
    from pipelines.runtime import archive, jars, java

    with progress("setup", steps=3) as step:
        step("looking for Java")
        if java.find_home() is None:
            try:
                java.install_shim()
            except ImportError:
                hint = "install one, or run: pip install 'tailrace[java]'"
                raise EnvironmentUnfit("no Java runtime of version 17 or 21 was found", hint=hint) from None
        step("bringing jars")
        if s3:
            jars.fetch_for_s3(jars.directory())
        else:
            jars.fetch(jars.DELTA, jars.directory())
        step("laying out the classes of a session, once: about a minute")
        classes = archive.ready()
    home = java.require_home()
    found = {"java": str(home), "jars": str(jars.directory()), "archive": None if classes is None else str(classes)}
    emit(found, (f"{name}: {place or 'none could be made'}" for name, place in found.items()))
