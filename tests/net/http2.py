"""HTTP/2 as Debian's servers speak it: Apache for ranges and many streams, nghttpd for whole files. Both without root or service."""
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass

from http_cases import known
from lab import MIB, NETWORK, PIECE, Skip, certificate, check, same, test

MODULES = '/usr/lib/apache2/modules'
APACHE = '''ServerRoot {dir}
ServerName localhost
PidFile {dir}/apache.pid
DefaultRuntimeDir {dir}
Mutex fcntl:{dir} default
Listen 127.0.0.1:{port}
{user}LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule env_module {modules}/mod_env.so
LoadModule ratelimit_module {modules}/mod_ratelimit.so
LoadModule ssl_module {modules}/mod_ssl.so
LoadModule http2_module {modules}/mod_http2.so
StartServers 1
ServerLimit 1
ThreadsPerChild 32
MaxRequestWorkers 32
MinSpareThreads 1
MaxSpareThreads 32
GracefulShutdownTimeout 20
Protocols h2 http/1.1
H2MaxSessionStreams {streams}
H2MinWorkers 16
H2MaxWorkers 32
SSLEngine on
SSLCertificateFile {cert}
SSLCertificateKeyFile {key}
DocumentRoot {root}
ErrorLog {dir}/error.log
LogFormat "%H %{{remote}}p %>s %{{begin:usec}}t %{{end:usec}}t %B %{{Range}}i" hits
CustomLog {dir}/hits.log hits
SetOutputFilter RATE_LIMIT
SetEnv rate-limit {rate}
'''


@dataclass
class Hit:
    protocol: str
    client: int  # its port: one a connection
    status: int
    begin: int  # microseconds
    end: int
    sent: int
    range: str

    @property
    def pieces(self):
        first, _, last = self.range.removeprefix('bytes=').partition('-')
        return set(range(int(first) // PIECE, int(last) // PIECE + 1)) if last != '0' else set()


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def wait_for(port, process):
    for _ in range(400):
        with contextlib.suppress(OSError), socket.create_connection(('127.0.0.1', port), 1):
            return
        if process.poll() is not None:
            raise AssertionError(f'the server does not start: {process.stderr.read()}')
        time.sleep(0.025)
    raise AssertionError('the server does not listen')


class Web:
    """A server of others over TLS; f is the file. Started anew as often as wanted."""

    def __init__(self, lab, file):
        self.lab, self.dir, self.process = lab, lab.path('web'), None
        self.key, self.cert = certificate(lab.dir)
        os.makedirs(os.path.join(self.dir, 'root'))
        for folder in (os.path.dirname(lab.dir), lab.dir, self.dir, os.path.join(self.dir, 'root')):
            os.chmod(folder, 0o755)  # as root the server gives up its rights
        shutil.copyfile(file, os.path.join(self.dir, 'root', 'f'))
        os.utime(os.path.join(self.dir, 'root', 'f'), (1700000000, 1700000000))
        self.port = free_port()
        self.url = f'https://127.0.0.1:{self.port}/f'
        self.env = {'CURL_CA_BUNDLE': self.cert}
        lab.stack.callback(self.stop)

    def run(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            start_new_session=True)
        wait_for(self.port, self.process)
        return self

    def stop(self, number=signal.SIGKILL):
        """All its processes; connections end where they are."""
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            self.process.communicate()
            self.process = None

    def get(self, *args, **more):
        return self.lab.get(self.url, *args, env=self.env, **more)

    def start_get(self, *args):
        return self.lab.start(self.url, '-o', self.lab.target(), *args, env=self.env)


class Apache(Web):
    """rate: KiB a second of each stream; streams: most at once that it allows a connection."""

    def __init__(self, lab, file, rate=1000000, streams=100):
        self.program = shutil.which('apache2', path=os.environ['PATH'] + ':/usr/sbin')
        if not self.program or not os.path.exists(MODULES + '/mod_http2.so'):
            raise Skip('apache2 with mod_http2 is not installed (apache2-bin)')
        super().__init__(lab, file)
        self.rate, self.streams = rate, streams
        self.begin()

    def begin(self):
        user = 'User nobody\nGroup nogroup\n' if os.getuid() == 0 else ''
        with open(os.path.join(self.dir, 'apache.conf'), 'w') as f:
            f.write(APACHE.format(dir=self.dir, port=self.port, user=user, modules=MODULES, streams=self.streams, cert=self.cert, key=self.key,
                root=os.path.join(self.dir, 'root'), rate=self.rate))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self.dir, 'apache.pid'))
        return self.run(self.program, '-f', os.path.join(self.dir, 'apache.conf'), '-DFOREGROUND')

    def hits(self):
        """Requests that came to an end, without the first byte's."""
        with contextlib.suppress(FileNotFoundError), open(os.path.join(self.dir, 'hits.log')) as f:
            rows = [line.split() for line in f if line.endswith('\n')]
            return [h for h in (Hit(p, int(c), int(s), int(b), int(e), int(n), r) for p, c, s, b, e, n, r in rows) if h.range != 'bytes=0-0']
        return []


