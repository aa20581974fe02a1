"""What an import gives: files of a job, and what a person must know before trusting them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipelines.core.errors import TailraceError, UsageError
from pipelines.job.load import load_job


@dataclass(slots=True)
class Imported:
    """One job. ``guesses`` are what no source contains, ``refusals`` what was left out: either can change results.

    ``open_points`` are questions that the product's pages leave open and that the query touches. A job whose script
    could not be read (``is_readable``) has a job file without inputs, which does not load.
    """

    job: str
    yaml: str = ""
    script_name: str = ""
    script: str = ""
    guesses: list[str] = field(default_factory=list)
    open_points: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    is_readable: bool = True

    @property
    def exit_code(self) -> int:
        """0 if the job is complete, 1 if something was guessed or left out."""
        return 1 if self.guesses or self.refusals else 0

    def as_dict(self) -> dict[str, object]:
        """The result as JSON-ready data."""
        return {
            "job": self.job,
            "files": self.files,
            "guesses": self.guesses,
            "open_points": self.open_points,
            "refusals": self.refusals,
            "exit_code": self.exit_code,
        }

    def rename(self, name: str) -> None:
        """Give the job and its files another name."""
        script = f"{name}{Path(self.script_name).suffix}"
        self.yaml = self.yaml.replace(f"\njob: {self.job}\n", f"\njob: {name}\n")
        self.yaml = self.yaml.replace(json.dumps(self.script_name), json.dumps(script))
        self.job, self.script_name = name, script

    def write(self, folder: Path) -> None:
        """Write the script and the job file into the folder; a job file that does not load is a refusal.

        A file that is there already with other text is not overwritten: :class:`UsageError`.
        """
        texts = {self.script_name: self.script, f"{self.job}.yaml": self.yaml}
        for name, text in texts.items():
            path = folder / name
            if path.exists() and path.read_text(encoding="utf-8") != text:
                raise UsageError("is there already, with other text", file=str(path), hint="choose another --out")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in texts.items():
                (folder / name).write_text(text, encoding="utf-8")
                self.files.append(str(folder / name))
        except OSError as error:
            raise UsageError(f"cannot write: {error.strerror}", file=str(error.filename or folder)) from None
        if not self.is_readable:
            return
        try:
            load_job(folder / f"{self.job}.yaml")
        except TailraceError as error:
            self.refusals.append(str(error))


def written(jobs: list[Imported], folder: Path) -> list[Imported]:
    """Write the jobs into the folder, each under a name of its own, and so the scripts."""
    seen: dict[str, int] = {}
    scripts = [job.script_name for job in jobs]
    for job in jobs:
        seen[job.job] = seen.get(job.job, 0) + 1
        if seen[job.job] > 1 or scripts.count(job.script_name) > 1:
            job.rename(job.job if seen[job.job] == 1 else f"{job.job}_{seen[job.job]}")
        job.write(folder)
    return jobs


def job_file(
    job: str,
    profile: str,
    inputs: Mapping[str, Mapping[str, object]],
    ordering: Mapping[str, object],
    references: Mapping[str, Mapping[str, object]],
    query: Mapping[str, str],
    remarks: list[str],
) -> str:
    """The text of a job file; ``remarks`` stand at its top as comments."""

    def section(name: str, parts: Mapping[str, Mapping[str, object]]) -> list[str]:
        lines = [f"{name}:"]
        for key, settings in parts.items():
            lines.append(f"  {key}:")
            lines += [f"    {setting}: {_scalar(value)}" for setting, value in settings.items()]
        return lines

    lines = [f"# {remark}" for remark in remarks]
    lines += ["tailrace: 1", f"job: {job}", f"profile: {profile}", *section("inputs", inputs)]
    if references:
        lines += section("references", references)
    if ordering:
        lines.append(f"ordering: {{{', '.join(f'{key}: {_scalar(value)}' for key, value in ordering.items())}}}")
    (kind, script), *_ = query.items()
    lines.append(f"query: {{{kind}: {_scalar(script)}}}")
    return "\n".join(lines) + "\n"


def _scalar(value: object) -> str:
    """YAML of a text, number or list of texts: JSON is YAML."""
    return json.dumps(value, ensure_ascii=False)
