"""What the network tests share: a folder, a server and runs of reploid-fetch for each test, and the runner."""
import concurrent.futures
import contextlib
import filecmp
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

from server import Server

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.path.join(ROOT, os.environ.get('BIN', 'bin'))
FETCH = os.path.join(BIN, 'reploid-fetch')
SANITIZED = 'san-' in BIN
MIB = 1 << 20
PIECE = 4 * MIB  # of files without an index
MEMORY_LIMIT = 64 * MIB
KILLS = int(os.environ.get('KILLS', 12))

# Exit codes (reploid-exit.7).
OK, FAIL, USAGE, NOT_FOUND, READ, WRITE, DISK_FULL, FORMAT, UNSUPPORTED, MODEL = 0, 1, 2, 3, 4, 5, 6, 10, 11, 12
HASH, NETWORK, AUTH, CHANGED, RANGE, OFFLINE = 20, 30, 31, 32, 33, 34
CANCELLED = 130

tests = []
peak = [0, '']  # most memory of any run, and whose


class Skip(Exception):
    """The test cannot run here; why."""


def test(function):
    tests.append(function)
    return function


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def same(got, wanted, what):
    check(got == wanted, f'{what}: {got!r}, expected {wanted!r}')


class Data:
    """Files of random bytes, made once: small has one piece, medium 3, big 11."""

    def __init__(self, folder):
        self.folder = folder
        os.mkdir(folder)
        self.small, self.medium, self.big = (self.make(n, size) for n, size in
            (('small', 1000003), ('medium', 2 * PIECE + MIB + 7), ('big', 10 * PIECE + 123)))
        self.other = self.make('other', 2 * PIECE + MIB + 7)  # as large as medium

    def make(self, name, size):
        path, rng = os.path.join(self.folder, name), random.Random(name)
        with open(path, 'wb') as f:
            for at in range(0, size, MIB):
                f.write(rng.randbytes(min(MIB, size - at)))
        return path


def sha256(path):
    digest = hashlib.sha256()
    with open(path, 'rb') as f:
        while block := f.read(MIB):
            digest.update(block)
    return digest.hexdigest()


class Result:
    def __init__(self, status, out, err, seconds):
        self.status, self.out, self.err, self.seconds = status, out, err, seconds

    def ends(self, status, text=''):
        """The run ended with this code, and its messages hold the text."""
        check(self.status == status and text in self.err, f'ended with {self.status}, expected {status} and {text!r} in: {self.err[-1500:]!r}')
        check(not any(w in self.err.lower() for w in ('sanitizer', 'assert', 'abort', 'segmentation')), f'a crash: {self.err[-1500:]}')
        if status not in (OK, CANCELLED):
            same(self.err.count('reploid-fetch: error: '), 1, f'error messages in {self.err[-1500:]!r}')
        return self


