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
# Every other test there that names such a program, and why it is not run here.
LEFT_OUT = {r"(b2sum|cksum).*": "tests options of another program", r"(sha(1|224|384|512)|sm3)sum.*": "the digests of another program; its other cases are those of md5sum.pl",
    r"help-version.*": "help and version are those of this toolkit", r"tty-eof\.pl": "all programs at a terminal; differential.py does it for this one",
    r"local\.mk|create-test\.sh|run\.sh|.*\.mk": "no test"}


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


def left_out():
    """Tests that name a program of sums and are not run: told with the reason, and without a known one counted as skipped."""
    unknown = 0
    for folder, _, names in sorted(os.walk(os.path.join(source, "tests"))):
        for name in sorted(names):
            with open(os.path.join(folder, name), encoding="latin-1") as f:
                if name in TESTS or not re.search(r"\b(md5sum|sha\d+sum|b2sum|sm3sum|cksum)\b", f.read()):
                    continue
            why = next((text for form, text in LEFT_OUT.items() if re.fullmatch(form, name)), None)
            unknown += why is None
            print(f"note: not run: {name}: {why}" if why else f"SKIP: coreutils {name} names a program of sums and is not known here")
    return unknown


def main():
    passed = failed = 0
    skipped = left_out()
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
