# SPDX-License-Identifier: Apache-2.0
"""The alert rules, the dashboard and the units of docs/monitoring: they name what exists."""
import json
import pathlib
import re
import socket
import subprocess
import urllib.request

import pytest

from conftest import BUILD, ROOT
from test_monitoring import STRING, metrics, parse  # noqa: F401 (metrics is a fixture)

MONITORING = ROOT / "docs" / "monitoring"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture
def known(ckpt, metrics, tmp_path):  # noqa: F811
    """{metric: its labels, or None where there was no sample}, of ckpt-history and of a ckptd."""
    metrics.add({"program": "/p", "image": str(tmp_path)}, {"event": "restore"})
    (tmp_path / "index.ckpt").touch()
    texts = [metrics.tool("--prometheus", "-").stdout]
    port = free_port()
    ckpt.env["CKPTD_SOCKET"] = str(ckpt.runtime / "ckptd.sock")
    daemon = ckpt.start("ckptd", ["--nvml", "none", "--opencl-devices", "ocl:pthread", "--metrics", port])
    daemon.wait_text("listening on")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        texts.append(answer.read().decode())
    found = {}
    for text in texts:
        samples, types = parse(text)
        found.update(dict.fromkeys(types))
        for name, kind in types.items():
            if kind == "histogram":
                found.update({f"{name}_{part}": None for part in ("bucket", "sum", "count")})
        for name, labels in samples:
            found[name] = (found[name] or set()) | {label for label, _ in labels}
    return found


def check_expression(expression, known):
    where = re.sub(STRING, '""', expression)
    names = set(re.findall(r"\bckptd?_\w+", where))
    assert names and names <= set(known), f"{expression}: {names - set(known)}"
    for name, labels in re.findall(r"\b(ckptd?_\w+)\{([^}]*)\}", where):
        if known[name] is not None:
            assert set(re.findall(r"(\w+)[=!]", labels)) <= known[name] | {"instance"}, expression
    for labels in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", where):
        for label in filter(None, re.split(r"[,\s]+", labels)):
            assert label == "instance" or any(label in (known[n] or {label}) for n in names), f"{expression}: {label}"
    assert where.count("(") == where.count(")") and where.count("{") == where.count("}")


def expressions_in(thing):
    if isinstance(thing, dict):
        yield from ([thing["expr"]] if "expr" in thing else [])
        thing = list(thing.values())
    for part in thing if isinstance(thing, list) else []:
        yield from expressions_in(part)


@pytest.mark.no_criu
def test_rules_and_dashboard_name_metrics_that_exist(known):
    yaml = pytest.importorskip("yaml")
    rules = [r for group in yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"] for r in group["rules"]]
    assert len({r["alert"] for r in rules}) == len(rules) >= 8
    for rule in rules:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"} and rule["labels"]["severity"]
        assert set(rule["annotations"]) == {"summary", "description"}
        check_expression(rule["expr"], known)
    board = json.loads((MONITORING / "grafana.json").read_text())
    assert len({p["id"] for p in board["panels"]}) == len(board["panels"])
    shown = list(expressions_in(board))
    assert len(shown) > 15
    for expression in shown:
        check_expression(expression, known)
    variables = {v["name"] for v in board["templating"]["list"]}
    assert {v for e in shown for v in re.findall(r"\$(\w+)", e)} <= variables | {"__rate_interval"}
    for query in re.findall(r"ckptd?_\w+", json.dumps(board["templating"])):
        assert query in known
    # Each metric of the histories is looked at somewhere.
    used = " ".join([*shown, *(r["expr"] for r in rules)])
    assert [n for n in known if n.startswith("ckpt_") and n.endswith("_seconds") and n not in used and f"{n}_bucket" not in used] == ["ckpt_decision_seconds"]


@pytest.mark.no_criu
def test_the_manual_has_every_alert():
    manual = (ROOT / "docs/OPERATIONS.md").read_text()
    for alert in re.findall(r"alert: (\w+)", (MONITORING / "alerts.yml").read_text()):
        assert f"`{alert}`" in manual, alert


@pytest.mark.no_criu
def test_units_start_tools_with_options_that_exist():
    for unit in MONITORING.glob("*.service"):
        command = re.search(r"^ExecStart=/usr/bin/(.*)$", unit.read_text(), flags=re.M).group(1).split()
        name, words = command[0], command[1:]
        verb = [words[0]] if not words[0].startswith("-") else []
        said = subprocess.run([BUILD / "tools" / name, *verb, "--help"], capture_output=True, text=True, check=True).stdout
        for word in words:
            if word.startswith("--"):
                assert re.search(rf"^  (-\w, )?{word.partition('=')[0]}\b", said, flags=re.M), word
        assert pathlib.Path(unit).with_suffix(".timer").exists()
