#!/usr/bin/env python3
"""reploid-verify against the system's own sha256sum: the same cases to both; output, messages and status must be equal.

usage: differential.py REPLOID-VERIFY [SEED]      last line: N passed, N failed, N skipped
"""
import hashlib
import os
import pty
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile

verify = os.path.abspath(sys.argv[1])
rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
theirs = shutil.which("sha256sum")
passed, failed = 0, 0

NAMES = [b"plain", b"two words", b" lead", b"*star", b"tab\there", b"new\nline", b"car\rriage", b"back\\slash", b"quote'd", b'dq"',
    b"d$x", b"colon:x", b"#hash", b"~tilde", b"-dash", b"(paren)", b"SHA256 (x) = y", b"\xc3\xa9t\xc3\xa9", b"\xff\xfe", b"trail ",
    b"trail\n", b"\\n", b"\\", b"both'\"", b"a'b\nc", b"ctl\x01\x02x", b"\x7f", b"\xc2\x85", b"empty", b"a]b{c}", b"{", b"a=b", b"eq?"]


def normal(text, *names):
    """Messages with one name for the program; sha256sum calls itself by its path or by the last part of it."""
    for name in names:
        text = re.sub(rb"(?m)^" + re.escape(name) + rb": ", b"PROGRAM: ", text).replace(b"'" + name + b" --help'", b"'PROGRAM --help'")
    return text


def escapes_in_reports():
    """Since coreutils 9.2 reports of -c escape backslashes and carriage returns, before only newlines."""
    with open("b\\s", "w"):
        pass
    text = b"\\" + hashlib.sha256(b"").hexdigest().encode() + b"  b\\\\s\n"
    return subprocess.run([theirs, "-c"], input=text, capture_output=True).stdout == b"\\b\\\\s: OK\n"


def ends_at_nul():
    """Older versions take a NUL after the digest of a BSD line for the end of the line; that is refused by newer ones and by us."""
    text = b"SHA256 (b\\s) = " + hashlib.sha256(b"").hexdigest().encode() + b"\0x\n"
    return subprocess.run([theirs, "-c"], input=text, capture_output=True).returncode == 0


def as_before(text):
    """Our reports as an older sha256sum would have them."""
    lines = text.split(b"\n")
    for i, one in enumerate(lines):
        pairs = re.findall(rb"\\(.)", one[1:])
        if one.startswith(b"\\") and b"n" not in pairs:
            lines[i] = re.sub(rb"\\(.)", lambda m: b"\r" if m.group(1) == b"r" else m.group(1), one[1:])
    return b"\n".join(lines)


def as_nobody():
    os.setgid(65534)
    os.setuid(65534)


def run(command, args, stdin, env, nobody):
    r = subprocess.run(command + args, input=stdin, capture_output=True, env=env, timeout=60,
        preexec_fn=as_nobody if nobody and os.getuid() == 0 else None)
    return r.returncode, r.stdout, r.stderr


def case(label, args, stdin=b"", locale="C.UTF-8", nobody=False):
    global passed, failed
    env = {"PATH": os.environ["PATH"], "LC_ALL": locale, "HOME": "/nonexistent"}
    check = any(a == b"--check" or re.fullmatch(rb"-[a-z]*c[a-z]*", a) for a in args)
    want = run([theirs], args, stdin, env, nobody)
    got = run([verify] if check else [verify, b"--print"], args, stdin, env, nobody)
    want = (want[0], want[1], normal(want[2], theirs.encode(), b"sha256sum"))
    got = (got[0], as_before(got[1]) if check and not new_reports else got[1], normal(got[2], b"reploid-verify"))
    if want == got:
        passed += 1
        return
    failed += 1
    if failed <= 25:
        print(f"FAIL {label}: {args} stdin {stdin[:200]!r} {locale}\n  sha256sum      {want}\n  reploid-verify {got}")


def escaped(name):
    out = name.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
    return (b"\\" if out != name else b"", out)


def line(form, name, digest):
    lead, shown = escaped(name)
    if form == "gnu":
        return lead + digest + b"  " + shown
    if form == "star":
        return lead + digest + b" *" + shown
    if form == "reversed":
        return lead + digest + b" " + shown
    return lead + b"SHA256 (" + shown + b") = " + digest


