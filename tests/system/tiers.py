# SPDX-License-Identifier: Apache-2.0
"""Which values of a test's parameters are part of ./check, and which only of ./check --full."""
import pytest


def parametrize(names, values, quick, **more):
    """pytest.mark.parametrize. Without --full, only the first `quick` values run."""
    several = len(names.split(",")) > 1

    def row(i, value):
        if i < quick or hasattr(value, "marks"):  # it says for itself in which tier it is
            return value
        return pytest.param(*(value if several else [value]), marks=pytest.mark.full)
    return pytest.mark.parametrize(names, [row(i, value) for i, value in enumerate(values)], **more)
