"""A virtual machine of a test's own (vm.sh), with the built programs in it."""
import os
import pathlib
import subprocess
import tempfile

SCRIPT = pathlib.Path(__file__).resolve().parent / "vm.sh"


class Vm:
    """Its state lies below `directory`; further variables of vm.sh come as keywords: VM_DATA_MB="1024"."""

    def __init__(self, directory, **variables):
        self.directory = pathlib.Path(directory)
        self.run_directory = self.directory / "vm"
        self.environment = {**os.environ, "VM_RUN": str(self.run_directory), "VM_TIMEOUT": "600",
                            "VM_RUN_TIMEOUT": "300", **variables}

    def call(self, *arguments, check=True, **variables):
        # Into files: the VM and its ssh connection outlive the call, and would keep a pipe open.
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            code = subprocess.call([str(SCRIPT), *arguments], env={**self.environment, **variables},
                                   stdin=subprocess.DEVNULL, stdout=out, stderr=err)
            out.seek(0)
            err.seek(0)
            done = subprocess.CompletedProcess(arguments, code, out.read(), err.read())
        if check and code:
            raise AssertionError(f"vm.sh {' '.join(arguments)}: {code}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done

    def shell(self, line, check=True):
        return self.call("run", "sh", "-c", line, check=check)

    def install(self, build):
        """What `make install` installs, into the running guest, without what is for debuggers."""
        tree = self.directory / "tree"
        subprocess.run(["cmake", "--install", str(build), "--prefix", "/usr/local", "--strip"], check=True,
                       env={**os.environ, "DESTDIR": str(tree)}, stdout=subprocess.DEVNULL)
        self.call("copy", str(tree / "usr"), "/")
        self.shell("bole version && sync")

    def stop(self):
        self.call("stop", check=False)
