"""Training: the state of a run and the step that moves it on.

Everything that changes while a network trains is in one `Training` object, and `state_dict` holds all of it: a run
that is interrupted anywhere and continued gives the same numbers as one that was not.
"""

import math
from dataclasses import replace

import flambeau
import flambeau.nn.functional as F
from flambeau.optim import AdamW
from flambeau.optim.lr_scheduler import OneCycleLR
from flambeau.utils import _pytree
from flambeau.utils.data import DataLoader, Subset

from .errors import UserError
from .networks import build_network
from .ranks import Ranks


class ShuffledBatches:
    """A batch sampler: epoch e's order depends on the seed and e alone, so any place in it can be found again.

    Each rank has its share of every batch.
    """

    def __init__(self, samples, batch_size, seed, ranks):
        self.ranks = ranks
        self.samples = samples
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = 0
        self.first = 0  # the batch to begin with

    def __len__(self):
        return math.ceil(self.samples / self.batch_size)

    def __iter__(self):
        generator = flambeau.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        order = flambeau.randperm(self.samples, generator=generator).tolist()
        for batch in range(self.first, len(self)):
            yield self.ranks.share(order[batch * self.batch_size:(batch + 1) * self.batch_size])


class Training:
    """One run: network, optimizer, learning-rate schedule, place in the data, random stream, history."""

    def __init__(self, task, settings, workers=0, ranks=None, device="cpu"):
        flambeau.manual_seed(settings.seed)
        self.ranks = ranks or Ranks()
        self.task = task
        self.settings = settings
        self.workers = workers  # that load batches; the numbers do not depend on it
        self.device = flambeau.device(device)
        self.network, self.model = self.ranks.prepared(build_network(task.name, task.model).to(self.device))
        self.batches = ShuffledBatches(len(task.train), settings.batch_size, settings.seed, self.ranks)
        self.optimizer = AdamW(self.network.parameters(), lr=settings.lr)
        self.first_epoch = 0  # of the schedule's cycle: an extended run has a cycle of its own
        self.begin_cycle()
        self.epoch = 0  # epochs completed
        self.batch = 0  # batches completed in the epoch under way
        self.history = []  # the rows of metrics.jsonl
        self.stop = False  # whether a rank was asked to end
        self.random = None  # the ranks' random streams at the last step that may be saved
        if not self.ranks.leads:
            self.begin_stream()

    def begin_stream(self):
        """Dropout differs from rank to rank: those behind the first have streams that a checkpoint may not have."""
        steps = self.epoch * len(self.batches) + self.batch
        flambeau.manual_seed(self.settings.seed + 1_000_003 * self.ranks.rank + 7919 * steps)

    def begin_cycle(self):
        """A schedule from the cycle's first epoch to the run's last."""
        steps = (self.settings.epochs - self.first_epoch) * len(self.batches)
        self.schedule = OneCycleLR(self.optimizer, max_lr=self.settings.lr, total_steps=steps)

    def extend(self, epochs):
        """More epochs for a finished run, with a schedule of their own."""
        self.settings = replace(self.settings, epochs=epochs)
        self.first_epoch = self.epoch
        self.begin_cycle()

    @property
    def done(self):
        return self.epoch >= self.settings.epochs

    @property
    def samples_seen(self):
        """In the whole run, for the progress bar."""
        in_epoch = min(self.batch * self.settings.batch_size, len(self.task.train))
        return self.epoch * len(self.task.train) + in_epoch

    @property
    def test_batch(self):
        """How many pictures are tested at once: large networks have no room for many."""
        return max(self.settings.batch_size, 16) if self.task.model else 500

    def epoch_batches(self):
        """The batches that are left of the epoch under way."""
        self.batches.epoch, self.batches.first = self.epoch, self.batch
        # a generator of its own: the loader must not draw from the stream that dropout uses
        return DataLoader(self.task.train, batch_sampler=self.batches, generator=flambeau.Generator(),
                          num_workers=self.workers)

    def step(self, images, labels, stop=False):
        """Forward, backward, update; the row it adds to the history. `stop`: this rank was asked to end."""
        self.model.train()
        images, labels = images.to(self.device), labels.to(self.device)
        logits = self.model(images)
        loss = F.cross_entropy(logits, labels)
        loss_here, right_here = loss.item(), (logits.argmax(1) == labels).float().mean().item()
        if self.ranks.size > 1:
            loss, loss_here, right_here = self.together(loss, loss_here, right_here, len(labels), stop)
        row = {
            "epoch": self.epoch + 1,
            "step": self.epoch * len(self.batches) + self.batch + 1,
            "loss": loss_here,
            "accuracy": right_here,
            "lr": self.schedule.get_last_lr()[0],
        }
        if not math.isfinite(row["loss"]):
            raise UserError(f"the loss became {row['loss']} at step {row['step']}: try a smaller --lr "
                            f"(it is {self.settings.lr})")
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        self.batch += 1
        self.history.append(row)
        return row

    def together(self, loss, loss_here, right_here, count, stop):
        """(the loss whose gradients' mean over the ranks is that of the batch, the batch's loss, its accuracy)."""
        total, losses, right, stops = self.ranks.sums(count, loss_here * count, right_here * count, stop)
        self.stop = stops > 0
        return loss * (count * self.ranks.size / total), losses / total, right / total

    def end_epoch(self):
        """Test the network and move on to the next epoch; the row it adds to the history."""
        steps = [row for row in self.history if row["epoch"] == self.epoch + 1]
        loss, predictions = evaluate(self.network, self.task.test, self.test_batch, self.ranks)
        labels = self.task.test.tensors[1]
        row = {
            "epoch": self.epoch + 1,
            "train_loss": sum(row["loss"] for row in steps) / len(steps),
            "train_accuracy": sum(row["accuracy"] for row in steps) / len(steps),
            "test_loss": loss,
            "test_accuracy": (predictions == labels).float().mean().item(),
        }
        self.history.append(row)
        self.epoch += 1
        self.batch = 0
        return row

    def remember_random(self):
        """Asks all ranks for their random streams; they call it together before one of them saves."""
        self.random = self.ranks.random_states()

    def state_dict(self):
        random = self.random or [flambeau.get_rng_state()]
        return {
            "epoch": self.epoch,
            "batch": self.batch,
            "network": self.readable(self.network.state_dict()),
            "optimizer": self.readable(self.optimizer.state_dict()),
            "schedule": self.schedule.state_dict(),
            "random": random[0],
            "history": self.history,
        } | ({"random_others": random[1:]} if random[1:] else {}) | (
            {"first_epoch": self.first_epoch} if self.first_epoch else {}) | (
            {"random_cuda": flambeau.cuda.get_rng_state(self.device)} if self.device.type == "cuda" else {})

    def readable(self, state):
        """A state with its tensors on the CPU, so that machines without a GPU can read it."""
        if self.device.type == "cpu":
            return state
        return _pytree.tree_map_only(flambeau.Tensor, lambda t: t.cpu(), state)

    def load_state_dict(self, state):
        """ValueError and others where the state is not one of such a run."""
        if state["epoch"] > self.settings.epochs or state["batch"] > len(self.batches):
            raise ValueError(f"epoch {state['epoch']}, batch {state['batch']} is not a place in a run of "
                             f"{self.settings.epochs} epochs of {len(self.batches)} batches")
        steps = sum("step" in row for row in state["history"])
        if steps != state["epoch"] * len(self.batches) + state["batch"]:
            raise ValueError(f"the history has {steps} steps")
        self.first_epoch = state.get("first_epoch", 0)
        if not isinstance(self.first_epoch, int) or not 0 <= self.first_epoch <= state["epoch"]:
            raise ValueError(f"the schedule begins in epoch {self.first_epoch}")
        if state["schedule"].get("last_epoch") != steps - self.first_epoch * len(self.batches):
            raise ValueError(f"the schedule is not at step {steps}")
        if self.first_epoch:
            self.begin_cycle()
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.epoch, self.batch, self.history = state["epoch"], state["batch"], list(state["history"])
        streams = [state["random"], *state.get("random_others", [])]
        if self.device.type == "cuda" and "random_cuda" in state:
            flambeau.cuda.set_rng_state(state["random_cuda"], self.device)
        if self.ranks.rank < len(streams):
            flambeau.set_rng_state(streams[self.ranks.rank])
        else:
            self.begin_stream()


def evaluate(network, dataset, batch_size, ranks=None):
    """Mean loss over `dataset`, and the class predicted for each picture. The ranks share the work, if there are any.
    """
    ranks = ranks or Ranks()
    network.eval()
    device = next(network.parameters()).device
    first, end = ranks.part(len(dataset))
    total, predictions = 0.0, []
    with flambeau.no_grad():
        for images, labels in DataLoader(Subset(dataset, range(first, end)) if ranks.size > 1 else dataset,
                                         batch_size=batch_size, generator=flambeau.Generator()):
            logits = network(images.to(device))
            total += F.cross_entropy(logits, labels.to(device), reduction="sum").item()
            predictions.append(logits.argmax(1).cpu())
    mine = flambeau.cat(predictions) if predictions else flambeau.empty(0, dtype=flambeau.int64)
    return ranks.sums(total)[0] / len(dataset), ranks.joined(mine, len(dataset))
