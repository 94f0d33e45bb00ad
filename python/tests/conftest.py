# Installs the package with pip into an environment of its own, from which the tests import it.
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / "build" / "python-test" / "venv"
MODEL = Path(os.environ.get("KVC_MODEL", ROOT / ".cache" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"))


def pytest_sessionstart(session):
    """`pip install .` into a fresh environment that sees NumPy and the build tools of the running one."""
    for command in ([sys.executable, "-m", "venv", "--clear", str(VENV)],
                    [str(VENV / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                     "--no-build-isolation", "--no-deps", str(ROOT)]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.exit(f"`{' '.join(command)}` failed:\n{done.stdout}{done.stderr}", returncode=1)
        site = next((VENV / "lib").glob("python*")) / "site-packages"
        (site / "outer.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    sys.path.insert(0, str(site))


@pytest.fixture(scope="session")
def installed_python():
    """The interpreter of the environment with the installed package."""
    return str(VENV / "bin" / "python")


@pytest.fixture(scope="session")
def model_path():
    if not MODEL.exists():
        pytest.skip(f"no model at {MODEL}")
    return MODEL


@pytest.fixture(scope="session", autouse=True)
def own_folder(tmp_path_factory):
    """Compiled code of the tests goes to a folder of their own."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["XDG_CACHE_HOME"]
    else:
        os.environ["XDG_CACHE_HOME"] = before
