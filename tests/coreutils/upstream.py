#!/usr/bin/env python3
"""Run coreutils' own tests of its sum programs with another sha256sum. Those for md5sum test what all of them share, so their program,
tag and digests are replaced by those of SHA-256 first.

usage: upstream.py SOURCE WRAPPER WORK     SOURCE: the unpacked package, WRAPPER: a folder with a sha256sum, WORK: an empty folder
last line: N passed, N failed, N skipped
"""
import hashlib
import os
import re
import string
import subprocess
import sys

source, wrapper, work = (os.path.abspath(a) for a in sys.argv[1:4])
KNOWN = ["", "a", "abc", "message digest", string.ascii_lowercase, string.ascii_uppercase + string.ascii_lowercase + string.digits,
    "1234567890" * 8, "9t"]
TESTS = ["sha256sum.pl", "md5sum.pl", "md5sum-newline.pl", "md5sum-bsd.sh", "md5sum-parallel.sh"]


def find(name):
    for folder in ("cksum", "misc"):
        path = os.path.join(source, "tests", folder, name)
        if os.path.exists(path):
            return path
    return None


def translate(text):
    for known in KNOWN:
        data = known.encode()
        text = text.replace(hashlib.md5(data).hexdigest(), hashlib.sha256(data).hexdigest())
    text = re.sub(r"\bMD5( ?\(| checksum)", r"SHA256\1", text)
    return text.replace("md5sum", "sha256sum").replace(r"\{32\}", r"\{64\}")


def run(name, path):
    with open(path, encoding="latin-1") as f:
        text = translate(f.read())
    folder = os.path.join(work, name)
    os.makedirs(os.path.join(folder, "src"))
    os.symlink(os.path.join(wrapper, "sha256sum"), os.path.join(folder, "src", "sha256sum"))
    script = os.path.join(folder, "script-" + name)
    with open(script, "w", encoding="latin-1") as f:
        f.write(text)
    env = {"PATH": wrapper + ":" + os.environ["PATH"], "HOME": folder, "srcdir": source, "top_srcdir": source, "abs_srcdir": source,
        "abs_top_srcdir": source, "abs_top_builddir": folder, "built_programs": "sha256sum", "VERBOSE": "yes", "TMPDIR": folder,
        "CU_TEST_NAME": name, "PERL": "perl", "SHELL": "/bin/bash", "CONFIG_HEADER": "/dev/null", "LC_ALL": "C", "VERSION": "9"}
    if name.endswith(".pl"):
        command = ["perl", "-w", "-I" + source + "/tests", "-MCuSkip", "-MCoreutils", "-MCuTmpdir qw(" + name + ")", script]
    else:
        command = ["bash", "-c", 'exec 9>&2; exec bash "$0"', script]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, errors="replace", timeout=300)


def main():
    passed = failed = skipped = 0
    for name in TESTS:
        path = find(name)
        if path is None:
            print(f"SKIP: this version of coreutils has no {name}")
            skipped += 1
            continue
        r = run(name, path)
        # one test for each case that a Perl script names
        cases = len(re.findall(r"(?m)^[\w-]+\.\.\.$", r.stderr + r.stdout)) or 1
        if r.returncode == 0:
            print(f"ok   coreutils {name} ({cases} cases)")
            passed += cases
        elif r.returncode == 77:
            print(f"SKIP: coreutils {name}: {(r.stdout + r.stderr).strip().splitlines()[-1:]}")
            skipped += 1
        else:
            print(f"FAIL coreutils {name}: status {r.returncode}\n" + (r.stdout + r.stderr)[-3000:])
            failed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed != 0


sys.exit(main())
