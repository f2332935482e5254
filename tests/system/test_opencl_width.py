# SPDX-License-Identifier: Apache-2.0
"""OpenCL beyond buffers: images, samplers, sub-devices, intermediate languages, OpenCL 3.0."""
import re

import pytest

from conftest import BUILD
from test_opencl import assert_no_driver, devices, finished, ocl, wait_until_computing  # noqa: F401
from tiers import parametrize

EXTRA_OPTIONS = str(BUILD / "tests" / "programs" / "opencl" / "libocl-extra-options.so")
PAIRS = [("pocl", "rusticl"), ("rusticl", "oclgrind"), ("oclgrind", "pocl")]


def moved(ocl, name, *args, source, target, image="image"):
    """Dumps a program at READY and restores it on another implementation."""
    job = ocl.start(name, *args, device=source)
    job.wait_text("READY")
    assert_no_driver(job)
    ocl.ckpt.dump(job.pid, image)
    assert job.wait() == 85, job.error_text
    copy = ocl.restore(image, target)
    assert_no_driver(copy)
    return copy


def test_image_calls_answer_as_they_do_natively(ocl):
    native = ocl.native("image_calls")
    job = ocl.start("image_calls")
    finished(job)
    assert native.returncode == 0, native.stdout
    assert job.text == native.stdout


@parametrize("device", ["pocl", "rusticl", "oclgrind"], quick=1)
def test_image_calls_work_on_every_device(ocl, device):
    finished(ocl.start("image_calls", "strict", device=device))


@parametrize("source,target", PAIRS, quick=1)
def test_images_and_samplers_move(ocl, source, target):
    copy = moved(ocl, "images", source=source, target=target)
    ocl.go()
    finished(copy)


def test_images_move_back_and_forth_and_survive_a_dump(ocl):
    copy = moved(ocl, "images", source="pocl", target="rusticl", image="one")
    wait_until_computing(copy)
    ocl.ckpt.dump(copy.pid, "two", "--leave-running")
    ocl.ckpt.dump(copy.pid, "three")
    assert copy.wait() == 85
    again = ocl.restore("three", "pocl")
    wait_until_computing(again)
    ocl.go()
    finished(again)


def image_limits(ocl, device="pocl", *options):
    """The largest width of an image, and the number of formats, that a program sees on the device."""
    job = ocl.start("image_requirements", "limit", device=device, options=options)
    job.wait_text("READY")
    return [int(n) for n in re.match(r"(\d+) wide, (\d+) formats", job.text).groups()]


def refused_for_images(ocl, source, target, arguments, words, *options):
    job = ocl.start("image_requirements", *arguments, device=source)
    job.wait_text("READY")
    ocl.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    refused = ocl.restore("image", target, *options)
    assert refused.wait() == 1 and refused.text == ""
    for word in words:
        assert word in refused.error_text, refused.error_text
    ocl.go()
    finished(ocl.restore("image", source))


def test_a_device_without_the_format_of_an_image_is_refused(ocl):
    refused_for_images(ocl, "pocl", "rusticl", ["format"], ["2D image of CL_A CL_UNSIGNED_INT8", "llvmpipe"])


@parametrize("requirement", ["size", "limit"], quick=1)
def test_a_device_that_cannot_hold_the_images_is_refused(ocl, requirement):
    """PoCL's limit depends on the machine's memory, so the implementation with wider images is the source."""
    narrow = image_limits(ocl, "oclgrind")[0]
    widths = {name: image_limits(ocl, name)[0] for name in ("pocl", "rusticl")}
    source = max(widths, key=widths.get)
    assert widths[source] > narrow
    arguments = ["size", str(widths[source])] if requirement == "size" else ["limit"]
    words = {"size": [], "limit": [f"CL_DEVICE_IMAGE2D_MAX_WIDTH = {widths[source]}"]}[requirement]
    refused_for_images(ocl, source, "oclgrind", arguments,
                       [str(widths[source]), str(narrow), "CL_DEVICE_IMAGE2D_MAX_WIDTH", *words],
                       *(["--strict-limits"] if requirement == "limit" else []))


def test_portable_advertises_only_image_limits_that_all_devices_have(ocl):
    wide, formats = image_limits(ocl)
    least_wide, least_formats = image_limits(ocl, "pocl", "--portable")
    assert 0 < least_formats < formats
    assert least_wide == min(image_limits(ocl, name)[0] for name in ocl.here) <= wide


def test_additions_of_3_0_work_as_they_do_natively(ocl):
    native = ocl.native("version3")
    assert native.returncode == 0, native.stdout
    ocl.go()
    finished(ocl.start("version3"))


