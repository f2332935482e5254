"""scripts/prints finds the places that print strings of others as they are."""

import subprocess

import pytest

from repo import ROOT


def findings(tmp_path, code):
    source = tmp_path / "some.cc"
    source.write_text(code)
    r = subprocess.run([ROOT / "scripts/prints", source], capture_output=True, text=True, cwd=ROOT)
    assert r.returncode == (1 if r.stdout else 0), r.stderr
    return r.stdout


@pytest.mark.parametrize("code", [
    'fmt::print("{}", name);', 'fmt::print(stderr, "{}", name);', "std::cout << name;", "std::cerr << name << std::endl;",
    'std::printf("%s", name);', 'dprintf(2, "%s", name);', "std::puts(name.c_str());", "fputs(name, stdout);",
    "std::fwrite(name.data(), 1, name.size(), stdout);", "::write(STDOUT_FILENO, name.data(), name.size());",
    "(void)write_all(2, view(name));",
])
def test_a_place_that_prints_by_itself_is_found(tmp_path, code):
    assert "some.cc:2: " + code in findings(tmp_path, f"void f(const std::string &name) {{\n  {code}\n}}\n")


@pytest.mark.parametrize("code", [
    'print("{}", name);', "print_text(name);", 'log::error("{}", name);', 'snprintf(room, 4, "%d", n);', "std::puts(kHelp);",
    'std::fputs("a text of our own\\n", stderr);', "// std::cout << name", "out.print(name);", "write_all(fd, view(name));",
])
def test_other_places_are_not(tmp_path, code):
    assert findings(tmp_path, code + "\n") == ""


def test_no_room_prints_strings_of_others_as_they_are():
    r = subprocess.run([ROOT / "scripts/prints"], capture_output=True, text=True, cwd=ROOT)
    assert r.returncode == 0, r.stdout
