# SPDX-License-Identifier: Apache-2.0
"""No class has so many members that it must be several. Overloads of a function count once, and the
members of a nested class are its own."""

import re

import pytest

from repo import ROOT, tracked

MOST = 45
# Classes with more, and how many: they may lose members, and get none.
LARGER = {
    "agent/lifecycle/lifecycle.h: Lifecycle": 94,
    "agent/runtime/dialogue.h: Dialogue": 60,
    "agent/transfer/sink.h: StagingSink": 46,
    "bench/mobile/replayer/node.h: Node": 49,
    "libckpt-cuda/lifecycle/participant.cc: Cuda": 61,
    "libckpt-cuda/memory/paired_memory.h: PairedMemory": 55,
    "libckpt-ocl/client/link/link.h: Link": 59,
    "manager/daemon/daemon.h: Daemon": 53,
    "manager/policy/program.h: Program": 48,
    "remote/cuda/client/link/link.h: Link": 79,
    "remote/cuda/client/memory/memory.h: Memory": 49,
    "schedule/steer/steer.cc: Steering": 47,
    "softcuda/broker/client.h: Client": 46,
    "softcuda/device/memory.h: Memory": 54,
    "softcuda/vm/decoder.h: Decoder": 57,
    "storage/write/image_writer_impl.h: ImageWriter": 51,
    "tools/agent_link/agent_client.h: AgentClient": 53,
    "tools/dump/agents.h: Agents": 48,
    "tools/migrate/move.h: Move": 51,
    "tools/restore/restore.h: Restore": 48,
    "tools/session/keeper.h: Keeper": 61,
}

NOISE = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'|^[ \t]*#(?:\\\n|[^\n])*|\[\[.*?\]\]", re.S | re.M)
HEAD = re.compile(r"(?<!enum )\b(?:class|struct)\s+(?:[A-Z]+_[A-Z_]+\s+)?(\w+)(?:\s+final)?(?:\s*:[^;{}()]*)?\s*\{")
NO_MEMBER = re.compile(r"(?:using|typedef|friend|static_assert|enum|class|struct|union|template\s*<[^>]*>\s*(?:class|struct|friend))\b")


def end_of(text, begin):
    """Behind the bracket that closes the one before `begin`."""
    depth = 1
    for at in range(begin, len(text)):
        depth += (text[at] in "{([") - (text[at] in "})]")
        if depth == 0:
            return at + 1
    raise ValueError("a bracket is not closed")


def declarations(body):
    """The declarations of a class body, with {} for what is in braces and () for parameters."""
    now, at = "", 0
    while at < len(body):
        char = body[at]
        at += 1
        if char == ";":
            yield now
            now = ""
        elif char in "{([":
            now += {"{": "{}", "(": "()", "[": "[]"}[char]
            at = end_of(body, at)
            # The end of a function's body has no semicolon.
            if char == "{" and "()" in now and not re.match(r"\s*[;,{(]", body[at:]):
                yield now
                now = ""
        else:
            now += char


def names(declaration):
    """What a declaration declares: one function, or any number of data members."""
    text = re.sub(r"^(?:\s|public:|private:|protected:)+", "", declaration)
    if not text or NO_MEMBER.match(text):
        return []
    # Arguments of templates hold commas.
    while text != (shorter := re.sub(r"<[^<>]*>", "", text)):
        text = shorter
    if function := re.match(r"[^=]*?(operator[^\w\s(]+|~?\b\w+)\s*\(\)", text):
        return [function[1]]
    parts = [re.split(r"=|\{|\[|(?<!:):(?!:)", part)[0].split() for part in text.split(",")]
    return [part[-1].lstrip("*&") for part in parts if part]


def classes(text):
    """(name, its members) of each class, nested ones included."""
    text = NOISE.sub(" ", text)
    for head in HEAD.finditer(text):
        body = text[head.end():end_of(text, head.end()) - 1]
        yield head[1], {name for d in declarations(body) for name in names(d)}


def test_no_class_has_too_many_members():
    found = {}
    for path in tracked():
        if path.suffix in (".h", ".cc") and path.parts[0] != "tests":
            for name, members in classes((ROOT / path).read_text(encoding="utf-8")):
                if len(members) > MOST:
                    found[f"{path}: {name}"] = len(members)
    larger = {name: n for name, n in found.items() if n > LARGER.get(name, MOST)}
    assert not larger, f"more than {MOST} members, or more than before: find the classes inside"
    assert not set(LARGER) - set(found), "these exceptions are not needed any more"


@pytest.mark.parametrize("body, expected", [
    ("int a_ = 0, b_{1}, *c_;", ["a_", "b_", "c_"]),
    ("std::map<int, std::pair<u64, u64>> all_;", ["all_"]),
    ("static constexpr u32 kMost = 3;", ["kMost"]),
    ("char name_[32];", ["name_"]),
    ("u8 bits_ : 4;", ["bits_"]),
    ("void f(int a, int b) const;", ["f"]),
    ("void f(); int f(int) { return g(1, 2); } void h();", ["f", "h"]),
    ("explicit A(int a) : a_{a}, b_(a) {} ~A();", ["A", "~A"]),
    ("A(const A &) = delete; A &operator=(const A &) = delete;", ["A", "operator="]),
    ("bool operator==(const A &) const = default;", ["operator=="]),
    ("template <class F> void each(F f) { for (auto x : all_) f(x); }", ["each"]),
    ("public: using T = int; friend class B; enum class E { One, Two }; struct In { int x; int y; };", []),
    ("struct In { int x; } in_; int y_;", ["y_"]),
    ("Refusals refusals_{options_, target_};", ["refusals_"]),
    ("std::function<void(int)> f_ = [](int) {};", ["f_"]),
    ("Clock::time_point at_ = Clock::now();", ["at_"]),
    ("// int a;\n /* int b; */ const char *c_ = \"int d;\";", ["c_"]),
    ("[[gnu::visibility(\"default\")]] void f();", ["f"]),
])
def test_members_are_counted(body, expected):
    (name, members), *_ = classes(f"class [[nodiscard]] A final : public B<C> {{\n {body} }};")
    assert name == "A" and members == set(expected)


def test_classes_are_found():
    text = "struct A;\nclass CKPT_API B {\n class C { int x; };\n int y; };\nenum class D { E };\nvoid f(struct A *a) { g(); }\n"
    assert [(name, len(members)) for name, members in classes(text)] == [("B", 1), ("C", 1)]
