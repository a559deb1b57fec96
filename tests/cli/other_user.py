"""The command as other users run it: copied with its library to where everybody can read it. Only root can become them."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from command import CommandTest, Here

# Two who use a cache, and one whom neither of them trusts: no names are needed, only uids of nobody else.
USER, SECOND_USER, STRANGER = 54321, 54322, 54323


def why_not():
    """Why no test of other users can run here; "" if it can."""
    if os.geteuid() != 0:
        return "only root can become another user"
    try:
        subprocess.run(["true"], user=USER, group=USER, extra_groups=[], check=True)
    except OSError as error:
        return f"uid {USER} can't be taken here: {error}"
    return ""


def loaded_library(command):
    """The libmaxsim_jit.so.N that a command would load: its name, and where it is."""
    listed = subprocess.run(["ldd", command], capture_output=True, text=True, check=True).stdout
    return re.search(r"(libmaxsim_jit\.so\S*) => (\S+)", listed).groups()


def snapshot(directory):
    """All that a write would change below a directory."""
    found = {}
    for path in [directory, *sorted(directory.rglob("*"))]:
        status = path.lstat()
        found[str(path)] = (status.st_mode, status.st_uid, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    return found


class UserTest(CommandTest):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="msj-stage-")
        cls.addClassCleanup(temporary.cleanup)
        cls.stage = pathlib.Path(temporary.name)
        name, library = loaded_library(Here.command)
        shutil.copy(library, cls.stage / name)
        cls.command = shutil.copy(Here.command, cls.stage / "maxsim-jit")
        for path in (cls.stage, *cls.stage.iterdir()):
            path.chmod(0o755)

    def setUp(self):
        super().setUp()
        for path in (self.directory.parent, self.directory):
            path.chmod(0o755)

    def home_of(self, user):
        home = self.directory / f"home-{user}"
        home.mkdir(mode=0o700)
        os.chown(home, user, user)
        return home

    def run_as(self, user, *arguments, cache=None, **options):
        """As `user`, in a clean environment but for `cache` and `environment`."""
        changes = {name: None for name in os.environ if name.startswith("MAXSIM_JIT_") or name in ("HOME", "XDG_CACHE_HOME")}
        changes |= {"LD_LIBRARY_PATH": str(self.stage), "MAXSIM_JIT_CACHE_DIR": cache and str(cache)}
        changes |= options.pop("environment", {})
        return self.run_command(*arguments, environment=changes, executable=self.command, user=user, group=user, extra_groups=[],
                                cwd="/", **options)

    def json_as(self, user, *arguments, warnings=0, **options):
        """The document, where just so many warnings are said."""
        result = self.run_as(user, *arguments, "--json", **options)
        said = [line for line in result.stderr.splitlines() if "warning: " in line]
        self.assertEqual(len(said), warnings, result.stderr)
        return json.loads(result.stdout)

    def need_nvrtc(self):
        checks = {check["name"]: check for check in json.loads(self.run_as(USER, "doctor", "--json", cache=self.cache).stdout)["checks"]}
        if checks["nvrtc"]["status"] != "ok":
            self.skipTest("no NVRTC here: " + checks["nvrtc"]["found"])
