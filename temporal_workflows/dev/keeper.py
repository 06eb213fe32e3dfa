"""Runs one server and ends it when the process that asked for it is gone. A program, not a module.

    python -I -S keeper.py STOP_SIGNAL GRACE_SECONDS USER FILE... -- COMMAND...

Standard input is the life line: it stays open as long as the server is wanted. When it closes,
because the parent closed it or died in whatever way, the server gets STOP_SIGNAL and, after
GRACE_SECONDS, SIGKILL. The first line on standard output is the server's process id; the server's
own output goes to standard error. The exit code is the server's, 128 + n if signal n ended it.

A process of its own is needed because ``PR_SET_PDEATHSIG`` fires when the *thread* that started
the server ends, and is Linux only. Between keeper (one thread) and server it does work, and there
it covers a keeper that is killed.

USER is empty, or the user to become (PostgreSQL refuses to run as root). If that user cannot
reach one of the FILEs, say a checkout below /root, the server keeps the one capability that lets
it pass: the alternative would be to open the directories to everybody.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import select
import signal
import stat
import sys
import time

_PR_SET_PDEATHSIG, _PR_SET_SECUREBITS, _PR_SET_CHILD_SUBREAPER = 1, 28, 36
_SECBIT_NO_SETUID_FIXUP = 4
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 47, 2
_CAPABILITY_VERSION_3 = 0x20080522
_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2
_ORPHANS_GRACE = 5.0


def main(arguments: list[str]) -> int:
    """Starts the server, waits for its end or for the end of the life line."""
    split = arguments.index("--")
    stop_signal, grace, user, *files = arguments[:split]
    command = arguments[split + 1 :]

    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    ending = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    asked: list[int] = []
    for number in ending:
        signal.signal(number, lambda number, _: asked.append(number))
    signal.signal(signal.SIGCHLD, lambda *_: None)

    if sys.platform == "linux":
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    server = os.fork()
    if server == 0:
        _become(command, user, files, int(stop_signal))
    print(server, flush=True)
    os.close(1)

    status = _ended(server)
    while status is None and not asked:
        readable, _, _ = select.select([0, woken], [], [])
        if 0 in readable and not os.read(0, 1024):
            break
        if woken in readable:
            os.read(woken, 1024)
        status = _ended(server)
    if status is None:
        status = _end(server, int(stop_signal), float(grace), woken)
    _reap_orphans(woken)
    return status if status >= 0 else 128 - status


def _ended(server: int) -> int | None:
    done, status = os.waitpid(server, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if done else None


def _end(server: int, stop_signal: int, grace: float, woken: int) -> int:
    os.kill(server, stop_signal)
    deadline = time.monotonic() + grace
    while (left := deadline - time.monotonic()) > 0:
        if (status := _ended(server)) is not None:
            return status
        if woken in select.select([woken], [], [], left)[0]:
            os.read(woken, 1024)
    os.kill(server, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(server, 0)[1])


def _reap_orphans(woken: int) -> None:
    """Waits for the processes that a killed server left: its end means that all are gone."""
    deadline = time.monotonic() + _ORPHANS_GRACE
    try:
        while (left := deadline - time.monotonic()) > 0:
            if os.waitpid(-1, os.WNOHANG)[0] == 0 and select.select([woken], [], [], left)[0]:
                os.read(woken, 1024)
    except ChildProcessError:
        return


def _become(command: list[str], user: str, files: list[str], stop_signal: int) -> None:
    """Turns this process into the server; never returns."""
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        if user:
            _drop_privileges(pwd.getpwnam(user), files)
        if sys.platform == "linux":
            _prctl(_PR_SET_PDEATHSIG, stop_signal)
        os.execv(command[0], command)
    except BaseException as error:
        os.write(2, f"cannot run {command[0]}: {error}\n".encode())
    finally:
        os._exit(127)


def _drop_privileges(user: pwd.struct_passwd, files: list[str]) -> None:
    confined = sys.platform == "linux" and not all(_is_reachable(file) for file in files)
    if confined:
        # capabilities outlast the change of user, and access(2), which initdb uses, honours them
        _prctl(_PR_SET_SECUREBITS, _SECBIT_NO_SETUID_FIXUP)
    os.setgroups([])
    os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
    os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
    if confined:
        _keep_passage()


def _is_reachable(file: str) -> bool:
    """Tells whether everybody may enter the directories above ``file`` (and read it, if a file)."""
    if not os.path.isdir(file) and not os.stat(file).st_mode & stat.S_IROTH:
        return False
    above = os.path.dirname(os.path.realpath(file))
    while os.stat(above).st_mode & stat.S_IXOTH:
        if above == "/":
            return True
        above = os.path.dirname(above)
    return False


def _keep_passage() -> None:
    """Keeps one capability, across exec too: to search directories, or else to override modes."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    for capability in (_CAP_DAC_READ_SEARCH, _CAP_DAC_OVERRIDE):
        bit = 1 << capability
        # effective, permitted, inheritable: for capabilities 0 to 31, then for the rest
        if libc.capset(header, (ctypes.c_uint32 * 6)(bit, bit, bit, 0, 0, 0)) == 0:
            _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability)
            return
    raise PermissionError("the files cannot be reached; use a directory that everybody may enter")


def _prctl(option: int, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    values = [ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:4]]
    if libc.prctl(option, *values) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl {option}: {os.strerror(number)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