@parametrize("source,target", [("rusticl", "pocl"), ("pocl", "oclgrind")], quick=1)
def test_version_3_0_stays_visible_on_a_1_2_device(ocl, source, target):
    copy = moved(ocl, "version3", "kept", source=source, target=target)
    ocl.go()
    finished(copy)


def test_version_3_0_stays_visible_if_the_driver_knows_none_of_its_queries(ocl):
    job = ocl.start("version3", "kept")
    job.wait_text("READY")
    ocl.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    ocl.ckpt.env.update(LD_PRELOAD=EXTRA_OPTIONS, CKPT_TEST_1_2="1")
    ocl.go()
    finished(ocl.restore("image", "rusticl"))


def test_sub_devices_move_to_an_indivisible_device_and_back(ocl):
    copy = moved(ocl, "subdevices", source="pocl", target="rusticl", image="one")
    wait_until_computing(copy)
    ocl.ckpt.dump(copy.pid, "two")
    assert copy.wait() == 85
    back = ocl.restore("two", "pocl")
    wait_until_computing(back)
    ocl.go()
    finished(back)


def test_whole_devices_stand_for_sub_devices(ocl):
    copy = moved(ocl, "subdevices", source="pocl", target="oclgrind")
    ocl.go()
    finished(copy)


def test_a_device_without_partitions_says_so(ocl):
    job = ocl.start("subdevices", device="rusticl")
    finished(job)
    assert "no partitions here" in job.text


def language(ocl, device):
    """The intermediate languages that the driver supports, natively and under ckpt-run; "" for none."""
    ocl.device(device)  # skips the test if it is not installed
    native = ocl.native("il", "version", vendor=device).stdout.strip()
    job = ocl.start("il", "version", device=device)
    assert job.wait() == 0, job.error_text
    # A 1.2 driver has no such query, even if it answers it.
    assert job.text.strip() == (native if device != "oclgrind" else "")
    return native


@parametrize("device", ["pocl", "rusticl", "oclgrind"], quick=1)
def test_an_intermediate_language_works_if_the_driver_supports_one(ocl, device):
    ocl.go()
    finished(ocl.start("il", "real" if language(ocl, device) else "none", device=device))


@pytest.mark.parametrize("source,target", [("pocl", "rusticl"), ("rusticl", "pocl")])
def test_a_program_in_spirv_moves(ocl, source, target):
    for device in (source, target):
        if not language(ocl, device):
            pytest.skip(f"{device} does not support SPIR-V here")
    copy = moved(ocl, "il", "real", source=source, target=target)
    ocl.go()
    finished(copy)


def test_a_program_in_an_intermediate_language_moves_only_to_a_device_that_supports_it(ocl):
    lacking = {"CKPT_TEST_1_2": "1"} if language(ocl, "rusticl") else {"LD_PRELOAD": ""}
    ocl.ckpt.env["LD_PRELOAD"] = EXTRA_OPTIONS
    job = ocl.start("il")
    job.wait_text("READY")
    ocl.ckpt.dump(job.pid, "image")
    assert job.wait() == 85
    ocl.ckpt.env.update(lacking)
    refused = ocl.restore("image", "rusticl")
    assert refused.wait() == 1
    assert "SPIR-V_1.2" in refused.error_text and "llvmpipe" in refused.error_text
    ocl.ckpt.env.pop("CKPT_TEST_1_2", None)
    ocl.ckpt.env["LD_PRELOAD"] = EXTRA_OPTIONS
    ocl.go()
    finished(ocl.restore("image", "rusticl"))


@parametrize("device", ["pocl", "rusticl", "oclgrind"], quick=1)
def test_sub_group_queries_answer_as_the_driver_does(ocl, device):
    ocl.device(device)
    if device == "oclgrind" or int(ocl.native("options", "count", vendor=device).stdout) == 0:
        return finished(ocl.start("options", "none", device=device))
    job = ocl.start("options", "answers", device=device)
    finished(job)
    assert job.text == ocl.native("options", "answers", vendor=device).stdout


def test_sub_group_queries_reach_the_driver(ocl):
    ocl.ckpt.env["LD_PRELOAD"] = EXTRA_OPTIONS
    finished(ocl.start("options", "sub-groups"))


def test_the_preflight_names_variables_at_program_scope(ocl):
    ocl.ckpt.env["LD_PRELOAD"] = EXTRA_OPTIONS
    job = ocl.start("options", "variables")
    job.wait_text("READY")
    error = ocl.ckpt.dump_refused(job.pid, "image")
    assert "64 bytes in variables at program scope" in error
    ocl.go()
    finished(job)
