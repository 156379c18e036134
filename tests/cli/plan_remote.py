"""reploid-plan --ranges of a model at an address, piped into reploid-fetch --ranges -: only the header and the stage's bytes travel.
usage: plan_remote.py BIN MODEL.gguf WORK       prints "passed NAME" or "failed NAME: why" lines"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'net'))
from server import Server  # noqa: E402

bin_dir, model, work = sys.argv[1:]
plan, fetch = os.path.join(bin_dir, 'reploid-plan'), os.path.join(bin_dir, 'reploid-fetch')
data = open(model, 'rb').read()


def check(name, ok, why=''):
    print(f'passed {name}' if ok else f'failed {name}: {why}')


def run(*args, **more):
    return subprocess.run(args, capture_output=True, text=True, timeout=120, **more)


def ranges_of(text):
    return [tuple(map(int, line.split())) for line in text.splitlines() if line and not line.startswith('#')]


with Server() as server:
    url = server.share('/m.gguf', model)
    local = run(plan, '--ranges', '--stage', '1-1', model)
    remote = run(plan, '--ranges', '--stage', '1-1', url)
    check('remote: the same ranges as of the file', remote.returncode == 0 and remote.stdout == local.stdout, remote.stderr)
    asked = [(h.first, h.last) for h in server.hits('/m.gguf')]
    check('remote: only ranges are asked for', asked and all(first is not None for first, _ in asked), asked)
    server.forget()
    whole = run(plan, '--device', 'tests/golden/devices/h200.json', url)
    file = run(plan, '--device', 'tests/golden/devices/h200.json', model)
    check('remote: a plan from the header alone', whole.returncode == 0 and whole.stdout == file.stdout, whole.stderr)

    ranges = ranges_of(remote.stdout)
    out = os.path.join(work, 'stage.gguf')
    server.forget()
    got = run(fetch, '--ranges', '-', url, '-o', out, input=remote.stdout, env={**os.environ, 'REPLOID_HOME': os.path.join(work, 'store')})
    check('fetch takes the ranges', got.returncode == 0, got.stderr)
    path = got.stdout.strip()
    here = open(path, 'rb').read() if os.path.exists(path) else b''
    check('the bytes of the stage are equal', bool(ranges) and all(here[o:o + n] == data[o:o + n] for o, n in ranges), path)

    server.share('/all', model, [{'ranges': 'ignore'}] * 9)
    check('a server without ranges gives the header too', run(plan, '--ranges', '--stage', '1', server.url + '/all').stdout == remote.stdout)
    refused = run(plan, '--ranges', server.url + '/none')
    check('nothing there', refused.returncode in (3, 30) and 'error' in refused.stderr, (refused.returncode, refused.stderr))
    text = os.path.join(work, 'text')
    open(text, 'w').write('no model\n' * 100)
    other = run(plan, '--ranges', server.share('/text', text))
    check('no GGUF there', other.returncode == 10 and 'is no GGUF file' in other.stderr, other.stderr)
    cut = os.path.join(work, 'cut')
    open(cut, 'wb').write(data[:2000])
    short = run(plan, '--ranges', server.share('/cut', cut))
    check('a cut header', short.returncode == 10 and '/cut: ' in short.stderr, (short.returncode, short.stderr))
gone = run(plan, '--ranges', url)
check('no server', gone.returncode == 30 and 'error' in gone.stderr, (gone.returncode, gone.stderr))
