"""What people see and are asked on a terminal."""
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

from lab import BIN, FETCH, MIB, OK, PIECE, Skip, check, same, test
from models import ID, Model

RUN = os.path.join(BIN, 'reploid-run')
CANCELLED = 130


class Terminal:
    """A program whose standard input and error are a terminal of 100 columns; standard output is a file."""

    def __init__(self, lab, *command, env=None):
        self.lab, self.seen = lab, ''
        self.own, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack('HHHH', 30, 100, 0, 0))
        self.out = lab.path('terminal.stdout')
        with open(self.out, 'wb') as out:
            self.process = subprocess.Popen(command, stdin=other, stderr=other, stdout=out, cwd=lab.dir, start_new_session=True,
                env=dict(lab.env, TERM='xterm', **(env or {})))
        os.close(other)
        lab.stack.callback(self.close)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(OSError):
            os.close(self.own)

    def read_until(self, done, limit=60):
        end = time.monotonic() + limit
        while not done():
            check(time.monotonic() < end, f'waited for {limit} s; seen: {self.seen[-1000:]!r}')
            if select.select([self.own], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.own, 65536).decode(errors='replace')
                except OSError:  # nobody has it open any more
                    return

    def answer(self, question, text):
        self.read_until(lambda: question in self.seen)
        os.write(self.own, text.encode())

    def end(self):
        self.read_until(lambda: self.process.poll() is not None)
        return self.process.wait()

    def printed(self):
        with open(self.out, encoding='utf-8') as f:
            return f.read()


@test
def progress_on_a_terminal(lab):
    """One line that is drawn again and again: share, verified bytes, rate, time left, sources; the path alone on standard output."""
    far = lab.new_server()
    url = lab.server.share('/f', lab.data.big, lambda hit: {} if hit.is_probe else {'rate': 4 * MIB})
    far.share('/g', lab.data.big, lambda hit: {} if hit.is_probe else {'rate': 4 * MIB})
    digest = subprocess.run(['sha256sum', lab.data.big], capture_output=True, text=True, check=True).stdout.split()[0]
    t = Terminal(lab, FETCH, url, '-o', lab.target(), '-j', '2', '--sha256', digest, '--mirror', far.url + '/g')
    same(t.end(), OK, 'code')
    same(t.printed(), lab.target() + '\n', 'standard output')
    lines = [line for line in re.split(r'[\r\n]', t.seen) if 'verified' in line]
    check(len(lines) > 5, f'the line was drawn {len(lines)} times: {t.seen!r}')
    check('\r' in t.seen, 'it was not drawn again in its place')
    for what in (r'\d+%', r'of 40\.0 MiB verified', r'[KM]iB/s', r'\d:\d\d left', r'2 sources'):
        check(any(re.search(what, line) for line in lines), f'{what!r} is in none of {lines[-3:]!r}')
    check(all(len(re.sub(r'\x1b\[[0-9;?]*[A-Za-z]', '', line)) <= 100 for line in lines), 'a line is wider than the terminal')


@test
def gc_asks(lab):
    """What would go is shown; only yes removes it, and complete files stay."""
    url = lab.server.share('/m.gguf', lab.data.medium, lambda hit: {} if hit.is_probe else {'stall': max(0, PIECE - hit.first)})
    p = lab.start(url, '-j', 1)
    folder = os.path.join(lab.store, 'models', 'm')

    def begun():
        return os.path.isdir(folder) and any(n.endswith('.journal') for n in os.listdir(folder))

    check(lab.kill_when(p, begun), 'the run was over first')
    lab.end(p)
    before = sorted(os.listdir(folder))
    for text, code, left in (('n\n', CANCELLED, before), ('\n', CANCELLED, before), ('y\n', OK, [])):
        t = Terminal(lab, FETCH, '--gc')
        t.answer('[y/N]', text)
        same(t.end(), code, f'code of {text!r}')
        check(all(n in t.seen for n in before), f'not all is shown: {t.seen!r}')
        same(sorted(os.listdir(folder)), left, f'files after {text!r}')


@test
def run_asks_before_it_fetches(lab):
    """reploid-run -m ID: no and nothing is asked of the network; yes and it is fetched, with a line of progress; present, and no network."""
    if not os.access(RUN, os.X_OK):
        raise Skip('reploid-run is not built')
    m = Model(lab)
    os.mkdir(lab.path('data'))
    with open(lab.path('data', 'models.json'), 'w') as f:
        json.dump(m.catalog, f)
    env = {'REPLOID_DATA': lab.path('data')}
    command = RUN, '-m', ID, '-p', 'hello', '--device', 'cpu'
    t = Terminal(lab, *command, env=env)
    t.answer('[y/N]', 'n\n')
    same(t.end(), CANCELLED, 'code of no')
    same(lab.server.hits(), [], 'requests after no')
    for name in m.files:
        lab.server.shares['/m/' + name].rules = [{'rate': 2 * MIB}]
    t = Terminal(lab, *command, env=env)
    t.answer('[y/N]', 'y\n')
    t.end()  # the tiny model is none that runs
    m.right()
    check(f'fetching {ID}' in t.seen and 'verified' in t.seen, f'no line of progress: {t.seen!r}')
    lab.server.forget()
    t = Terminal(lab, *command, env=env)
    t.end()
    check('[y/N]' not in t.seen, 'it asks although the model is there')
    same(lab.server.hits(), [], 'requests although the model is there')
