"""``python -m pipelines.cli`` is ``tailrace``."""

from pipelines.cli.main import main

main()
