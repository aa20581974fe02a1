"""The table of profiles: a further one is a row here and a file in :mod:`pipelines.core.ordering`."""

from __future__ import annotations

from collections.abc import Mapping

from pipelines.reference.events import Profile
from pipelines.reference.ordering import atlas, stream_analytics, stream_insight

PROFILES: Mapping[str, Profile] = {
    "stream_analytics": stream_analytics.PROFILE,
    "atlas": atlas.PROFILE,
    "stream_insight": stream_insight.PROFILE,
}
