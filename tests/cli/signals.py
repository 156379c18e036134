#!/usr/bin/env python3
"""Send a signal to the program at a known moment and check how it ends.

usage: signals.py reading-INT|generating-TERM|... PROGRAM ARGUMENTS...
"""
import fcntl
import json
import os
import signal
import subprocess
import sys

case, name = sys.argv[1].split('-')
number = getattr(signal, 'SIG' + name)
command = sys.argv[2:] + ['--json']
F_SETPIPE_SZ = 1031


def ignore():
    signal.signal(number, signal.SIG_IGN)


def objects(data):
    return [json.loads(line) for line in data.decode().splitlines()]


if case == 'reading':
    p = subprocess.Popen(command + ['-'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    fcntl.fcntl(p.stdin, F_SETPIPE_SZ, 4096)
    p.stdin.write(b'x' * 100000)  # more than the pipe holds: once it is through, the program is reading
    p.stdin.flush()
    p.send_signal(number)
    out, err = p.communicate(timeout=60)
    last = objects(out)[-1]
    assert last['type'] == 'error' and last['code'] == 'cancelled', last
    assert p.returncode == 130, p.returncode
elif case == 'generating':
    # The program cannot finish before its pipe of one page is drained, which happens after the signal.
    p = subprocess.Popen(command + ['-p', 'hello', '--ignore-eos', '--logprobs', '20'], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    fcntl.fcntl(p.stdout, F_SETPIPE_SZ, 4096)
    first = os.read(p.stdout.fileno(), 10)
    p.send_signal(number)
    out, err = p.communicate(timeout=60)
    all_objects = objects(first + out)
    assert all_objects[-1]['type'] == 'done' and all_objects[-1]['reason'] == 'cancelled', all_objects[-1]
    assert all_objects[0]['type'] == 'token' and 'text' in all_objects[0]
    assert len(all_objects) < 200
    assert p.returncode == 130, p.returncode
elif case == 'ignored':
    # A job that is told to ignore the signal, as nohup and background jobs are, goes on.
    p = subprocess.Popen(command + ['-p', 'hello', '-n', '40', '--ignore-eos', '--logprobs', '20'], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=ignore)
    fcntl.fcntl(p.stdout, F_SETPIPE_SZ, 4096)
    first = os.read(p.stdout.fileno(), 10)
    p.send_signal(number)
    out, err = p.communicate(timeout=60)
    assert objects(first + out)[-1]['reason'] == 'length'
    assert p.returncode == 0, p.returncode
else:
    sys.exit(__doc__)