def mutate(text):
    choice = rng.randrange(22)
    at = rng.randrange(len(text) + 1)
    if choice == 0:
        return text[:at] + bytes([rng.randrange(1, 256)]) + text[at:]
    if choice == 1:
        return text[:at] + text[at + 1:]
    if choice == 2:
        return text[:at]
    if choice == 3:
        return b" \t " + text
    if choice == 4:
        return b"\\" + text
    if choice == 5:
        return text.upper()
    if choice == 6:
        return text + b"\r"
    if choice == 7:
        return b"# " + text
    if choice == 8:
        return text.replace(b"SHA256", rng.choice([b"SHA1", b"MD5", b"SHA256 ", b"sha256", b"SHA2-256", b"SHA512"]))
    if choice == 9:
        return text.replace(b" (", b"(").replace(b") = ", rng.choice([b")=", b")\t=\t", b") == ", b") ="]))
    if choice == 10:
        return text.replace(b"  ", rng.choice([b" ", b"\t", b"   ", b" \t", b"\t*"]), 1)
    if choice == 11:
        return text + rng.choice([b" ", b"  x", b"\\", b"\0", b"\0x"])
    if choice == 12:
        return text[:at] + b"\0" + text[at:]
    if choice == 13:
        return b""
    if choice == 14:
        return re.sub(rb"[0-9a-f]{64}", lambda m: m.group(0)[:rng.randrange(60, 64)], text)
    if choice == 15:
        return re.sub(rb"[0-9a-f]{64}", lambda m: m.group(0) + b"0", text)
    return text


def lists(files):
    digests = {name: hashlib.sha256(data).hexdigest().encode() for name, data in files.items()}
    for number in range(420):
        forms = rng.choice([["gnu"], ["bsd"], ["gnu", "bsd"], ["reversed"], ["gnu", "star", "bsd", "reversed"], ["star"]])
        lines = []
        for _ in range(rng.randrange(0, 9)):
            name = rng.choice(list(files) + [b"missing", b"miss ing\n", b"folder", b"-"] * (rng.random() < 0.4))
            digest = digests.get(name, b"0" * 64)
            if rng.random() < 0.15:
                digest = b"f" * 64
            text = line(rng.choice(forms), name, digest)
            changed = mutate(text) if rng.random() < 0.35 else text
            lines.append(text if old_nul and b"\0" in changed and b"(" in changed else changed)
        end = rng.choice([b"\n", b"\n", b"\n", b"\r\n"])
        data = end.join(lines) + (end if rng.random() < 0.8 else b"")
        options = [o for o in (b"--ignore-missing", b"--quiet", b"--status", b"--strict", b"-w", b"--warn") if rng.random() < 0.25]
        rng.shuffle(options)
        if rng.random() < 0.5:
            with open("list", "wb") as f:
                f.write(data)
            case(f"list {data!r}", [rng.choice([b"-c", b"--check"])] + options + [b"list"], locale=rng.choice(["C", "C.UTF-8"]))
        else:
            case("list on stdin", [b"-c"] + options + rng.choice([[], [b"-"]]), stdin=data)


def sums(files):
    names = list(files)
    for number in range(120):
        some = [rng.choice(names + [b"missing", b"folder", b"mis sing", b"-", b""]) for _ in range(rng.randrange(0, 6))]
        options = [o for o in (b"--tag", b"-b", b"-t", b"-z", b"--zero", b"--text", b"--binary") if rng.random() < 0.2]
        case("sums", options + [b"--"] + some, stdin=b"standard input", locale=rng.choice(["C", "C.UTF-8"]))
    for name in names:
        for locale in ("C", "C.UTF-8"):
            case("each name", [b"--", name, name + b".no"], locale=locale)
            case("each name, tag", [b"--tag", b"--", name], locale=locale)
            case("list of a strange name", [b"-c", b"--", name + b".no"], locale=locale)


