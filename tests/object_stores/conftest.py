"""One S3-compatible server, and Spark with the jars for it in a folder of their own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from s3_server import CANARIES, make_bucket, running

from pipelines.runtime import archive, jars


@pytest.fixture(scope="session", autouse=True)
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The server's address; it has the bucket ``lake``. Its credentials are in the environment, and are canaries."""
    own = jars.directory()
    folder = own.with_name("s3") / "jars"
    folder.mkdir(parents=True, exist_ok=True)
    for name in map(jars.name_of, jars.DELTA):
        if not (folder / name).is_file():
            shutil.copyfile(own / name, folder / name)
    jars.fetch_for_s3(folder)
    with running(tmp_path_factory.mktemp("s3")) as address, pytest.MonkeyPatch.context() as patch:
        make_bucket(address, "lake")
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("TAILRACE_JARS", str(folder))
        patch.setenv("AWS_ENDPOINT_URL", address)
        patch.setenv("AWS_REGION", "us-east-1")
        patch.setenv("AWS_ACCESS_KEY_ID", CANARIES[0])
        patch.setenv("AWS_SECRET_ACCESS_KEY", CANARIES[1])
        if not archive.java_options():
            archive.make()
        yield address
