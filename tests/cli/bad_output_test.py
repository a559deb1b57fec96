"""Results that can't be written: said before any work where it can be known, and never half-written.

usage: bad_output_test.py MAXSIM_JIT SOURCE_DIR [unittest arguments]
"""
import os
import pathlib
import resource
import signal
import unittest

from command import CommandTest, Here, main, write_npy
from other_user import USER, UserTest, why_not


def writes_a_file_before_main():
    """ThreadSanitizer's runtime does, and would be ended by the signal."""
    return b"__tsan_init" in pathlib.Path(Here.command).read_bytes()


def limit_files(size):
    """Runs in the child: no file may grow beyond `size`, as if the disk were full then; works for every user."""
    # Ends a program by default. Python ignores it, and has undone that for the child by now.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN if writes_a_file_before_main() else signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


class BadOutputTest(CommandTest):
    def setUp(self):
        super().setUp()
        files = {"--q": write_npy(self.directory / "q.npy", "<f4", (2, 3, 16), [1.0] * 96),
                 "--d": write_npy(self.directory / "d.npy", "<f4", (5, 4, 16), [1.0] * 320)}
        self.score = ["score", "--device", "cpu", *(word for pair in files.items() for word in pair)]
        self.out, self.argmax = self.directory / "out.npy", self.directory / "argmax.npy"

    def refuse(self, *arguments, parts, **options):
        before = {path: path.lstat().st_mtime_ns for path in self.directory.iterdir()}
        self.assert_sentence(self.run_command(*self.score, *arguments, code=1, **options), *parts)
        self.assertEqual({path: path.lstat().st_mtime_ns for path in self.directory.iterdir()}, before)

    def test_places_where_no_file_can_be(self):
        (self.directory / "plain").write_text("")
        os.mkfifo(self.directory / "fifo")
        os.symlink(self.directory, self.directory / "link")
        places = [(self.directory, "no regular file"), ("/dev/null", "no regular file"), ("/dev/full", "no regular file"),
                  (self.directory / "fifo", "no regular file"), (self.directory / "link", "no regular file"),
                  (self.directory / "none" / "o.npy", "there is no directory"),
                  (self.directory / "plain" / "o.npy", "there is no directory"),
                  (f"{self.directory}/none/", "there is no directory"),
                  (self.directory / ("x" * 300), "name too long"),
                  ("/proc/o.npy", "No such file")]  # a directory in which nothing can be made, not even by root
        for place, part in places:
            for option in ("--out", "--argmax"):
                with self.subTest(place=place, option=option):
                    self.refuse(option, place, parts=[place, part])

    def test_of_two_results_both_are_written_or_none(self):
        for limit in (0, 100, 150):  # not even the scores fit, of 168 bytes
            self.refuse("--out", self.out, preexec_fn=lambda: limit_files(limit), parts=[self.out, "File too large"])
        both = ["--out", self.out, "--argmax", self.argmax]
        self.refuse(*both, preexec_fn=lambda: limit_files(200), parts=[self.argmax, "File too large"])  # of 248 bytes
        self.run_command(*self.score, *both, preexec_fn=lambda: limit_files(248))
        self.assertEqual((self.out.stat().st_size, self.argmax.stat().st_size), (168, 248))
        self.out.write_text("what was there stays")
        self.refuse(*both, preexec_fn=lambda: limit_files(200), parts=[self.argmax, "File too large"])
        self.assertEqual(self.out.read_text(), "what was there stays")

    def test_a_command_that_is_killed_leaves_nothing(self):
        q, d = (write_npy(self.directory.parent / f"{name}.npy", "<f4", (2000, 1, 1), [1.0] * 2000) for name in "qd")
        before = sorted(path.name for path in self.directory.iterdir())
        for was_there in (False, True):
            for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
                if was_there:
                    self.out.write_text("what was there")
                self.kill_while_it_writes("score", "--device", "cpu", "--q", q, "--d", d, "--out", self.out, sent=sent)
                self.assertEqual(sorted(path.name for path in self.directory.iterdir()), sorted(before + [self.out.name] * was_there))
        self.assertEqual(self.out.read_text(), "what was there")

    def test_a_symlink_is_followed_and_stays(self):
        (self.directory / "there").mkdir()
        self.out.symlink_to("there/o.npy")
        (self.directory / "there" / "o.npy").write_text("old")
        self.run_command(*self.score, "--out", self.out)
        self.assertTrue(self.out.is_symlink())
        self.assertEqual((self.directory / "there" / "o.npy").stat().st_size, 168)

    def test_a_symlink_to_what_is_not_there_yet_is_followed_too(self):
        (self.directory / "there").mkdir()
        self.out.symlink_to("there/new.npy")
        self.run_command(*self.score, "--out", self.out)
        self.assertTrue(self.out.is_symlink())
        self.assertEqual((self.directory / "there" / "new.npy").stat().st_size, 168)
        self.argmax.symlink_to("nowhere/new.npy")
        self.refuse("--argmax", self.argmax, parts=[self.argmax, "there is no directory", "nowhere"])

    def test_a_loop_of_symlinks_stays_and_is_said(self):
        self.out.symlink_to("other.npy")
        (self.directory / "other.npy").symlink_to(self.out.name)
        (self.directory / "self.npy").symlink_to("self.npy")
        for name in (self.out, self.directory / "self.npy"):
            self.refuse("--out", name, parts=[name, "Too many levels of symbolic links"])

    def test_an_open_file_is_no_place_for_a_new_one(self):
        """What a stream was redirected to is that file, whole: not what its name would be replaced by."""
        log = self.directory / "app.log"
        (self.directory / "link.npy").symlink_to("/dev/stdout")
        for name in ("/dev/stdout", "/proc/self/fd/1", "/dev/fd/1", self.directory / "link.npy"):
            log.write_text("what was there\n")
            with self.subTest(name=name), open(log, "a") as stream:
                line = [*self.score, "--out", name, "--json"]
                result = self.run_command(*line, code=1, stdout=stream)
                self.assert_sentence(result, name, "stands for an open file", "the name of a new or a regular file is accepted")
            self.assertEqual(log.read_text(), "what was there\n")
        with open(self.directory / "deleted.npy", "w") as stream:
            os.unlink(stream.name)
            self.refuse("--out", f"/proc/self/fd/{stream.fileno()}", pass_fds=[stream.fileno()], parts=["stands for an open file"])

    def test_a_file_that_is_replaced_stays_open_to_the_same_people(self):
        self.out.write_text("old")
        self.out.chmod(0o600)
        self.run_command(*self.score, "--out", self.out)
        self.assertEqual(self.out.stat().st_mode & 0o777, 0o600)

    def test_a_stderr_that_cannot_be_written_stops_nothing(self):
        with open("/dev/full", "w") as full:
            self.run_command(*self.score, "--out", self.out, stderr=full)
            self.run_command("score", code=2, stderr=full)
        self.assertEqual(self.out.stat().st_size, 168)
        read, write = os.pipe()
        os.close(read)
        signal_code = self.run_command("score", code=-signal.SIGPIPE, stderr=write).returncode  # as other commands end
        os.close(write)
        self.assertEqual(signal_code, -signal.SIGPIPE)


@unittest.skipIf(why_not(), why_not())
class OtherUsersTest(UserTest):
    def test_a_directory_of_someone_else(self):
        q = write_npy(self.directory / "q.npy", "<f4", (1, 1, 16), [1.0] * 16)
        result = self.run_as(USER, "score", "--device", "cpu", "--q", q, "--d", q, "--out", self.directory / "o.npy", code=1)
        self.assert_sentence(result, self.directory / "o.npy", "cannot be written", "Permission denied")

    def test_a_file_that_may_not_be_read(self):
        q = write_npy(self.directory / "q.npy", "<f4", (1, 1, 16), [1.0] * 16)
        os.chmod(q, 0o600)
        result = self.run_as(USER, "score", "--device", "cpu", "--q", q, "--d", q, code=1)
        self.assert_sentence(result, q, "Permission denied")
        result = self.run_as(USER, "warm", "--manifest", q, "--arch", "sm_90a", code=1)
        self.assert_sentence(result, q, "Permission denied")


if __name__ == "__main__":
    main(__doc__)