class Nghttpd(Web):
    """It knows no ranges: the whole file each time."""

    def __init__(self, lab, file):
        if not shutil.which('nghttpd'):
            raise Skip('nghttpd is not installed (nghttp2-server)')
        super().__init__(lab, file)
        self.begin()

    def begin(self):
        return self.run('nghttpd', '-a', '127.0.0.1', '-d', os.path.join(self.dir, 'root'), str(self.port), self.key, self.cert)


def most_at_once(hits):
    """Of requests that were answered at the same time."""
    edges = sorted([(h.begin, 1) for h in hits] + [(h.end, -1) for h in hits])
    most = now = 0
    for _, step in edges:
        now += step
        most = max(most, now)
    return most


def all_http2(hits):
    same({h.protocol for h in hits}, {'HTTP/2.0'}, 'protocols')


# ---- ranges and streams ----

@test
def http2_one_stream_a_connection(lab):
    """Unless told otherwise each of -j N has a TCP connection of its own."""
    web = Apache(lab, lab.data.big, rate=4096)
    web.get('-j', 4, file=lab.data.big)
    hits = web.hits()
    all_http2(hits)
    same({h.status for h in hits}, {206}, 'statuses')
    check(len({h.client for h in hits}) >= 4, f'{len({h.client for h in hits})} connections with -j 4')


@test
def http2_streams_in_one_connection(lab):
    web = Apache(lab, lab.data.big, rate=4096)
    web.get('-j', 4, '--streams', 4, file=lab.data.big)
    hits = web.hits()
    all_http2(hits)
    check(len({h.client for h in hits}) <= 2, f'{len({h.client for h in hits})} connections where one is enough')
    check(most_at_once(hits) >= 2, 'never two streams at once')


@test
def http2_streams_in_two_connections(lab):
    web = Apache(lab, lab.data.big, rate=4096)
    web.get('-j', 4, '--streams', 2, file=lab.data.big)
    hits = web.hits()
    all_http2(hits)
    check(2 <= len({h.client for h in hits}) <= 3, f'{len({h.client for h in hits})} connections with -j 4 and 2 streams each')


@test
def http2_server_that_allows_few_streams(lab):
    """The server's limit counts, whatever --streams says: there are more connections then."""
    web = Apache(lab, lab.data.big, rate=4096, streams=2)
    web.get('-j', 6, '--streams', 6, file=lab.data.big)
    hits = web.hits()
    all_http2(hits)
    check(len({h.client for h in hits}) >= 2, 'one connection for six transfers, and two streams allowed')


@test
def http2_streams_and_a_rate(lab):
    """Streams that wait for the allowance do not stop the connection for ever."""
    web = Apache(lab, lab.data.medium)
    web.get('-j', 3, '--streams', 3, '--limit-rate', '6M', *known(lab.data.medium), file=lab.data.medium)
    all_http2(web.hits())


