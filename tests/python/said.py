"""What host and client share: results in lines of text, and which library a process has."""

import os
import re
import socket
import sys
import warnings

# The module starts its thread by a call that Python 3.10 deprecated.
warnings.simplefilter("ignore", DeprecationWarning)


def library():
    """Device and inode of the libpmix that this process has mapped: asked of the kernel, as nothing else is sure."""
    with open("/proc/self/maps", encoding="ascii") as maps:
        for line in maps:
            path = line.split(maxsplit=5)[-1].strip()
            if "/libpmix.so" in path:
                found = os.stat(path)
                return f"{found.st_dev}:{found.st_ino}"
    return "none"


def plain(value):
    """A value as text that is the same in every run: dictionaries in order, no flags, which the module does not set."""
    if isinstance(value, dict):
        pairs = [(key, item) for key, item in value.items() if key != "flags"]
        return "{" + ", ".join(f"{key}: {plain(item)}" for key, item in sorted(pairs, key=str)) + "}"
    if isinstance(value, tuple):
        return " ".join(plain(item) for item in value)
    if isinstance(value, list):
        return "[" + ", ".join(plain(item) for item in value) + "]"
    if isinstance(value, (bytes, bytearray)):
        return "b" + repr(bytes(value).decode("latin-1"))
    # What identifies a process is another number each time, and this machine has its own name.
    text = re.sub(rf"\b({os.getpid()}|{os.getppid()})\b", "PID", repr(value))
    return re.sub(rf"\b{re.escape(socket.gethostname())}\b", "HOST", text)


def say(who, name, *results):
    """One line, at once: a process that dies has said all that it did."""
    sys.stdout.write(" ".join([f"{who} {name}:", *(plain(result) for result in results)]) + "\n")
    sys.stdout.flush()


def call(who, name, function, *arguments):
    """Calls a method, says its result in a line, and gives it back."""
    try:
        result = function(*arguments)
    except Exception as error:
        result = None
        say(who, name, type(error).__name__, str(error))
    else:
        say(who, name, result)
    return result


def info(key, value, kind):
    """One entry of a list of directives."""
    return {"key": key, "value": value, "val_type": kind, "flags": 0}
