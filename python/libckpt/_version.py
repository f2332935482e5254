# SPDX-License-Identifier: Apache-2.0
"""The version of the module. A test compares it with meson.build."""
__version__ = "0.1.0"
