"""Two network namespaces joined by a link with delay and loss: netem where the kernel has it, else a small program (linksim.c).

linksim.c is looked for at $LINKSIM, then beside the checkout in shared/net. Needs root.
"""
import contextlib
import os
import shutil
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class NoLink(Exception):
    """It cannot be had here; why."""


def sh(*command):
    subprocess.run(command, check=True, capture_output=True, text=True)


def linksim_source():
    for path in (os.environ.get('LINKSIM', ''), os.path.join(ROOT, '..', 'shared', 'net', 'linksim.c')):
        if path and os.path.exists(path):
            return path
    raise NoLink('the kernel has no netem, and linksim.c is not at hand (set LINKSIM to its path)')


class Link:
    """near and far: commands that run another in a namespace; far_address: where a server in the far one may listen."""

    def __init__(self, work, delay_ms=25, loss_percent=1):
        self.work, self.delay_ms, self.loss_percent = work, delay_ms, loss_percent
        self.names = [f'reploid-{os.getpid()}-{end}' for end in ('near', 'far')]
        self.near, self.far = (['ip', 'netns', 'exec', n] for n in self.names)
        self.far_address = '10.77.0.2'
        self.sim = None

    def netem(self):
        near, far = self.names
        shape = f'netem delay {self.delay_ms}ms loss {self.loss_percent}% limit 4096'.split()
        try:
            sh('ip', '-n', near, 'link', 'add', 'sim0', 'type', 'veth', 'peer', 'name', 'sim0', 'netns', far)
            for name, address in ((near, '10.77.0.1/24'), (far, '10.77.0.2/24')):
                sh('ip', 'netns', 'exec', name, 'tc', 'qdisc', 'add', 'dev', 'sim0', 'root', *shape)
                sh('ip', '-n', name, 'addr', 'add', address, 'dev', 'sim0')
                sh('ip', '-n', name, 'link', 'set', 'sim0', 'up')
            return True
        except subprocess.CalledProcessError:
            with contextlib.suppress(subprocess.CalledProcessError):
                sh('ip', '-n', near, 'link', 'del', 'sim0')
            return False

    def linksim(self):
        program = os.path.join(self.work, 'linksim')
        sh('cc', '-O2', '-o', program, linksim_source())
        self.sim = subprocess.Popen([program, self.names[0], '10.77.0.1/24', self.names[1], '10.77.0.2/24', str(self.delay_ms),
            str(self.loss_percent)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self.sim.stdout.readline() != 'ready\n':
            raise NoLink(f'linksim does not start: {self.sim.stderr.read().strip()}')

    def __enter__(self):
        if os.geteuid() != 0 or not shutil.which('ip'):
            raise NoLink('network namespaces need root and iproute2')
        try:
            for name in self.names:
                sh('ip', 'netns', 'add', name)
                sh('ip', '-n', name, 'link', 'set', 'lo', 'up')
            if not self.netem():
                self.linksim()
        except (subprocess.CalledProcessError, OSError, NoLink) as why:
            self.__exit__()
            raise NoLink(getattr(why, 'stderr', None) or str(why)) from why
        return self

    def __exit__(self, *_):
        if self.sim:
            self.sim.kill()
            self.sim.wait()
        for name in self.names:
            with contextlib.suppress(subprocess.CalledProcessError):
                sh('ip', 'netns', 'del', name)
