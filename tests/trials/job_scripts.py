"""Jobs whose process is a shell script."""

import pytest

from embedrun.launch import job

# Keeps the description that it is given; `$OUT` is the file that its outcome belongs in.
_READ = 'cat > got.json; OUT=$(sed \'s/.*"outcome": "\\([^"]*\\)".*/\\1/\' got.json)'

SESSION = "cut -d' ' -f6 /proc/$$/stat > session"  # whose keys it hears


def saving(first: str) -> str:
    """Does something, then works for ten seconds; from the beginning on it saves when it is told to end."""
    saves = "trap 'sleep 0.2; touch saved; exit 143' TERM INT"
    return f"{saves}; {first}; for turn in $(seq 200); do sleep 0.05; done"


def be_script(monkeypatch: pytest.MonkeyPatch, script: str, *, reads: bool = True) -> None:
    """From now on the process of a job is this script, which gets the same standard input."""

    def command(module: str) -> list[str]:
        assert module == "embedrun.launch.job"
        return ["/bin/sh", "-c", f"{_READ}\n{script}" if reads else script]

    monkeypatch.setattr(job, "command", command)
