"""The few Linux calls that Python 3.11 lacks."""

# The warden goes without pathlib, a quarter of its start-up.
# ruff: noqa: PTH123

import ctypes
import errno
import math
import os
import signal
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_TFD_TIMER_ABSTIME = 1
_NEVER = 1 << 62
"""Nanoseconds: a time in a hundred years."""
_CLONE_NEWNS = 0x00020000
_CLONE_NEWPID = 0x20000000
_MS_NOSUID_NODEV_NOEXEC = 2 | 4 | 8
_MS_REC_SLAVE = 0x4000 | 0x80000
_OPENAT2 = 437
_AT_FDCWD = -100
_RESOLVE_NO_XDEV = 0x01
_RESOLVE_NO_MAGICLINKS = 0x02

_libc = ctypes.CDLL(None, use_errno=True)
_libc_with_gil = ctypes.PyDLL(None, use_errno=True)


class _Timespec(ctypes.Structure):
    _fields_ = (("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("it_interval", _Timespec), ("it_value", _Timespec))


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _prctl(option: int, argument: int) -> None:
    nothing = ctypes.c_ulong(0)
    _checked(_libc.prctl(option, ctypes.c_ulong(argument), nothing, nothing, nothing))


def hide_memory() -> None:
    """Keep other processes of this uid, such as commands, from reading our memory and environment."""
    _prctl(_PR_SET_DUMPABLE, 0)


def become_subreaper() -> None:
    """Become the parent of every descendant whose own parent dies, instead of init."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Make the kernel send us SIGKILL when our parent dies. A change of account undoes this."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def unshare_pids() -> None:
    """Put the processes that we fork from now on into a new PID namespace; the first becomes process 1."""
    _checked(_libc.unshare(ctypes.c_int(_CLONE_NEWPID)))


def unshare_mounts() -> None:
    """Make our mounts invisible to others; we still see mounts that others add from now on."""
    _checked(_libc.unshare(ctypes.c_int(_CLONE_NEWNS)))
    _mount(b"none", b"/", None, _MS_REC_SLAVE, None)


def mount_proc(options: str) -> None:
    """Mount a /proc that shows our PID namespace."""
    _mount(b"proc", b"/proc", b"proc", _MS_NOSUID_NODEV_NOEXEC, options.encode() or None)


def _mount(source: bytes, target: bytes, kind: bytes | None, flags: int, options: bytes | None) -> None:
    _checked(_libc.mount(source, target, kind, ctypes.c_ulong(flags), options))


def name_process(name: str) -> None:
    """Set what `ps -o comm` shows (15 bytes)."""
    _checked(_libc.prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()), 0, 0, 0))


def raw_fork() -> int:
    """Fork a process with one thread, without the hooks of `os.fork`.

    The hooks prepare the child to go on in Python, which this child does not need. They cost half a
    millisecond, for our pages that the child would copy.
    """
    return _checked(_libc_with_gil.fork())


def open_on_root(path: bytes, flags: int) -> int:
    """Return an O_PATH descriptor of something on the root file system. Raises OSError.

    The lookup stops where another file system is mounted, so it never waits for one that hangs. Kernels
    before 5.6 lack the call and refuse.
    """
    if b"\0" in path:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    how = _OpenHow(os.O_PATH | os.O_CLOEXEC | flags, 0, _RESOLVE_NO_XDEV | _RESOLVE_NO_MAGICLINKS)
    number, size = ctypes.c_long(_OPENAT2), ctypes.c_size_t(ctypes.sizeof(how))
    return _checked(_libc.syscall(number, ctypes.c_long(_AT_FDCWD), path, ctypes.byref(how), size))


def boottime() -> float:
    """Return the seconds since the machine started, including sleep: the clock of all deadlines."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class OwnPeak:
    """The largest size this process ever had. Linux starts the `ru_maxrss` of its children there."""

    def __init__(self) -> None:
        self._bytes = 0

    def unless_hidden(self, size: int) -> int | None:
        """Return the reported size of a child, or None if it may be ours."""
        if size > self._bytes:
            self._bytes = _peak()
        return size if size > self._bytes else None


def _peak() -> int:
    with open("/proc/self/status", "rb") as file:
        (line,) = (line for line in file if line.startswith(b"VmHWM:"))
    return int(line.split()[1]) * 1024


class IntervalTimer:
    """A file descriptor that becomes readable at an absolute time of CLOCK_BOOTTIME.

    Absolute, because a relative wait continues after a freeze: it was 495 ms late where this was 0.6 ms.
    """

    def __init__(self) -> None:
        self.fd = _checked(_libc.timerfd_create(time.CLOCK_BOOTTIME, os.O_CLOEXEC | os.O_NONBLOCK))

    def set(self, when: float) -> None:
        """Set the time in seconds; `math.inf` is never."""
        nanoseconds = _NEVER if when == math.inf else max(1, int(when * 1e9))  # 0 would switch it off
        spec = _Itimerspec(_Timespec(0, 0), _Timespec(*divmod(nanoseconds, 10**9)))
        _checked(_libc.timerfd_settime(self.fd, _TFD_TIMER_ABSTIME, ctypes.byref(spec), None))

    def is_set(self) -> bool:
        """Return whether the time is still to come; after it has come, only another `set` changes that."""
        spec = _Itimerspec()
        _checked(_libc.timerfd_gettime(self.fd, ctypes.byref(spec)))
        return bool(spec.it_value.tv_sec or spec.it_value.tv_nsec)

    def has_expired(self) -> bool:
        """Return whether the time has come: once, and never if the timer was moved in the meantime."""
        try:
            return bool(os.read(self.fd, 8))
        except BlockingIOError:
            return False
