"""Finerail from a checkout of its source.

    spack repo add contrib/spack
    spack dev-build --source-path . finerail@main

There is no release archive yet, so the recipe has no address to fetch from.
"""

from spack.package import *


class Finerail(Package):
    """A user-space LNet: plans routers, runs nodes that speak to kernel nodes, explains paths, and
    forwards the I/O of compute processes."""

    maintainers = []

    license("MIT OR Apache-2.0")

    version("main")

    variant("bmi", default=True, description="Install libbmi for C programs")
    variant("dlc", default=True, description="Install libfinerail_dlc for C programs")
    variant("lnet", default=True, description="Install libfinerail_lnet for C programs")

    depends_on("c", type="build")
    depends_on("rust@1.95:", type="build")

    def install(self, spec, prefix):
        cargo = which("cargo", required=True)
        packages = ["-p", "finerail"]
        if spec.satisfies("+bmi"):
            packages += ["-p", "bmi-ffi"]
        if spec.satisfies("+dlc"):
            packages += ["-p", "lnet-dlc-ffi"]
        if spec.satisfies("+lnet"):
            packages += ["-p", "lnet-ffi"]
        cargo("build", "--release", "--locked", "-j", str(make_jobs), *packages)
        self.install_program(prefix)
        install_library = Executable(join_path("contrib", "install-library"))
        if spec.satisfies("+bmi"):
            install_library("bmi", prefix)
        if spec.satisfies("+dlc"):
            install_library("finerail_dlc", prefix)
        if spec.satisfies("+lnet"):
            install_library("finerail_lnet", prefix)

    def install_program(self, prefix):
        mkdirp(prefix.bin)
        install("target/release/finerail", prefix.bin)
        program = Executable(prefix.bin.finerail)
        program("man", prefix.share.man.man1)
        for shell, directory, name in (
            ("bash", prefix.share.join("bash-completion").completions, "finerail"),
            ("zsh", prefix.share.zsh.join("site-functions"), "_finerail"),
            ("fish", prefix.share.fish.join("vendor_completions.d"), "finerail.fish"),
        ):
            mkdirp(directory)
            with open(join_path(directory, name), "w") as file:
                program("completions", shell, output=file)
