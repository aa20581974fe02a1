"""Write the live results, which the job left as JSON lines, as one Delta table for each output."""

from deltalake import write_deltalake
from pyarrow import json

for output in ("alarms", "powerbyturbine"):
    write_deltalake(f"live/{output}", json.read_json(f"live/{output}.jsonl"))
