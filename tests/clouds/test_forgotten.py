"""A pool of an account whose key was replaced: it cannot be deleted, and can be forgotten."""

import json
import os
import sqlite3
import subprocess
import time
from pathlib import Path

from running_double import ROOT, running

SKYWARD = os.environ.get("SKYWARD_CLI", str(ROOT / "build/release/bin/skyward"))


def test_a_pool_of_a_lost_account_can_be_forgotten(tmp_path: Path) -> None:
    with running("verda") as double:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "XDG_STATE_HOME": str(tmp_path / "state"),
            **double.environment,
        }

        def skyward(*words: str) -> tuple[int, str, str]:
            done = subprocess.run(
                [SKYWARD, *words],
                env=environment,
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            return done.returncode, done.stdout, done.stderr

        gc = ("gc", "--provider", "verda")
        assert skyward(*gc)[0] == 0  # makes the ledger
        month_ago = int(time.time()) - 30 * 86400
        with sqlite3.connect(tmp_path / "state/skyward/ledger.db") as ledger:
            ledger.execute(
                "INSERT INTO pool (id, provider, region, settings, opened_s, expires_s) "
                "VALUES (?, ?, ?, ?, ?, 0)",
                (
                    "verda-11111111",
                    "verda",
                    "FIN-01",
                    json.dumps({"account": "0badc0de", "owner": "0badc0de"}),
                    month_ago,
                ),
            )
            ledger.execute(
                "INSERT INTO entry (key, pool, id, kind, hourly_micro_dollars, asked_s) "
                "VALUES (?, ?, ?, ?, 2000000, ?)",
                (
                    "key",
                    "verda-11111111",
                    "01234567-89ab-cdef-0123-456789abcdef",
                    "instance",
                    month_ago,
                ),
            )
        ledger.close()

        code, out, err = skyward("pool", "delete", "11111111")
        assert code == 1 and out.startswith("skipped pool verda-11111111"), err
        assert "two minutes" not in err and "'skyward pool forget verda-11111111'" in err
        code, out, err = skyward("pool", "forget", "11111111", "--yes")
        assert code == 0 and "may still exist and cost $2.0000 an hour" in out, err
        code, out, err = skyward(*gc)
        assert (code, out) == (0, ""), err
        cost = json.loads(skyward("cost", "--json")[1])
        assert cost["hourly_dollars"] == 0 and cost["dollars"] > 0
        assert double.violations() == []
