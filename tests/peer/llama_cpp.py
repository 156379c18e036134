"""The peer: llama.cpp's CPU build as the npm package @node-llama-cpp/linux-x64, fetched into build/peer, and helpers linked with it."""
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PEER = ROOT / "build" / "peer"
PACKAGE = "@node-llama-cpp/linux-x64@3.22.1"
LIBS = PEER / "package" / "bins" / "linux-x64"  # also the folder its backends are loaded from


def build(source):
    """Compile one C file against the library and return the program; None, said on stderr, where npm or the package is not to be had."""
    program = PEER / source.stem
    try:
        if not LIBS.is_dir():
            PEER.mkdir(parents=True, exist_ok=True)
            subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=PEER, check=True, capture_output=True, timeout=600)
            subprocess.run(["tar", "xzf", next(PEER.glob("*.tgz")).name], cwd=PEER, check=True)
        names = ["libllama.v0.5.0.so", "libggml.v0.5.0.so", "libggml-base.so"]
        subprocess.run(["cc", "-std=c11", "-O2", "-o", program, source, *[LIBS / n for n in names], f"-Wl,-rpath,{LIBS}",
                        f"-Wl,-rpath-link,{LIBS}"], check=True)
    except (OSError, subprocess.SubprocessError, StopIteration) as error:
        print(f"no llama.cpp: {error}", file=sys.stderr)
        return None
    return program