class Lab:
    def __init__(self, name, data, work):
        self.name, self.data = name, data
        self.dir = os.path.join(work, name)
        os.mkdir(self.dir)
        self.out = os.path.join(self.dir, 'out')  # where files are fetched to
        self.store = os.path.join(self.dir, 'store')
        os.mkdir(self.out)
        self.stack = contextlib.ExitStack()
        self._server = None
        self.env = {'PATH': os.environ['PATH'], 'HOME': os.path.join(self.dir, 'home'), 'REPLOID_HOME': self.store, 'LC_ALL': 'C.UTF-8',
            'TERM': 'dumb', 'ASAN_OPTIONS': 'detect_leaks=1'}
        os.mkdir(self.env['HOME'])
        self.count = 0

    @property
    def server(self):
        if not self._server:
            self._server = self.new_server()
        return self._server

    def new_server(self, tls=None):
        return self.stack.enter_context(Server(tls))

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def target(self, name='file'):
        return os.path.join(self.out, name)

    def start(self, *args, env=None, command=(), stdin=subprocess.DEVNULL):
        self.count += 1
        names = [self.path(f'{self.count}.{end}') for end in ('stdout', 'stderr')]
        with open(names[0], 'wb') as out, open(names[1], 'wb') as err:
            p = subprocess.Popen([*command, FETCH, *map(str, args)], stdin=stdin, stdout=out, stderr=err, cwd=self.dir,
                env=dict(self.env, **(env or {})))
        p.names, p.begun = names, time.monotonic()
        threading.Thread(target=self.watch_memory, args=(p.pid, f'{self.name}: {" ".join(map(str, args))}'), daemon=True).start()
        return p

    @staticmethod
    def watch_memory(pid, shown):
        """The kernel's mark of the most memory. (That of getrusage begins with what this process had when it forked.)"""
        with contextlib.suppress(OSError):
            while True:
                with open(f'/proc/{pid}/status') as f:
                    mark = [line for line in f if line.startswith('VmHWM:')]
                if not mark:
                    return  # over, but not yet waited for
                used = int(mark[0].split()[1]) * 1024
                with open(f'/proc/{pid}/comm') as f:
                    own = f.read().startswith('reploid-fetch')  # before exec it is a copy of this process
                if own and used > peak[0]:
                    peak[:] = used, shown
                time.sleep(0.01)

    def end(self, p, limit=150):
        """Wait for it; a run that does not end is a failure."""
        hung = []
        timer = threading.Timer(limit, lambda: (hung.append(1), p.kill()))
        timer.start()
        _, status = os.waitpid(p.pid, 0)
        timer.cancel()
        p.returncode = os.waitstatus_to_exitcode(status)
        out, err = (open(n, encoding='utf-8').read() for n in p.names)
        check(not hung, f'still running after {limit} s: {err[-1500:]}')
        return Result(p.returncode, out, err, time.monotonic() - p.begun)

    def fetch(self, *args, **more):
        return self.end(self.start(*args, **more))

    def get(self, url, *args, file=None, **more):
        """Fetch to the target; with a file: it must come out right."""
        result = self.fetch(url, '-o', self.target(), *args, **more)
        if file:
            result.ends(OK)
            same(result.out, self.target() + '\n', 'standard output')
            self.right(file)
        return result

    def right(self, file, target=None):
        """The target is the file, and nothing else is in its folder."""
        target = target or self.target()
        check(filecmp.cmp(target, file, False), f'{os.path.basename(target)} has the wrong bytes')
        same(sorted(os.listdir(os.path.dirname(target))), [os.path.basename(target)], 'files beside the target')

    def absent(self, target=None):
        check(not os.path.lexists(target or self.target()), 'the file has its name although it is not right')

    def verified(self, name='file'):
        """Pieces that the journal says are there: 64 bytes of head, then 40 a piece, zeros when it is missing."""
        found = set()
        for journal in os.listdir(self.out):
            if journal.startswith(name + '.') and journal.endswith('.journal'):
                with open(os.path.join(self.out, journal), 'rb') as f:
                    f.seek(64)
                    records = f.read()
                found |= {i for i in range(len(records) // 40) if any(records[40 * i:40 * i + 32])}
        return found

    def fetched(self, hits, piece=PIECE):
        """Pieces that requests asked for (the one byte of the first request is none)."""
        return {i for h in hits if h.first is not None and not h.is_probe and h.status in (200, 206)
            for i in range(h.first // piece, (h.last if h.last is not None else h.first + h.sent - 1) // piece + 1)}

    def kill_when(self, p, condition, number=signal.SIGKILL):
        """Send the signal as soon as the condition holds; False: the run was over first."""
        while not condition():
            if os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                return False
            time.sleep(0.002)
        os.kill(p.pid, number)  # Popen.send_signal would reap a process that is over
        return True

    def close(self):
        self.stack.close()


def certificate(folder):
    """A key and a certificate of its own signing for 127.0.0.1 and localhost."""
    key, cert = os.path.join(folder, 'key.pem'), os.path.join(folder, 'cert.pem')
    if not shutil.which('openssl'):
        raise Skip('openssl is not installed')
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj', '/CN=test',
        '-addext', 'subjectAltName=IP:127.0.0.1,DNS:localhost', '-keyout', key, '-out', cert], check=True, capture_output=True)
    return key, cert


def own_mounts():
    """A command that runs another where it may mount; Skip when there is none."""
    for command in (['unshare', '-m'], ['unshare', '-rm']):
        with contextlib.suppress(OSError):
            if subprocess.run([*command, 'mount', '-t', 'tmpfs', 'none', '/mnt'], capture_output=True).returncode == 0:
                return command
    raise Skip('mounting needs root or user namespaces')


def run_one(function, data, work):
    name = function.__name__
    lab = Lab(name, data, work)
    try:
        function(lab)
        return 'passed', name, ''
    except Skip as why:
        return 'skipped', name, str(why)
    except AssertionError as why:
        return 'failed', name, str(why)
    except Exception:
        return 'failed', name, traceback.format_exc()
    finally:
        lab.close()
        shutil.rmtree(lab.dir, ignore_errors=True)


def run(wanted, last=()):
    """Run those of the tests whose names hold one of the words (all without any); last: those that must come after the others."""
    counts = {'passed': 0, 'failed': 0, 'skipped': 0}
    if not os.access(FETCH, os.X_OK):
        print(f'FAIL: {FETCH} is not built\n0 passed, 1 failed, 0 skipped')
        return 1
    chosen = [t for t in tests if not wanted or any(w in t.__name__ for w in wanted)]

    def tell(result):
        outcome, name, why = result
        counts[outcome] += 1
        print({'passed': f'ok {name}', 'failed': f'FAIL {name}: {why}', 'skipped': f'SKIP: {name}: {why}'}[outcome], flush=True)

    with tempfile.TemporaryDirectory(prefix='reploid-net-') as work:
        data = Data(os.path.join(work, 'data'))
        with concurrent.futures.ThreadPoolExecutor(int(os.environ.get('NET_JOBS', 6))) as pool:
            for result in concurrent.futures.as_completed([pool.submit(run_one, t, data, work) for t in chosen if t not in last]):
                tell(result.result())
        for t in chosen:
            if t in last:
                tell(run_one(t, data, work))
    print(f'{counts["passed"]} passed, {counts["failed"]} failed, {counts["skipped"]} skipped')
    return counts['failed'] > 0


if __name__ == '__main__':
    sys.exit('run tests/net/run')
