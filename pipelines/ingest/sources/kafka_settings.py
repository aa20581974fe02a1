"""Settings of the Kafka client: the job file's properties with their environment variables, and what ingest needs."""

from __future__ import annotations

import logging
import os
import re
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from pipelines.core.errors import EnvironmentUnfit, UsageError
from pipelines.core.sources import Kafka

_VARIABLE = re.compile(r"\$\{(\w+)\}")
_OWN = {
    "auto.offset.reset": "error",  # what retention has removed is said, never skipped
    "enable.auto.commit": "false",
    "enable.partition.eof": "true",
    "queued.max.messages.kbytes": "32768",
}
_GIVEN_ELSEWHERE = {"bootstrap.servers": "bootstrap_servers", "isolation.level": "isolation"}


@dataclass(frozen=True, slots=True)
class Client:
    """A client's settings. ``secrets`` are the values that came from environment variables, by variable."""

    source: Kafka
    settings: dict[str, str]
    secrets: dict[str, str]

    @classmethod
    def of(cls, source: Kafka) -> Client:
        """Raises :class:`UsageError` for a variable that is not set, or a property that is not for the job file."""
        secrets: dict[str, str] = {}

        def value(match: re.Match[str]) -> str:
            name = match[1]
            if name not in os.environ:
                raise UsageError(f"the environment variable {name} is not set", key="properties", hint="set it")
            secrets[name] = os.environ[name]
            return secrets[name]

        given = {name: _VARIABLE.sub(value, text) for name, text in source.properties}
        for name in given.keys() & (_OWN.keys() | _GIVEN_ELSEWHERE.keys()):
            hint = f"use '{_GIVEN_ELSEWHERE[name]}'" if name in _GIVEN_ELSEWHERE else "leave it out"
            raise UsageError(f"the property '{name}' is not yours to set", key="properties", hint=hint)
        own = {**_OWN, "bootstrap.servers": source.bootstrap_servers, "isolation.level": source.isolation}
        return cls(source, {"group.id": "tailrace", **given, **own}, secrets)

    def consumer(self) -> Consumer:
        """A consumer that prints nothing; :class:`UsageError` if the client does not know its settings."""
        settings: dict[str, Any] = {**self.settings, "logger": _silent()}
        try:
            return Consumer(settings)
        except KafkaException as error:
            raise UsageError(f"the Kafka client refuses its settings: {self.text(error)}", key="properties") from None

    def admin(self) -> AdminClient:
        """A client that asks for the topic's settings; it prints nothing either."""
        settings: dict[str, Any] = {**self.settings, "logger": _silent()}
        return AdminClient(settings)

    def unreachable(self, error: KafkaException | KafkaError | str) -> EnvironmentUnfit:
        """The error that a broker could not be asked."""
        return EnvironmentUnfit(
            f"topic {self.source.topic} at {self.source.bootstrap_servers} cannot be read: {self.text(error)}",
            hint="see whether the broker is up and the properties of the source are right; nothing was written",
        )

    def text(self, error: KafkaException | KafkaError | str) -> str:
        """What an error says, without the values of environment variables."""
        what = error.args[0] if isinstance(error, KafkaException) else error
        text = what.str() if isinstance(what, KafkaError) else str(what)
        for name, secret in sorted(self.secrets.items(), key=lambda pair: -len(pair[1])):
            text = text.replace(secret, f"${{{name}}}") if secret else text
        return text


def _silent() -> logging.Logger:
    """What the client logs may contain its settings."""
    logger = logging.getLogger("tailrace.kafka")
    logger.handlers, logger.propagate = [logging.NullHandler()], False
    return logger
