"""The privgrad program: where it is, how it is run, and what its exit codes mean."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import IO, Any, Callable, Optional, Sequence

from ._words import translated

#: Names another program in the place of the one that comes with this module.
VARIABLE = "PRIVGRAD_COMMAND"


class Error(Exception):
    """What the privgrad program says where it fails, in its own words. `exit_code` is the program's."""

    exit_code = 1


class UsageError(Error, ValueError):
    """Bad usage or bad input: nothing was trained and nothing was charged."""

    exit_code = 2


class BudgetError(Error):
    """The privacy budget does not allow it."""

    exit_code = 3


_INTERRUPTED = 130
_ERRORS = {UsageError.exit_code: UsageError, BudgetError.exit_code: BudgetError}


class Warned(UserWarning):
    """A warning of the privgrad program, in its own words."""


def program() -> str:
    """The path of the privgrad program: that of PRIVGRAD_COMMAND, or the one that came with this module."""
    named = os.environ.get(VARIABLE)
    if named:
        found = shutil.which(named)
        if found is None:
            raise UsageError(f"{VARIABLE} is {named}, and there is no such program: name another, or remove the variable")
        return found
    path = Path(__file__).parent / "bin" / ("privgrad.exe" if os.name == "nt" else "privgrad")
    if not path.exists():
        raise UsageError(f"this copy of the module has no program beside it: install the wheel for your system, or name a program by {VARIABLE}")
    return str(path)


def flag(name: str, value: Any) -> list[str]:
    """The flag of a keyword: max_physical_batch=64 is --max-physical-batch=64. None leaves it out."""
    if value is None:
        return []
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, (list, tuple)):
        text = ",".join(map(str, value))
    else:
        text = os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    return [f"--{name.replace('_', '-')}={text}"]


