"""Starts a private ClickHouse and runs scalewatch_bench_clickhouse against it: bench.py PROGRAM [options]."""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration"))
from clickhouse import clickhouse

with tempfile.TemporaryDirectory(prefix="scalewatch-bench-") as folder:
    with clickhouse(folder) as server:
        status = subprocess.run(sys.argv[1:], env={**os.environ, "SCALEWATCH_CLICKHOUSE": server.url,
                                                   "SCALEWATCH_CLICKHOUSE_PID": str(server.process.pid)}).returncode
sys.exit(status)
