"""The processes of one training: each has its share of every batch, rank 0 alone prints and writes."""

import os
import sys
from contextlib import contextmanager, redirect_stdout

import flambeau
import flambeau.distributed as dist
from flambeau import nn
from flambeau.distributed.run import get_args_parser, launched

from .errors import UserError

#: exit codes that rank 0 has explained already: a mistake of the user, Ctrl-C
EXPLAINED = (2, 130)


class Ranks:
    """This process's place among them; alone, nothing is exchanged."""

    def __init__(self, rank=0, size=1):
        self.rank, self.size = rank, size

    @property
    def leads(self):
        """Whether this is the one that prints and writes."""
        return self.rank == 0

    def share(self, batch):
        """This rank's part of a batch, a list; a batch that is too small for all is computed whole by each."""
        if len(batch) < 2 * self.size:
            return batch
        return batch[self.rank::self.size]

    def sums(self, *numbers):
        """The sums over all ranks."""
        if self.size == 1:
            return numbers
        total = flambeau.tensor(numbers, dtype=flambeau.float64)
        dist.all_reduce(total)
        return total.tolist()

    def prepared(self, network):
        """(the network, normalizing over the whole batch; what is called in its place, and averages gradients)."""
        if self.size == 1:
            return network, network
        network = nn.SyncBatchNorm.convert_sync_batchnorm(network)
        return network, nn.parallel.DistributedDataParallel(network)

    def random_states(self):
        """The states of the random streams of all ranks, by rank."""
        mine = flambeau.get_rng_state()
        if self.size == 1:
            return [mine]
        found = [flambeau.empty_like(mine) for _ in range(self.size)]
        dist.all_gather(found, mine)
        return found

    def part(self, count):
        """Where this rank's part of `count` things begins and ends."""
        return self.rank * count // self.size, (self.rank + 1) * count // self.size

    def joined(self, mine, count):
        """The parts of all ranks, in order: a tensor of `count` numbers."""
        if self.size == 1:
            return mine
        whole = mine.new_zeros(count)
        first, end = self.part(count)
        whole[first:end] = mine
        dist.all_reduce(whole)
        return whole

    def after_leader(self, function):
        """`function()`, which rank 0 calls before the others do: it may write what they read."""
        if self.size == 1:
            return function()
        if not self.leads:
            dist.barrier()
            return function()
        found = function()
        dist.barrier()
        return found

    def check_alike(self, *numbers):
        """All ranks have read the same checkpoint."""
        if self.size > 1 and list(self.sums(*numbers)) != [self.size * number for number in numbers]:
            raise UserError("the checkpoint was replaced while the processes read it: try again")


@contextmanager
def joined():
    """The Ranks of a process that a launcher has started, or that is alone; only rank 0 is heard."""
    if int(os.environ.get("WORLD_SIZE", 1)) == 1:
        yield Ranks()
        return
    dist.init_process_group()
    ranks = Ranks(dist.get_rank(), dist.get_world_size())
    try:
        if ranks.leads:
            yield ranks
        else:
            with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
                yield ranks
    except (UserError, dist.DistError) as error:
        if ranks.leads:
            raise UserError(str(error)) from error
        sys.exit(EXPLAINED[0])  # rank 0 says it, or has ended for a reason of its own
    finally:
        dist.destroy_process_group()


def spread(options):
    """Runs the command in `options.nproc` processes; the exit code."""
    line = ["--nproc-per-node", str(options.nproc), "-m", "flambeau", *options.command_line]
    return launched(get_args_parser("flambeau train").parse_args(line), "flambeau train", EXPLAINED)


def wants_processes(options):
    """Whether this process is the one that starts the others."""
    size = os.environ.get("WORLD_SIZE")
    if size is not None and options.nproc not in (None, int(size)):
        raise UserError(f"--nproc {options.nproc}: the launcher has started {size} processes; leave --nproc out")
    return size is None and options.nproc is not None and options.nproc > 1
