"""Runs that are killed, that share the work, that find things changed; what they say and how much memory they take."""
import json
import os
import random
import shutil
import signal
import threading
import time

import lab as base
from http_cases import but_the_first, partial
from lab import CANCELLED, HASH, KILLS, MEMORY_LIMIT, MIB, OK, PIECE, check, same, sha256, test


def rate(mib):
    return lambda hit: {} if hit.is_probe else {'rate': int(mib * MIB)}


def until(pieces, gate=None):
    """Nothing comes of what follows the first pieces before the gate is open."""
    gate = gate or threading.Event()
    return lambda hit: {} if hit.is_probe else {'hold': (max(0, pieces * PIECE - (hit.first or 0)), gate)}


# ---- kills ----

@test
def killed_at_random_moments(lab):
    """Verified pieces are never lost and never fetched again, whenever the program dies; the bytes are right in the end."""
    seed = int(os.environ.get('SEED', time.time_ns() % 1000000))
    rng, killed, finished = random.Random(seed), 0, 0
    url, digest = lab.server.share('/f', lab.data.big), sha256(lab.data.big)
    while killed < KILLS:
        lab.server.shares['/f'].rules = rng.choice([rate(4), rate(20), None])
        have = lab.verified()
        lab.server.forget()
        p = lab.start(url, '-o', lab.target(), '-j', rng.choice([1, 3, 8]), '--sha256', digest)
        time.sleep(rng.random() ** 2 * 0.8)
        os.kill(p.pid, signal.SIGKILL)
        ended = lab.end(p).status
        same(lab.fetched(lab.server.hits('/f')) & have, set(), f'verified pieces that were fetched again (SEED={seed})')
        if ended == -signal.SIGKILL:
            killed += 1
        else:
            same(ended, OK, f'code (SEED={seed})')
        if os.path.exists(lab.target()):
            lab.get(url, '--sha256', digest, file=lab.data.big)  # also removes what a kill left at the very end
            finished += 1
            os.unlink(lab.target())
            shutil.rmtree(lab.store, ignore_errors=True)
        else:
            same(have - lab.verified(), set(), f'verified pieces that were lost (SEED={seed})')
    lab.server.shares['/f'].rules = None
    lab.get(url, '--sha256', digest, file=lab.data.big)


@test
def interrupted_by_signals(lab):
    """SIGINT and SIGTERM end it in order: the code says so, what is verified stays, no name is given."""
    url = lab.server.share('/f', lab.data.big)
    for number, pieces in ((signal.SIGINT, 4), (signal.SIGTERM, 8)):
        lab.server.shares['/f'].rules = until(pieces)
        have = lab.verified()
        p = lab.start(url, '-o', lab.target(), '-j', 2)
        check(lab.kill_when(p, lambda: len(lab.verified()) > len(have) + 1, number), 'the run was over first')
        lab.end(p).ends(CANCELLED)
        lab.absent()
        check(len(lab.verified()) > len(have), 'verified pieces were lost')
    lab.server.shares['/f'].rules = None
    lab.get(url, file=lab.data.big)


# ---- several at once ----

@test
def two_at_once(lab):
    url = lab.server.share('/f', lab.data.big, rate(4))
    runs = [lab.start(url, '-o', lab.target(), '-j', 2) for _ in range(2)]
    for p in runs:
        same(lab.end(p).ends(OK).out, lab.target() + '\n', 'standard output')
    lab.right(lab.data.big)
    size = os.path.getsize(lab.data.big)
    # where they meet, each may fetch what the other has in flight
    check(lab.server.sent('/f') <= size + 5 * PIECE, f'{lab.server.sent("/f")} bytes were sent for a file of {size}')


@test
def two_at_once_and_one_dies(lab):
    gate = threading.Event()
    url = lab.server.share('/f', lab.data.big, until(4, gate))
    first, second = (lab.start(url, '-o', lab.target(), '-j', 2) for _ in range(2))
    check(lab.kill_when(first, lambda: len(lab.verified()) >= 3), 'the run was over first')
    lab.end(first)
    gate.set()
    lab.end(second).ends(OK)
    lab.right(lab.data.big)


@test
def six_at_once(lab):
    """All succeed, whichever gives the file its name."""
    url = lab.server.share('/f', lab.data.medium)
    runs = [lab.start(url, '-o', lab.target()) for _ in range(6)]
    for p in runs:
        lab.end(p).ends(OK)
    lab.right(lab.data.medium)


# ---- what lies there already ----

def part(lab, end='.part'):
    return os.path.join(lab.out, next(n for n in os.listdir(lab.out) if n.endswith(end)))


def flip(path, at):
    with open(path, 'r+b') as f:
        f.seek(at)
        byte = f.read(1)
        f.seek(at)
        f.write(bytes([byte[0] ^ 1]))


