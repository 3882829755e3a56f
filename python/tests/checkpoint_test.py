"""The folder for checkpoints outside elastic calls."""

import os
import subprocess
import sys


def test_outside_an_elastic_call_a_process_has_one_folder_until_it_exits():
    program = (
        "import skyward as sky\n"
        "(sky.checkpoint_dir() / 'a').write_text('1')\n"
        "assert (sky.checkpoint_dir() / 'a').exists()\n"
        "print(sky.checkpoint_dir())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "checkpoints-" in done.stdout and not os.path.exists(done.stdout.strip())
