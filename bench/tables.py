# SPDX-License-Identifier: Apache-2.0
"""Tables that a benchmark puts into its README.md, between <!-- NAME --> and <!-- end of NAME -->."""
import re


def publish(readme, name, table, to_stdout):
    print(f"{name}\n{table}\n", flush=True)
    if to_stdout:
        return
    begin, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
    text, n = re.subn(re.escape(begin) + ".*?" + re.escape(end), lambda _: begin + table + end, readme.read_text(), flags=re.DOTALL)
    if n != 1:
        raise SystemExit(f"README.md has no place for the table {name}")
    readme.write_text(text)
