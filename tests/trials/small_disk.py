"""A process with a small file system of its own, where the machine allows one; nobody else sees it."""

import ctypes
import multiprocessing
import os
import traceback
from collections.abc import Callable
from pathlib import Path

_NEW_USER, _NEW_MOUNTS = 0x10000000, 0x00020000  # CLONE_NEWUSER, CLONE_NEWNS of <sched.h>


def mount(folder: Path, size: int) -> None:
    """Put an empty file system of `size` bytes over a folder, for this process and its children only.

    Call it in a process of one thread: right after a fork, or as `preexec_fn` of a subprocess.

    Raises:
        OSError: if the machine does not let a process do so.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    _check(libc.unshare(_NEW_USER | _NEW_MOUNTS))
    # Without a map no file of the new file system could have an owner.
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    options = f"size={size}".encode()
    _check(libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, options))


def run(folder: Path, size: int, work: Callable[[], None]) -> bool:
    """Do some work, with its assertions, in a forked process with a small file system over `folder`.

    Returns:
        False where the machine allows no such file system.

    Raises:
        AssertionError: with the traceback of whatever the work raised.
    """
    report = folder.with_name(f"{folder.name}.txt")
    process = multiprocessing.get_context("fork").Process(target=_child, args=(folder, size, work, report))
    process.start()
    process.join()
    said = report.read_text() if report.exists() else f"ended with {process.exitcode}"
    assert said in ("done", "refused"), said
    return said == "done"


def _child(folder: Path, size: int, work: Callable[[], None], report: Path) -> None:
    try:
        mount(folder, size)
    except OSError:
        report.write_text("refused")
        return
    try:
        work()
    except BaseException:
        report.write_text(traceback.format_exc())
        return
    report.write_text("done")


def _check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
