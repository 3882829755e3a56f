"""This machine's GPUs, by NVIDIA's own program."""

import shutil
import subprocess


def smi(*arguments: str) -> str:
    """What nvidia-smi prints."""
    answer = subprocess.run(
        ["nvidia-smi", *arguments], capture_output=True, text=True, timeout=60, check=True
    )
    return answer.stdout.strip()


def of_gpu(field: str) -> str:
    """A field of the first GPU."""
    return smi("-i", "0", f"--query-gpu={field}", "--format=csv,noheader,nounits")


def reason_to_skip() -> str | None:
    """Nothing where there is a GPU."""
    if shutil.which("nvidia-smi") is None:
        return "there is no nvidia-smi here, so no NVIDIA GPU"
    try:
        return None if smi("-L").startswith("GPU 0") else "nvidia-smi finds no GPU"
    except (OSError, subprocess.SubprocessError) as error:
        return f"nvidia-smi fails: {error}"