@test
def journal_is_garbage(lab):
    url, digest = lab.server.share('/f', lab.data.medium), sha256(lab.data.medium)
    for damage in (b'', b'x' * 5, random.Random(1).randbytes(64 + 3 * 40), b'rpjrnl1\n' + random.Random(2).randbytes(56 + 3 * 40)):
        partial(lab, lab.server.shares['/f'], 1, '--sha256', digest)
        with open(part(lab, '.journal'), 'wb') as f:
            f.write(damage)
        lab.get(url, '--sha256', digest, file=lab.data.medium)
        shutil.rmtree(lab.store)
        os.unlink(lab.target())
        lab.server.forget()


@test
def part_was_truncated(lab):
    """Records of bytes that are gone do not count."""
    url = lab.server.share('/f', lab.data.medium)
    partial(lab, lab.server.shares['/f'], 2)
    os.truncate(part(lab), PIECE + 5)
    lab.get(url, file=lab.data.medium)


@test
def part_was_copied(lab):
    """Another file under its name: pieces are read and compared, those that are right are kept."""
    url = lab.server.share('/f', lab.data.big)
    have = partial(lab, lab.server.shares['/f'], 3)
    shutil.copyfile(part(lab), lab.path('copy'))
    flip(lab.path('copy'), PIECE + 77)
    os.replace(lab.path('copy'), part(lab))
    lab.get(url, file=lab.data.big)
    same(lab.fetched(lab.server.hits('/f')) & have, {1}, 'pieces of the copy that were fetched again')


@test
def part_has_rotted(lab):
    """Damaged behind the program's back: found by the hash of the whole, and a later run brings it right."""
    url, digest = lab.server.share('/f', lab.data.medium), sha256(lab.data.medium)
    partial(lab, lab.server.shares['/f'], 2, '--sha256', digest)
    flip(part(lab), 77)
    r = lab.get(url, '--sha256', digest)
    if r.status != OK:
        r.ends(HASH)
        lab.absent()
        lab.get(url, '--sha256', digest)
    lab.right(lab.data.medium)


@test
def file_is_there_and_another(lab):
    """A file that has the name already is replaced in one step, and only by a right one."""
    shutil.copyfile(lab.data.small, lab.target())
    lab.get(lab.server.share('/f', lab.data.medium, but_the_first({'status': 500})), '--retries', 0)
    check(sha256(lab.target()) == sha256(lab.data.small), 'the old file is gone although there is no new one')
    lab.server.shares['/f'].rules = None
    lab.get(lab.server.url + '/f', file=lab.data.medium)


@test
def into_the_store(lab):
    """Without -o: models/ID/NAME below the store, and the path is all that is printed."""
    r = lab.fetch(lab.server.share('/dir/Tiny-Model.gguf', lab.data.small)).ends(OK)
    path = r.out.rstrip('\n')
    check(path.startswith(lab.store + '/models/') and path.endswith('/Tiny-Model.gguf'), f'path: {path}')
    lab.right(lab.data.small, path)


# ---- what is said ----

@test
def json_events(lab):
    url = lab.server.share('/f', lab.data.big, rate(8))
    r = lab.get(url, '--json').ends(OK)
    events = [json.loads(line) for line in r.out.splitlines()]
    same({e['schema'] for e in events}, {'reploid-fetch/1'}, 'schemas')
    same([e['type'] for e in events if e['type'] in ('file', 'done')], ['file', 'done'], 'the last events')
    same(events[-1]['path'], lab.target(), 'path')
    progress = [e for e in events if e['type'] == 'progress']
    check(progress, 'no progress')
    same(progress[-1]['verified'], os.path.getsize(lab.data.big), 'bytes verified at the end')
    same([e['verified'] for e in progress], sorted(e['verified'] for e in progress), 'bytes verified, as they grow')


@test
def json_errors(lab):
    r = lab.get(lab.server.share('/f', lab.data.small, [{'status': 404}]), '--json')
    last = json.loads(r.out.splitlines()[-1])
    same((last['type'], last['code'], last['exit'], r.status), ('error', 'not-found', 3, 3), 'the last event')


@test
def quiet_is_quiet(lab):
    r = lab.get(lab.server.share('/f', lab.data.medium, but_the_first({'reset': 1000}, 2)), '-q', file=lab.data.medium)
    same(r.err, '', 'standard error')


@test
def plain_lines_where_nothing_can_be_redrawn(lab):
    r = lab.get(lab.server.share('/f', lab.data.medium, but_the_first({'reset': 1000}, 1)), file=lab.data.medium)
    check('\r' not in r.err and '\033' not in r.err, f'control characters: {r.err!r}')
    check(all(line.startswith('reploid-fetch: ') for line in r.err.splitlines()), f'lines without a name: {r.err!r}')


# ---- memory ----

@test
def memory_is_bounded(lab):
    """The most that any run took, and one with a larger file than all: runs after the others."""
    if base.SANITIZED:
        raise base.Skip('sanitizers take memory of their own')
    large = lab.path('large')
    with open(large, 'wb') as f:
        f.truncate(256 * MIB)
    lab.get(lab.server.share('/f', large), '-j', 32, file=large)
    check(base.peak[0] < MEMORY_LIMIT, f'{base.peak[0]} bytes by {base.peak[1]}')
    print(f'peak memory: {base.peak[0] / MIB:.1f} MiB')


last = [memory_is_bounded]
