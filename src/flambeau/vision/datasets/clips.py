"""Videos as clips of some frames; PyAV (`pip install av`) decodes them."""

import importlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ... import from_numpy, zeros
from ..._shown import shown
from ._formats import _numpy
from .folder import find_classes, make_dataset
from .utils import need, verify_str_arg
from .vision import VisionDataset


def _av(where):
    try:
        return importlib.import_module("av")
    except ImportError:
        raise ImportError(f"{where}: videos are decoded by PyAV, which is not installed: pip install av") from None


def frame_times(path):
    """([time stamp of each frame], frames per second or None) of a video."""
    with _av("frame_times").open(str(path)) as file:
        stream = file.streams.video[0]
        times = sorted(packet.pts for packet in file.demux(stream) if packet.pts is not None)
        return times, float(stream.average_rate) if stream.average_rate else None


def read_frames(path, times):
    """The frames with these time stamps, in this order: uint8 [n, height, width, 3]."""
    numpy, wanted = _numpy(), set(times)
    with _av("read_frames").open(str(path)) as file:
        stream = file.streams.video[0]
        file.seek(min(wanted), stream=stream, backward=True)  # to the key frame from which the first one is decoded
        found = {}
        for frame in file.decode(stream):
            if frame.pts in wanted:
                found[frame.pts] = frame.to_ndarray(format="rgb24")
            if frame.pts is not None and frame.pts >= max(wanted):
                break
    missing = wanted - found.keys()
    if missing:
        raise RuntimeError(f"{shown(str(path))}: {len(missing)} of {len(wanted)} frames could not be decoded")
    return from_numpy(numpy.stack([found[time] for time in times]))


def read_sound(path, first, last):
    """What sounds between two time stamps of the picture: [channels, samples]; [1, 0] where there is no sound."""
    numpy = _numpy()
    with _av("read_sound").open(str(path)) as file:
        if not file.streams.audio:
            return zeros(1, 0)
        base, stream = file.streams.video[0].time_base, file.streams.audio[0]
        begin, end = float(first * base), float(last * base)
        parts = []
        for frame in file.decode(stream):
            values = frame.to_ndarray()
            values = values if frame.format.is_planar else values.reshape(-1, frame.layout.nb_channels).T
            skip, stop = (round((moment - frame.time) * frame.sample_rate) for moment in (begin, end))
            if stop > 0 and skip < values.shape[1]:
                parts.append(values[:, max(skip, 0):stop])
            if frame.time > end:
                break
        return from_numpy(numpy.concatenate(parts, 1)) if parts else zeros(1, 0)


class Clips:
    """Runs of `length` frames that begin every `step` frames; at `rate` frames a second if it is given.

    workers: so many threads look for the frames of the videos, where `metadata` does not tell them.
    """

    def __init__(self, paths, length, step=1, rate=None, metadata=None, workers=1):
        self.length, self.step, self.rate = length, step, rate
        self.metadata = metadata or self._scanned(paths, workers)
        self.clips = []  # (number of the video, time stamps)
        for k, (times, own) in enumerate(zip(self.metadata["video_pts"], self.metadata["video_fps"], strict=True)):
            chosen = times if rate is None else self._resampled(times, own)
            self.clips += [(k, chosen[at:at + length]) for at in range(0, len(chosen) - length + 1, step)]

    @staticmethod
    def _scanned(paths, workers):
        with ThreadPoolExecutor(max(workers, 1)) as pool:
            found = list(pool.map(frame_times, paths))
        return {"video_paths": [str(path) for path in paths], "video_pts": [times for times, _ in found],
                "video_fps": [rate for _, rate in found]}

    def _resampled(self, times, own):
        """The frame that is seen at each moment of the new rate."""
        if own is None:
            raise ValueError("frame_rate: a video does not say how many frames a second it has")
        count = int(len(times) * self.rate / own)
        return [times[int(k * own / self.rate)] for k in range(count)]

    def subset(self, chosen):
        """The clips of some of the videos."""
        return Clips(None, self.length, self.step, self.rate,
                     {name: [column[k] for k in chosen] for name, column in self.metadata.items()})

    def __len__(self):
        return len(self.clips)

    def __getitem__(self, index):
        """(frames [n, height, width, 3], sound, number of the video)."""
        video, times = self.clips[index]
        path = self.metadata["video_paths"][video]
        return read_frames(path, times), read_sound(path, times[0], times[-1]), video


class _Clips(VisionDataset):
    """(frames, sound, class) of the clips of some videos; `output_format` orders the frames."""

    def __init__(self, root, samples, clips, transform, output_format):
        super().__init__(root)
        self.transform, self.samples, self.video_clips = transform, samples, clips
        self._channels_first = verify_str_arg(output_format, "output_format", ("THWC", "TCHW")) == "TCHW"

    @property
    def metadata(self):
        """{"video_paths", "video_pts", "video_fps"}: give it as `_precomputed_metadata`, and no file is scanned."""
        return self.video_clips.metadata

    def __len__(self):
        return len(self.video_clips)

    def __getitem__(self, index):
        frames, sound, video = self.video_clips[index]
        frames = frames.permute(0, 3, 1, 2) if self._channels_first else frames
        frames = frames if self.transform is None else self.transform(frames)
        return frames, sound, self.samples[video][1]


