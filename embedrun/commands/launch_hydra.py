"""Hydra's launchers as they are, without its command line and its sweeper: we have composed every job."""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from embedrun.child import started_by_others
from embedrun.commands.launch_plugins import plugin
from embedrun.config import presets
from embedrun.config.compose import Request
from embedrun.console import say
from embedrun.signals import deaf

_OURS = re.compile(r"[+~]*hydra\.(run|sweep|mode|sweeper)\b")  # not about the launcher


@contextlib.contextmanager
def launcher(
    request: Request, folder: Path, task: Any, configs: Sequence[Mapping[str, Any]]
) -> Iterator[Any]:
    """The launcher that the request chooses, set up.

    Args:
        request: its overrides of `hydra/launcher` and `hydra.launcher` count.
        folder: for the folders that Hydra makes itself; the run directories are ours to make.
        task: what it calls for each job.
        configs: of the jobs.
    """
    from hydra import initialize_config_dir
    from hydra._internal.callbacks import Callbacks
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.plugins import Plugins
    from hydra.types import HydraContext, RunMode

    about = [one for one in request.overrides if re.match(r"[+~]*hydra[./]", one) and not _OURS.match(one)]
    place = _quoted(str(folder / "hydra"))
    about += [f"hydra.sweep.dir={place}", f"hydra.run.dir={place}", "hydra.sweep.subdir=${hydra:job.num}"]
    if request.config_dir is not None:
        about.append(f"hydra.searchpath=[{_quoted(f'file://{request.config_dir}')}]")
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(presets.folder()), version_base=None, job_name="embedrun"):
            hydra = GlobalHydra.instance().hydra
            assert hydra is not None
            config = hydra.compose_config(
                config_name=request.root,
                overrides=about,
                run_mode=RunMode.MULTIRUN,
                from_shell=False,
                with_log_configuration=False,
            )
            context = HydraContext(config_loader=hydra.config_loader, callbacks=Callbacks(config))
            start = Plugins.instance().instantiate_launcher(
                hydra_context=context, task_function=task, config=config
            )
            name = plugin(request.overrides)
            with contextlib.ExitStack() as inside:
                if name == "joblib":
                    _set_up_joblib(start, request, configs)
                if name.startswith("submitit"):
                    inside.enter_context(patient())
                if name != "basic":
                    inside.enter_context(started_by_others())
                yield start
    finally:
        GlobalHydra.instance().clear()


@contextlib.contextmanager
def patient() -> Iterator[None]:
    """Inside, submitit waits for the end of every job, where it would leave all for the first that is lost.

    Raises:
        Exception: at the end, what it says of the first that was lost.
    """
    from submitit import Job

    lost: list[Exception] = []
    results = Job.results

    def waited(job: Job[Any]) -> list[Any]:
        try:
            return results(job)
        except Exception as fault:  # of a cluster
            lost.append(fault)
            return [None]

    Job.results = waited  # type: ignore[method-assign]
    try:
        yield
    finally:
        Job.results = results
    if lost:
        raise lost[0]


def _set_up_joblib(start: Any, request: Request, configs: Sequence[Mapping[str, Any]]) -> None:
    start.joblib["initializer"] = deaf
    chosen = any(override.lstrip("+").startswith("hydra.launcher.n_jobs=") for override in request.overrides)
    if not chosen and _on_cuda(configs):
        start.joblib["n_jobs"] = 1
        say("one job at a time, since they share the GPU; hydra.launcher.n_jobs=N for N of them")


def _on_cuda(configs: Sequence[Mapping[str, Any]]) -> bool:
    devices = {config["gpu"].get("device") for config in configs if isinstance(config.get("gpu"), Mapping)}
    if "cuda" in devices or not devices - {"cpu"}:
        return "cuda" in devices
    import torch

    return torch.cuda.is_available()


def _quoted(text: str) -> str:
    """A value of Hydra's grammar that is this text, whatever it holds."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
