# SPDX-License-Identifier: Apache-2.0
"""The errors of the C API as exceptions."""
from __future__ import annotations

import enum


class ErrorCode(enum.IntEnum):
    """``enum ckpt_error`` of ckpt/ckpt.h."""

    NO_SESSION = -1
    BUSY = -2
    INVALID = -3
    FAILED = -4
    LOST = -5
    UNKNOWN = -6
    IN_CALLBACK = -7
    SYSTEM = -8


class Error(Exception):
    """A call failed; the program continues as before. The text says why, and what to do about it."""

    def __init__(self, text: str, code: ErrorCode = ErrorCode.FAILED) -> None:
        super().__init__(text)
        self.code = code


class DevicesLost(Error):
    """The program continues without its devices: every call of their API fails from now on."""


def error_of(number: int, text: str) -> Error:
    """The exception for a negative return value of the C API."""
    try:
        code = ErrorCode(number)
    except ValueError:  # of a newer library
        return Error(f"{text} (error {number})")
    return DevicesLost(text, code) if code is ErrorCode.LOST else Error(text, code)