@test
def http2_streams_are_for_http2(lab):
    """A server that speaks only HTTP/1.1, with and without TLS: a connection each, as ever."""
    lab.get(lab.server.share('/f', lab.data.medium), '-j', 4, '--streams', 4, file=lab.data.medium)
    os.unlink(lab.target())
    key, cert = certificate(lab.dir)
    server = lab.new_server((key, cert))
    lab.get(server.share('/f', lab.data.medium), '-j', 4, '--streams', 4, env={'CURL_CA_BUNDLE': cert}, file=lab.data.medium)


# ---- connections that end ----

@test
def http2_goaway(lab):
    """The server is told to stop in order: it says GOAWAY, ends what runs, and another one takes its place."""
    web = Apache(lab, lab.data.big, rate=2048)
    p = web.start_get('-j', 4, '--streams', 4)
    check(lab.kill_when(p, lambda: len(lab.verified()) >= 2, signal.SIGCONT), 'the run was over first')
    os.kill(web.process.pid, signal.SIGUSR1)  # graceful restart: the port stays
    lab.end(p).ends(0)
    lab.right(lab.data.big)
    hits = web.hits()
    all_http2(hits)
    check(len({h.client for h in hits}) > 1, 'the connection never ended')


@test
def http2_server_dies_and_comes_back(lab):
    """All streams of the connection end at once; what was verified is not asked for again."""
    for streams in (1, 4):
        web = Apache(lab, lab.data.big, rate=2048)
        p = web.start_get('-j', 4, '--streams', streams, '--retries', 50)
        check(lab.kill_when(p, lambda: len(lab.verified()) >= 3, signal.SIGCONT), 'the run was over first')
        web.stop()
        have = lab.verified()
        os.unlink(os.path.join(web.dir, 'hits.log'))
        web.begin()
        lab.end(p).ends(0)
        lab.right(lab.data.big)
        same(set().union(*(h.pieces for h in web.hits())) & have, set(), 'verified pieces that were fetched again')
        web.stop()
        os.unlink(lab.target())
        shutil.rmtree(web.dir)
        shutil.rmtree(lab.store)


@test
def http2_killed_and_run_again(lab):
    web = Apache(lab, lab.data.big, rate=2048)
    p = web.start_get('-j', 4, '--streams', 4)
    check(lab.kill_when(p, lambda: len(lab.verified()) >= 3), 'the run was over first')
    lab.end(p)
    have = lab.verified()
    time.sleep(0.3)  # for the log of what was cut off
    before = len(web.hits())
    web.get('-j', 4, '--streams', 4, file=lab.data.big)
    same(set().union(*(h.pieces for h in web.hits()[before:])) & have, set(), 'verified pieces that were fetched again')


@test
def http2_server_gone_for_good(lab):
    web = Apache(lab, lab.data.big, rate=2048)
    p = web.start_get('-j', 4, '--streams', 4, '--retries', 1)
    check(lab.kill_when(p, lambda: len(lab.verified()) >= 1, signal.SIGCONT), 'the run was over first')
    web.stop()
    lab.end(p).ends(NETWORK)
    lab.absent()


# ---- a server without ranges ----

@test
def http2_whole_file(lab):
    web = Nghttpd(lab, lab.data.medium)
    r = web.get(file=lab.data.medium)
    check('whole files only' in r.err, 'it is not said that nothing can be resumed')


@test
def http2_whole_file_and_the_server_dies(lab):
    """Read again from its beginning; the pieces that were verified stay."""
    large = lab.path('large')
    with open(lab.data.big, 'rb') as f, open(large, 'wb') as to:
        for _ in range(4):
            f.seek(0)
            shutil.copyfileobj(f, to, MIB)
    web = Nghttpd(lab, large)
    p = web.start_get('--limit-rate', '40M', '--retries', 50)
    check(lab.kill_when(p, lambda: len(lab.verified()) >= 4, signal.SIGCONT), 'the run was over first')
    web.stop()
    have = lab.verified()
    web.begin()
    lab.end(p).ends(0)
    lab.right(large)
    check(len(have) >= 4, f'verified before the end: {have}')
