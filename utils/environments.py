# Python environments of their own for what most people never run.
import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def install(name, requirements, options=(), environment=None, notice=None):
    """The Python of .venv-`name` with the packages of the file `requirements`; made anew when that file changes.
    `options` and `environment` are pip's; `notice` is said before it takes its time."""
    venv = ROOT / f".venv-{name}"
    python, stamp = venv / "bin" / "python", venv / "requirements.sha256"
    wanted = hashlib.sha256(Path(requirements).read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return str(python)
    if notice:
        print(notice, file=sys.stderr, flush=True)
    for command in ([sys.executable, "-m", "venv", "--clear", str(venv)],
                    [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *options,
                     "-r", str(requirements)]):
        if subprocess.run(command, env=environment, stdout=sys.stderr).returncode:
            raise SystemExit(f"error: `{' '.join(command)}` failed")
    stamp.write_text(wanted)
    return str(python)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("Usage: environments.py NAME REQUIREMENTS; prints the environment's Python")
    print(install(*sys.argv[1:]))