class Line:
    """One line on standard error that is written anew: on a terminal and in a notebook. Elsewhere each text is a line."""

    def __init__(self) -> None:
        self._renews = sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel")
        self._width = 0

    def say(self, text: str) -> None:
        if self._renews and len(text) >= shutil.get_terminal_size().columns:
            sys.stderr.write("\r" + text.ljust(self._width) + "\n")  # cut, it would say half
            self._width = 0
        elif self._renews:
            sys.stderr.write("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def end(self) -> None:
        if self._width:
            sys.stderr.write("\n")
            self._width = 0


class _Pipe:
    """Standard input of the program, as far as it reads: what it refuses it says itself."""

    def __init__(self, to: IO[bytes]) -> None:
        self._to = to

    def write(self, data: Any) -> int:
        try:
            return self._to.write(data)
        except (BrokenPipeError, OSError):
            raise _Refused from None

    def flush(self) -> None:
        pass


class _Refused(Exception):
    pass


#: Writes data to the program's standard input.
Feed = Callable[[Any], None]


def run(arguments: Sequence[str], feed: Optional[Feed] = None, line: Optional[Line] = None) -> Any:
    """Run the program with --json, and give the object that it prints. What it says as it goes is shown in the line.

    An interrupt lets it finish a step and save. Raises Error, UsageError or BudgetError with its words.
    """
    return _outcome(*_ended([*arguments, "--json"], feed, line))


def text(arguments: Sequence[str], feed: Optional[Feed] = None) -> str:
    """Run the program, and give the text that it prints, also where it fails after it. Raises as run does where there is none."""
    code, printed, said = _ended(arguments, feed, None)
    if code not in (0, Error.exit_code) or not printed:
        _outcome(code or Error.exit_code, b"", said)
    return translated(printed.decode("utf-8", "replace"))


def _ended(arguments: Sequence[str], feed: Optional[Feed], line: Optional[Line]) -> tuple[int, bytes, list[str]]:
    """The exit code, what was printed, and the lines on standard error of a run of the program that has ended."""
    apart: dict[str, Any] = {} if os.name == "nt" else {"start_new_session": True}  # an interrupt reaches it through stop alone
    child = subprocess.Popen(
        [program(), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **apart
    )
    said: list[str] = []
    printed: list[bytes] = []
    readers = [
        threading.Thread(target=_listen, args=(child.stderr, said, line), daemon=True),
        threading.Thread(target=lambda: printed.append(_whole(child.stdout)), daemon=True),
    ]
    for reader in readers:
        reader.start()
    try:
        _write(child, feed)
        for reader in readers:
            reader.join()
        child.wait()
    except BaseException:
        _stop(child)
        raise
    finally:
        if line is not None:
            line.end()
    return child.returncode, printed[0] if printed else b"", said


def _whole(stream: Optional[IO[bytes]]) -> bytes:
    assert stream is not None
    with stream:
        return stream.read()


def _listen(stream: Optional[IO[bytes]], said: list[str], line: Optional[Line]) -> None:
    assert stream is not None
    with stream:
        for raw in stream:
            text = raw.decode("utf-8", "replace").rstrip()
            said.append(text)
            notice = _logged(text)
            if line is not None and notice.get("level") == "INFO":
                line.say(_progress(notice))


def _write(child: subprocess.Popen[bytes], feed: Optional[Feed]) -> None:
    assert child.stdin is not None
    try:
        if feed is not None:
            feed(_Pipe(child.stdin))
    except _Refused:
        pass
    except BaseException:
        child.kill()  # which still reads: at the end of a part of the data it would train on that
        raise
    finally:
        try:
            child.stdin.close()
        except OSError:
            pass


def _stop(child: subprocess.Popen[bytes]) -> None:
    """End the program in good order, and wait for that: once more ends it at once."""
    if child.poll() is None and os.name != "nt":
        child.send_signal(signal.SIGINT)
    try:
        child.wait()
    except BaseException:
        child.kill()
        child.wait()
        raise


_WARNING = "privgrad: warning: "


def _logged(text: str) -> dict[str, Any]:
    """A line of --log-format json; empty of what is none, such as an error."""
    try:
        notice = json.loads(text)
    except ValueError:
        notice = None
    return notice if isinstance(notice, dict) else {}


def _progress(notice: dict[str, Any]) -> str:
    if notice.get("msg") != "evaluation":
        return f"privgrad: {translated(str(notice.get('msg', '')))}"
    text = f"privgrad: epoch {notice['epoch']:.4g}"
    if "epsilon_so_far" in notice:
        text += f", ε {notice['epsilon_so_far']:.3g} so far"
    if "not_private" in notice:
        text += f" ({notice['not_private']})"
    for key, what in (("test_accuracy", "test accuracy"), ("test_rmse", "test RMSE")):
        if key in notice:
            text += f", {what} {notice[key]:.4g}"
    return text


def _warning(text: str) -> Optional[str]:
    notice = _logged(text)
    if notice.get("level") == "WARN":
        return str(notice.get("msg", ""))
    return text[len(_WARNING) :] if text.startswith(_WARNING) else None


def _depth() -> int:
    """How many calls up the caller of this module is, whom a warning is for."""
    here, depth = os.path.dirname(__file__), 0
    frame = sys._getframe(1)
    while frame.f_back is not None and os.path.dirname(frame.f_code.co_filename) == here:
        frame, depth = frame.f_back, depth + 1
    return depth + 1


def _warn(texts: list[str]) -> None:
    """Warn of each, but of the columns of X once for all of them."""
    columns = [t for t in texts if t.startswith("X: ")]
    for warning in [t for t in texts if t not in columns] + (["\n".join(columns)] if columns else []):
        warnings.warn(warning, Warned, stacklevel=_depth())


def _outcome(code: int, printed: bytes, said: list[str]) -> Any:
    _warn([translated(w) for w in map(_warning, said) if w is not None])
    try:
        result = json.loads(printed)
    except ValueError:
        result = None
    if code == 0 and result is not None:
        return result
    if code in (_INTERRUPTED, -signal.SIGINT):
        raise KeyboardInterrupt
    if isinstance(result, dict) and "error" in result:
        message = result["error"]["message"]
    else:
        message = "\n".join(text for text in said[-5:] if not _logged(text)) or f"the privgrad program ended with exit code {code} and said nothing"
    error = _ERRORS.get(code, Error)(translated(message))
    error.exit_code = code
    raise error


def main() -> None:
    """Be the privgrad program: what the console script of this name runs."""
    try:
        path = program()
    except UsageError as error:
        sys.exit(f"privgrad: {error}")
    if os.name == "nt":
        sys.exit(subprocess.call([path, *sys.argv[1:]]))
    os.execv(path, [path, *sys.argv[1:]])
