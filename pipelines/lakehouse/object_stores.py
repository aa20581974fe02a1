"""Object stores as ``deltalake`` sees them: what it needs besides the environment, and which settings lose commits.

Credentials are never passed on: ``deltalake`` finds them in the environment, in profiles, or asks the machine.
"""

from __future__ import annotations

import os
import re
from typing import Any

import pyarrow as pa
from deltalake.fs import DeltaStorageHandler

from pipelines.core.errors import EnvironmentUnfit
from pipelines.runtime.object_stores import s3_endpoint

_UNSAFE_COMMITS = {"AWS_S3_ALLOW_UNSAFE_RENAME": ("1", "true", "on", "yes", "y"), "AWS_CONDITIONAL_PUT": ("disabled",)}
"""Settings of ``deltalake`` that give up conditional writes, by variable."""
_COLOUR, _CAUSE = re.compile(r"\x1b\[\d+m"), "\u21b3"


def is_s3(uri: str) -> bool:
    """Whether the URI names S3, or a store that speaks its protocol."""
    return uri.startswith(("s3://", "s3a://"))


def storage_options(uri: str) -> dict[str, str] | None:
    """What ``deltalake`` needs for this URI besides the environment; no credential is among it."""
    endpoint = s3_endpoint() if is_s3(uri) else None
    if endpoint is None:
        return None
    options = {"aws_endpoint_url": endpoint, "aws_allow_http": str(endpoint.startswith("http://")).lower()}
    if not os.environ.get("AWS_ACCESS_KEY_ID"):
        # left to itself, it looks into profiles only for Amazon's own addresses
        options["aws_force_credential_load"] = "true"
    return options


def write_object(root: str, name: str, content: bytes) -> None:
    """Write the object ``name`` below ``root``; a reader sees the old one or the new one."""
    # its own stream takes plain bytes; the one that pyarrow puts around it gives it buffers
    stream: Any = _files(root)._handler.open_output_stream(name, None)
    stream.write(content)
    stream.close()


def open_stream(root: str, name: str) -> pa.PythonFile:
    """The object ``name`` below ``root``, to be written; it is there once the stream is closed."""
    return _files(root).open_output_stream(name)


def remove_folder(root: str, name: str) -> None:
    """Remove all objects below ``root/name``, where there are any."""
    _files(root).delete_dir(name)


def _files(root: str) -> DeltaStorageHandler:
    return DeltaStorageHandler(root, storage_options(root))


def reason_of(error: Exception) -> str:
    """What went wrong, in one line: of an error with its causes in lines of their own, the last of them."""
    lines = _COLOUR.sub("", str(error)).strip().splitlines() or [type(error).__name__]
    causes = [line.strip(_CAUSE + " ") for line in lines if line.lstrip().startswith(_CAUSE)]
    # the body of an answer in XML is no sentence
    return next((cause for cause in reversed(causes) if not cause.startswith("<")), lines[0]).partition(": <?xml")[0]


def with_account(uri: str) -> str:
    """``az://container/path`` as Spark knows it too, ``abfss://container@account...``, where the account is known."""
    account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    if not uri.startswith(("az://", "azure://")) or not account or os.environ.get("AZURE_STORAGE_USE_EMULATOR"):
        return uri
    container, _, path = uri.partition("://")[2].partition("/")
    return f"abfss://{container}@{account}.dfs.core.windows.net/{path}".rstrip("/")


def require_safe_commits(uri: str) -> None:
    """:class:`EnvironmentUnfit` where a setting of ``deltalake`` lets a commit overwrite another."""
    for variable, unsafe in _UNSAFE_COMMITS.items() if is_s3(uri) else ():
        if os.environ.get(variable, "").lower() in unsafe:
            raise EnvironmentUnfit(
                f"with {variable}={os.environ[variable]} a commit to {uri} may overwrite another writer's",
                hint=f"unset {variable}: commits are then conditional writes",
            )
