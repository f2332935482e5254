# SPDX-License-Identifier: Apache-2.0
from spack.package import *


class Ckpt(MesonPackage):
    """Checkpoint, restart and migration of OpenCL and CUDA programs.

    From a source tree: spack repo add packages/spack, then spack dev-build ckpt@0.1.0.
    CRIU 4.2 or later and its rights are root's and not part of a user's installation (docs/HELPER.md).
    """

    license("Apache-2.0")
    maintainers()

    version("0.1.0")

    variant("cuda", default=False, description="CUDA programs (needs a toolkit to compile, not to run)")
    variant("python", default=True, description="The Python module libckpt")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("meson@1.0.1:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("scdoc", type="build")
    depends_on("cli11", type="build")
    depends_on("tl-expected", type="build")
    depends_on("opencl-c-headers", type="build")
    depends_on("nlohmann-json", type="build")
    depends_on("doctest", type="test")

    depends_on("elfutils")
    depends_on("fmt")
    depends_on("libmicrohttpd@0.9.71:")
    depends_on("libsodium")
    depends_on("lz4")
    depends_on("ocl-icd")
    depends_on("openssl@3:")
    depends_on("xxhash")
    depends_on("zstd")
    depends_on("cuda@13:", when="+cuda", type="build")
    extends("python@3.9:", when="+python")

    conflicts("platform=darwin", msg="CRIU is for Linux")
    conflicts("%gcc@:11", msg="C++20 as GCC 12 has it")
    requires("target=x86_64:", msg="the restorer of CRIU and the interpreter of PTX are tried on x86-64 alone")

    def setup_build_environment(self, env):
        if self.spec.satisfies("+cuda"):
            env.set("CUDA_HOME", self.spec["cuda"].prefix)

    def meson_args(self):
        # A folder of its own for each build, because images need the libraries that their programs had mapped.
        return [
            "-Dstrip=false",
            "-Dwerror=false",
            "-Dunity=on",
            "-Dunity_size=8",
            f"-Dbuild_id={self.spec.dag_hash(7)}",
            f"-Dpython={self.spec['python'].command.path if self.spec.satisfies('+python') else ''}",
            f"-Dtests={'true' if self.run_tests else 'false'}",
        ]