def _only_default(where, **given):
    """Arguments of decoders that are not here."""
    changed = {name: value for name, value in given.items() if value}
    if changed:
        raise NotImplementedError(f"{where}: PyAV gives frames and sound as they are in the file; leave out "
                                  f"{', '.join(changed)}, and resize in the transform")


class _Folds(_Clips):
    """Videos in one folder per class, of which a fold's lists choose."""

    _extensions = ("avi",)

    def __init__(self, root, annotation_path, frames_per_clip, step_between_clips=1, frame_rate=None, fold=1,
                 train=True, transform=None, _precomputed_metadata=None, num_workers=1, _video_width=0,
                 _video_height=0, _video_min_dimension=0, _audio_samples=0, output_format="THWC"):
        name = type(self).__name__
        _only_default(name, _video_width=_video_width, _video_height=_video_height,
                      _video_min_dimension=_video_min_dimension, _audio_samples=_audio_samples)
        if fold not in (1, 2, 3):
            raise ValueError(f"{name}: fold must be 1, 2 or 3, got {shown(fold)}")
        self.fold, self.train = fold, train
        self.classes, classes = find_classes(root)
        samples = make_dataset(str(root), classes, self._extensions)
        clips = Clips([path for path, _ in samples], frames_per_clip, step_between_clips, frame_rate,
                      _precomputed_metadata, num_workers)
        self.full_video_clips = clips
        self.indices = self._chosen(Path(annotation_path), [path for path, _ in samples], Path(root))
        super().__init__(root, [samples[k] for k in self.indices], clips.subset(self.indices), transform, output_format)


class UCF101(_Folds):
    """13,320 videos of 101 actions (Soomro et al. 2012); `annotation_path` holds the lists of the folds."""

    def _chosen(self, folder, paths, root):
        file = folder / f"{'train' if self.train else 'test'}list{self.fold:02d}.txt"
        need(file.exists(), "UCF101", folder)
        wanted = {str(root / line.split()[0]) for line in file.read_text().splitlines() if line.strip()}
        return [k for k, path in enumerate(paths) if path in wanted]


class HMDB51(_Folds):
    """6,766 videos of 51 actions (Kuehne et al. 2011); `annotation_path` holds the lists of the folds."""

    data_url = "https://serre-lab.clps.brown.edu/wp-content/uploads/2013/10/hmdb51_org.rar"
    splits = {"url": "https://serre-lab.clps.brown.edu/wp-content/uploads/2013/10/test_train_splits.rar",
              "md5": "15e67781e70dcfbdce2d7dbb9b3344b5"}
    TRAIN_TAG, TEST_TAG = 1, 2

    def _chosen(self, folder, paths, root):
        files = sorted(folder.glob(f"*test_split{self.fold}.txt"))
        need(files, "HMDB51", folder)
        tag = str(self.TRAIN_TAG if self.train else self.TEST_TAG)
        rows = [line.split() for file in files for line in file.read_text().splitlines() if line.strip()]
        wanted = {name for name, found in rows if found == tag}
        return [k for k, path in enumerate(paths) if Path(path).name in wanted]


class Kinetics(_Clips):
    """Videos of 400, 600 or 700 actions (Kay et al. 2017) in `root/split/CLASS/`; they are not downloaded here."""

    def __init__(self, root, frames_per_clip, num_classes="400", split="train", frame_rate=None, step_between_clips=1,
                 transform=None, extensions=("avi", "mp4"), download=False, num_download_workers=1, num_workers=1,
                 _precomputed_metadata=None, _video_width=0, _video_height=0, _video_min_dimension=0, _audio_samples=0,
                 _audio_channels=0, _legacy=False, output_format="TCHW"):
        _only_default("Kinetics", _video_width=_video_width, _video_height=_video_height,
                      _video_min_dimension=_video_min_dimension, _audio_samples=_audio_samples,
                      _audio_channels=_audio_channels)
        self.num_classes = verify_str_arg(num_classes, "num_classes", ("400", "600", "700"))
        self.extensions, self.root = extensions, root
        folder = Path(root) if _legacy else Path(root, verify_str_arg(split, "split", ("train", "val", "test")))
        if download:
            raise NotImplementedError("Kinetics: its 100,000 and more videos are not fetched here; unpack the archives "
                                      f"of its page into {shown(str(folder))}, a folder for each class")
        self.split, self.split_folder = split, str(folder)
        self.classes, classes = find_classes(folder)
        samples = make_dataset(str(folder), classes, tuple(extensions))
        clips = Clips([path for path, _ in samples], frames_per_clip, step_between_clips, frame_rate,
                      _precomputed_metadata, num_workers)
        super().__init__(root, samples, clips, transform, "THWC" if _legacy else output_format)
