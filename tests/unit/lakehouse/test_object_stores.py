"""What ``deltalake`` and Spark get to know of an object store: places, and never a credential."""

from __future__ import annotations

import pytest

from pipelines.lakehouse.object_stores import reason_of, storage_options
from pipelines.lakehouse.root import Lakehouse
from pipelines.runtime import jars, object_stores

SECRETS = {
    "AWS_ACCESS_KEY_ID": "canary-id",
    "AWS_SECRET_ACCESS_KEY": "canary-secret",
    "AWS_SESSION_TOKEN": "canary-token",
    "AZURE_STORAGE_ACCOUNT_KEY": "canary-key",
}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


def test_amazon_and_folders_need_no_options() -> None:
    assert storage_options("s3://bucket/lake") is None
    assert storage_options("/folder") is None


def test_another_server_is_named_and_profiles_count_there_where_the_environment_has_no_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    own = {"aws_endpoint_url": "http://127.0.0.1:9000", "aws_allow_http": "true"}
    assert storage_options("s3a://bucket/lake") == own
    assert storage_options("abfss://c@a.dfs.core.windows.net/lake") is None
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    assert storage_options("s3a://bucket/lake") == own | {"aws_force_credential_load": "true"}
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://store.example")
    assert (storage_options("s3://bucket/lake") or {})["aws_endpoint_url"] == "https://store.example"


def test_spark_gets_settings_for_s3_with_its_jars_alone_and_none_is_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "has_s3", lambda: False)
    assert object_stores.settings({}) == {}
    monkeypatch.setattr(jars, "has_s3", lambda: True)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    found = object_stores.settings({"spark.delta.logStore.s3a.impl": "org.example.Store"})
    assert found["spark.hadoop.fs.s3a.endpoint"] == "http://127.0.0.1:9000"
    assert found["spark.hadoop.fs.s3a.endpoint.region"] == "eu-west-1"
    assert found["spark.delta.logStore.s3.impl"] == "io.tailrace.ConditionalWriteLogStore"
    assert "spark.delta.logStore.s3a.impl" not in found
    assert not [value for value in found.values() if "canary" in value]


def test_of_an_error_with_causes_the_last_cause_is_named() -> None:
    colour = "\x1b[31m\u21b3\x1b[0m"
    nested = OSError(
        f"Kernel error -> Generic S3 error\n   {colour} Error performing PUT\n    {colour} Connection refused\n"
    )
    assert reason_of(nested) == "Connection refused"
    answered = f"Kernel error\n  {colour} 404 Not Found\n  {colour} <?xml version='1.0'?>\n<Error>"
    assert reason_of(OSError(answered)) == "404 Not Found"
    assert reason_of(OSError("PUT: 404 Not Found: <?xml version='1.0'?>")) == "PUT: 404 Not Found"
    assert reason_of(OSError("no such version\nmore")) == "no such version"
    assert reason_of(ValueError()) == "ValueError"


def test_a_container_of_azure_is_named_as_spark_names_it_where_the_account_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    monkeypatch.delenv("AZURE_STORAGE_USE_EMULATOR", raising=False)
    assert Lakehouse.at("az://box/lake/").root == "az://box/lake"
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "acme")
    assert Lakehouse.at("az://box/lake/").root == "abfss://box@acme.dfs.core.windows.net/lake"
    assert Lakehouse.at("az://box").root == "abfss://box@acme.dfs.core.windows.net"
    assert Lakehouse.at("s3://box/lake").root == "s3://box/lake"
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    assert Lakehouse.at("az://box/lake").root == "az://box/lake"
