"""SummaryWriter: one method per kind of record, each a step in the event file of its run."""

import os
import socket
import time

from ..._shown import shown
from . import summary
from ._arrays import as_array, figure_pixels
from ._graph import graph
from ._protos import protos


class FileWriter:
    """An event file in a folder; a thread of its own writes, every `flush_secs` or when `max_queue` events wait.

    >>> import tempfile
    >>> from flambeau.utils.tensorboard import FileWriter, summary
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = FileWriter(folder)
    ...     file.add_summary(summary.scalar("loss", 0.5), global_step=1)
    ...     file.close()
    """

    def __init__(self, log_dir, max_queue=10, flush_secs=120, filename_suffix=""):
        self.event_writer = protos().EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self):
        """The folder."""
        return self.event_writer.get_logdir()

    def add_event(self, event, step=None, walltime=None):
        """Writes an Event at a step, now or at a given time."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary, global_step=None, walltime=None):
        """Writes a Summary."""
        self.add_event(protos().Event(summary=summary), global_step, walltime)

    def add_graph(self, graph_profile, walltime=None):
        """Writes a (GraphDef, RunMetadata | None)."""
        structure, run = graph_profile
        self.add_event(protos().Event(graph_def=structure.SerializeToString()), None, walltime)
        if run is not None:
            tagged = protos().TaggedRunMetadata(tag="step1", run_metadata=run.SerializeToString())
            self.add_event(protos().Event(tagged_run_metadata=tagged), None, walltime)

    def flush(self):
        """Waits until everything is in the file."""
        self.event_writer.flush()

    def close(self):
        """Flushes and ends the file."""
        self.event_writer.close()

    def reopen(self):
        """Goes on in a new file after `close`."""
        self.event_writer = protos().EventFileWriter(self.get_logdir())


class SummaryWriter:
    """Writes a run's numbers, pictures and structure into an event file that TensorBoard shows.

    The folder is `log_dir`, or runs/DATE_HOST with `comment` at its end. `purge_step`: what an interrupted run
    wrote from that step on is hidden. Needs the package `tensorboard`.

    >>> import tempfile
    >>> from flambeau.utils.tensorboard import SummaryWriter
    >>> with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
    ...     for step in range(3):
    ...         writer.add_scalar("loss", 1 / (step + 1), step)
    """

    def __init__(self, log_dir=None, comment="", purge_step=None, max_queue=10, flush_secs=120, filename_suffix=""):
        if not log_dir:
            log_dir = os.path.join("runs", f"{time.strftime('%b%d_%H-%M-%S')}_{socket.gethostname()}{comment}")
        self.log_dir, self.purge_step = log_dir, purge_step
        self.max_queue, self.flush_secs, self.filename_suffix = max_queue, flush_secs, filename_suffix
        self.file_writer, self.all_writers = None, None
        self._get_file_writer()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- files

    def _get_file_writer(self):
        """The file; a new one after `close`."""
        if self.file_writer is None:
            self.file_writer = FileWriter(self.log_dir, self.max_queue, self.flush_secs, self.filename_suffix)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                p, step = protos(), self.purge_step
                self.file_writer.add_event(p.Event(step=step, file_version="brain.Event:2"))
                start = p.SessionLog(status=p.SessionLog.START)
                self.file_writer.add_event(p.Event(step=step, session_log=start))
                self.purge_step = None
        return self.file_writer

    def get_logdir(self):
        """The folder of the event files."""
        return self.log_dir

    def flush(self):
        """Waits until everything written so far is in the files."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self):
        """Ends the files; what is added later begins new ones."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def _add(self, record, global_step, walltime):
        self._get_file_writer().add_summary(record, global_step, walltime)

    # ---- numbers

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False, double_precision=False):
        """One number; the float32 of a file's plain form, or a tensor with `new_style` (float64: double_precision)."""
        record = summary.scalar(tag, scalar_value, new_style=new_style, double_precision=double_precision)
        self._add(record, global_step, walltime)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        """Several numbers of one chart: each has a file of its own in the folder `main_tag`_`name`."""
        folder = self._get_file_writer().get_logdir()
        for name, value in tag_scalar_dict.items():
            place = os.path.join(folder, f"{main_tag.replace('/', '_')}_{name}")
            if place not in self.all_writers:
                self.all_writers[place] = FileWriter(place, self.max_queue, self.flush_secs, self.filename_suffix)
            self.all_writers[place].add_summary(summary.scalar(main_tag, value), global_step, walltime)

    def add_tensor(self, tag, tensor, global_step=None, walltime=None):
        """A whole tensor, in its own dtype."""
        self._add(summary.tensor_proto(tag, tensor), global_step, walltime)

    def add_histogram(self, tag, values, global_step=None, bins="tensorflow", walltime=None, max_bins=None):
        """Counts of values in bins: "tensorflow" (each a tenth wider), or NumPy's; at most max_bins."""
        self._add(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(self, tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts, global_step=None,
                          walltime=None):
        """Counts made elsewhere: `bucket_limits` are the right edges."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError(f"add_histogram_raw: {len(bucket_limits)} limits for {len(bucket_counts)} counts")
        record = summary.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts)
        self._add(record, global_step, walltime)

    # ---- pictures, sound, text

    def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats="CHW"):
        """A picture in [0, 1], or bytes; `dataformats` names its dimensions (CHW, HWC, HW …)."""
        self._add(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_images(self, tag, img_tensor, global_step=None, walltime=None, dataformats="NCHW"):
        """Pictures side by side, eight in a row."""
        self._add(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_image_with_boxes(self, tag, img_tensor, box_tensor, global_step=None, walltime=None, rescale=1,
                             dataformats="CHW", labels=None):
        """A picture with boxes [left, top, right, bottom], made larger or smaller by `rescale`."""
        record = summary.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, labels)
        self._add(record, global_step, walltime)

    def add_figure(self, tag, figure, global_step=None, close=True, walltime=None):
        """A figure of Matplotlib, or a list of them side by side; they are closed unless `close=False`."""
        import numpy as np
        from matplotlib import pyplot

        figures = list(figure) if isinstance(figure, (list, tuple)) else [figure]
        pixels = np.stack([figure_pixels(each) for each in figures])
        if isinstance(figure, (list, tuple)):
            self.add_images(tag, pixels, global_step, walltime)
        else:
            self.add_image(tag, pixels[0], global_step, walltime)
        for each in figures if close else ():
            pyplot.close(each)

    def add_video(self, tag, vid_tensor, global_step=None, fps=4, walltime=None):
        """Clips [N, T, C, H, W] side by side, as a moving picture (GIF, by Pillow)."""
        self._add(summary.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(self, tag, snd_tensor, global_step=None, sample_rate=44100, walltime=None):
        """One channel of sound in [-1, 1]."""
        self._add(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(self, tag, text_string, global_step=None, walltime=None):
        """Text, in Markdown."""
        self._add(summary.text(tag, text_string), global_step, walltime)

    # ---- curves, meshes, charts, hyperparameters

    def add_pr_curve(self, tag, labels, predictions, global_step=None, num_thresholds=127, weights=None,
                     walltime=None):
        """Precision against recall of probabilities for labels 0 and 1."""
        given, expected = as_array(labels).size, as_array(predictions).size
        if given != expected:
            raise ValueError(f"add_pr_curve: {given} labels for {expected} predictions")
        self._add(summary.pr_curve(tag, labels, predictions, num_thresholds, weights), global_step, walltime)

    def add_pr_curve_raw(self, tag, true_positive_counts, false_positive_counts, true_negative_counts,
                         false_negative_counts, precision, recall, global_step=None, num_thresholds=127, weights=None,
                         walltime=None):
        """A curve computed elsewhere."""
        record = summary.pr_curve_raw(tag, true_positive_counts, false_positive_counts, true_negative_counts,
                                      false_negative_counts, precision, recall, num_thresholds, weights)
        self._add(record, global_step, walltime)

    def add_mesh(self, tag, vertices, colors=None, faces=None, config_dict=None, global_step=None, walltime=None):
        """A cloud of points [N, P, 3], or a surface of triangles between them."""
        self._add(summary.mesh(tag, vertices, colors, faces, config_dict), global_step, walltime)

    def add_custom_scalars(self, layout):
        """Which scalars share a chart: {category: {title: ["Multiline" or "Margin", tags]}}."""
        self._add(summary.custom_scalars(layout), None, None)

    def add_custom_scalars_multilinechart(self, tags, category="default", title="untitled"):
        """One chart with several lines."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(self, tags, category="default", title="untitled"):
        """One chart of a value between its bounds: the tags of value, lower and upper."""
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_hparams(self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None, global_step=None):
        """The hyperparameters of a run and what came of them, in a folder `run_name` of their own."""
        records = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self._get_file_writer().get_logdir(), run_name or str(time.time()))
        with SummaryWriter(folder) as run:
            for record in records:
                run.file_writer.add_summary(record, global_step)
            for name, value in metric_dict.items():
                run.add_scalar(name, value, global_step)

    # ---- structure

    def add_graph(self, model, input_to_model=None, verbose=False, use_strict_trace=True):
        """The operators of one call of a module, grouped by the modules that they run in."""
        if input_to_model is None:
            raise NotImplementedError("add_graph: the graph is what one call does; pass input_to_model, the inputs of "
                                      "that call (a tensor or a tuple)")
        structure = graph(model, input_to_model, strict=use_strict_trace)
        if verbose:
            print(structure)
        self._get_file_writer().add_graph((structure, None))

    def add_onnx_graph(self, prototxt):
        """Not available: nothing here reads ONNX files."""
        raise NotImplementedError(f"add_onnx_graph: nothing here reads ONNX files (got {shown(prototxt)}); add_graph "
                                  "writes the graph of a module")

    def add_embedding(self, mat, metadata=None, label_img=None, global_step=None, tag="default", metadata_header=None):
        """Points [N, D] for the projector, with a label (or a row of labels) and a picture each."""
        p, folder = protos(), self._get_file_writer().get_logdir()
        info = summary.embedding(folder, mat, metadata, label_img, global_step, tag, metadata_header)
        path, config = os.path.join(folder, "projector_config.pbtxt"), p.ProjectorConfig()
        if p.gfile.exists(path):
            with p.gfile.GFile(path, "r") as old:
                p.text_format.Parse(old.read(), config)
        others = [each for each in config.embeddings if each.tensor_name != info.tensor_name]
        text = p.text_format.MessageToString(p.ProjectorConfig(embeddings=[*others, info]))
        with p.gfile.GFile(path, "wb") as out:
            out.write(text.encode())