def fixed(files):
    digest = hashlib.sha256(files[b"plain"]).hexdigest().encode()
    good = digest + b"  plain\n"
    case("empty list", [b"-c", b"empty"])
    case("empty standard input", [b"-c"])
    case("missing list", [b"-c", b"nowhere"])
    case("missing and good list", [b"-c", b"nowhere", b"good"])
    case("folder as a list", [b"-c", b"folder"])
    case("several lists", [b"-c", b"good", b"bad", b"good"])
    case("formats do not mix across lists", [b"-c", b"good", b"reversed", b"good"])
    case("formats do not mix across lists", [b"-c", b"reversed", b"good"])
    for options in ([b"--ignore-missing"], [b"--ignore-missing", b"--quiet"], [b"--ignore-missing", b"--status"], [b"--ignore-missing", b"-w"]):
        case("nothing but missing files", [b"-c"] + options, stdin=b"0" * 64 + b"  gone\n")
        case("missing and good", [b"-c"] + options, stdin=b"0" * 64 + b"  gone\n" + good)
    for option in (b"--ignore-missing", b"--quiet", b"--status", b"--strict", b"--warn", b"-w"):
        case("only for lists", [option, b"plain"])
    for option in (b"--tag", b"-b", b"-t", b"--binary", b"--text", b"-z", b"--zero"):
        case("not for lists", [option, b"-c", b"good"])
    case("tag and text", [b"--tag", b"--text", b"plain"])
    for order in ([b"--quiet", b"--status"], [b"--status", b"--quiet"], [b"-w", b"--status"], [b"--status", b"-w"], [b"--quiet", b"--warn"],
            [b"--warn", b"--quiet"], [b"-cw"], [b"--quiet", b"-wc"]):
        case("the last of three", order + [b"-c", b"mixed"])
    case("unreadable file", [b"--", b"unreadable", b"plain"], nobody=True)
    case("unreadable in a list", [b"-c"], stdin=digest + b"  unreadable\n" + good, nobody=True)
    case("unreadable, ignored only when missing", [b"-c", b"--ignore-missing"], stdin=digest + b"  unreadable\n" + good, nobody=True)
    case("unreadable list", [b"-c", b"unreadable"], nobody=True)
    case("a list names standard input", [b"-c", b"dash"], stdin=files[b"plain"])
    case("a list on standard input names it", [b"-c"], stdin=digest + b"  -\n" + good)
    case("standard input twice", [b"-", b"plain", b"-"], stdin=b"once")
    case("a folder", [b"folder", b"plain"])
    for path in (b"/sys/kernel/mm/transparent_hugepage/enabled", b"/proc/version", b"/dev/null"):
        if os.path.exists(path):
            case("a file of another size than it claims", [path, b"plain"])
    case("a path below a file", [b"plain/x"])
    case("a name that is too long", [b"x" * 300, b"plain"])
    case("a loop of links", [b"loop"])
    case("long line", [b"-c", b"--warn"], stdin=b"0" * 64 + b"  " + b"y" * 5000 + b"\n" + good)
    case("many lines", [b"-c"], stdin=good * 5000)
    case("many files", [b"plain"] * 3000)


def terminal():
    """The end of input typed once ends it."""
    def typed(command):
        pid, fd = pty.fork()
        if pid == 0:
            signal.alarm(30)
            os.execv(command[0], command)
        os.write(fd, b"some text\n\x04")
        shown = b""
        while True:
            try:
                got = os.read(fd, 1000)
            except OSError:
                break
            if not got:
                break
            shown += got
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown

    global passed, failed
    ours, want = typed([verify, "--print"]), typed([theirs])
    passed += ours == want
    failed += ours != want
    if ours != want:
        print(f"FAIL a terminal: {ours!r}, expected {want!r}")


def main():
    global new_reports, old_nul
    work = tempfile.mkdtemp()
    os.chdir(work)
    new_reports = escapes_in_reports()
    old_nul = ends_at_nul()
    os.chmod(work, 0o755)
    files = {name: rng.randbytes(rng.randrange(0, 3000)) for name in NAMES}
    files[b"empty"] = b""
    files[b"big"] = rng.randbytes(3 << 20)
    for name, data in files.items():
        with open(name, "wb") as f:
            f.write(data)
    digest = hashlib.sha256(files[b"plain"]).hexdigest()
    os.mkdir("folder")
    os.symlink("loop", "loop")
    for name, text in (("good", f"{digest}  plain\n"), ("bad", "1" * 64 + "  plain\n"), ("reversed", f"{digest} plain\n"), ("dash", f"{digest}  -\n"),
            ("mixed", f"{digest}  plain\nrubbish\n{'2' * 64}  plain\n{digest}  gone\n"), ("unreadable", f"{digest}  plain\n")):
        with open(name, "w") as f:
            f.write(text)
    os.chmod("unreadable", 0)
    try:
        fixed(files)
        sums(files)
        lists(files)
        terminal()
    finally:
        os.chdir("/")
        shutil.rmtree(work)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed != 0


sys.exit(main())
