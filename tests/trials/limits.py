"""How long tests may take; held by `pytest --limits`, as `.ci/run` calls it, and by no ordinary run."""

import time

import pytest

SESSION, CALL, SETUP, BY_NATURE = 300.0, 2.0, 20.0, 15.0  # seconds
# Tests of processes (a kill, two ranks, simultaneous starts, sentences end to end) may take `BY_NATURE`.
SLOW_BY_NATURE = (
    "tests/commands/test_current_folder.py::test_every_process_that_a_command_starts_leaves_out_the_current_folder",
    "tests/commands/test_own_table.py::test_a_file_is_reproduced_and_tabled_with_presets_of_its_own",
    "tests/commands/test_resume_training.py::test_a_directory_in_use_is_refused_and_no_byte_changes",
    "tests/commands/test_train_tracked.py::test_trackers_that_hang_change_no_byte_of_a_run",
    "tests/launch/test_sweep.py::test_jobs_are_processes_and_one_that_fails_ends_only_itself",
    "tests/chaos/test_each_change.py::test_a_short_run_that_is_killed_in_saves_and_between_them_ends_as_one_that_was_not",
    "tests/chaos/test_one_writer.py::test_fifty_processes_at_once_get_fifty_directories_and_one_gets_the_one_that_all_name",
    "tests/test_cli.py::test_a_reader_that_leaves_is_no_failure_and_no_word",
    "tests/test_cli.py::test_help_answers_in_half_a_second",
    "tests/test_cli.py::test_nothing_that_only_shows_imports_torch",
    "tests/tracking/test_trackers.py::test_broken_trackers_are_one_warning_each_and_wait_together",
    "tests/training/test_processes.py::test_several_processes_have_the_loss_and_the_gradient_of_one",
    "tests/training/test_two_processes.py::test_sigterm_ends_both_at_one_step_with_exit_143",
)


def slowness() -> float:
    """How much slower than usual this core is at the moment, at least 1; a million additions take 0.15 s."""
    started, total = time.monotonic(), 0
    while total < 2_000_000:
        total += 1
    return max(1.0, (time.monotonic() - started) / 0.3)


class Limits:
    """Names the tests that take longer than they may; too long a session fails."""

    def __init__(self) -> None:
        self._slowness = slowness()
        self._started = time.monotonic()
        self._over: list[str] = []
        self._seconds = 0.0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        slow = report.nodeid.partition("[")[0] in SLOW_BY_NATURE
        limit = {"setup": SETUP, "call": BY_NATURE if slow else CALL}.get(report.when or "", SETUP)
        if report.duration > limit:
            self._over.append(f"{report.duration:.1f} s of {limit:g}: {report.when} of {report.nodeid}")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._seconds = time.monotonic() - self._started
        self._slowness = max(self._slowness, slowness())
        if self._seconds > SESSION * self._slowness and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section(f"limits: {self._seconds:.0f} s of {SESSION * self._slowness:.0f}")
        for line in self._over:
            terminalreporter.write_line(line)
