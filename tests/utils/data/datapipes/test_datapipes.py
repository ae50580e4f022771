"""Single datapipes: what each does that the laws do not say, and what it refuses."""

import gc
import io
import pickle
import threading
import warnings
from collections.abc import Iterator
from functools import partial

import numpy
import pytest

import flambeau
from flambeau.utils import data
from flambeau.utils.data import datapipes
from flambeau.utils.data.datapipes.dataframe import dataframe_wrapper
from flambeau.utils.data.datapipes.dataframe.structures import DataChunkDF
from flambeau.utils.data.datapipes.iter import (
    Demultiplexer,
    FileLister,
    FileOpener,
    Forker,
    IterableWrapper,
    RoutedDecoder,
    Sampler,
)
from flambeau.utils.data.datapipes.map import SequenceWrapper
from flambeau.utils.data.datapipes.utils import common, decoder
from flambeau.utils.data.graph import traverse_dps
from flambeau.utils.data.graph_settings import apply_sharding

from .table import both, third


class Numbers(data.IterDataPipe):
    def __init__(self, count=5):
        self.count = count

    def __iter__(self):
        yield from range(self.count)


class Uncopied(numpy.ndarray):
    copies = []

    def __new__(cls):
        return numpy.zeros(3).view(cls)

    def __reduce_ex__(self, protocol):
        self.copies.append(protocol)
        return super().__reduce_ex__(protocol)


class Own(data.IterDataPipe):
    """Its own iterator."""

    def __init__(self):
        self.left = 0

    def __next__(self):
        if not self.left:
            raise StopIteration
        self.left -= 1
        return self.left

    def reset(self):
        self.left = 3


def refuse(data):
    raise ValueError("no")


def test_names():
    pipe = IterableWrapper([1]).map(str)
    assert repr(pipe) == str(pipe) == "MapperIterDataPipe"
    assert {"map", "batch", "shuffle"} <= set(dir(pipe))
    with pytest.raises(AttributeError, match="object has no attribute 'nothing'"):
        pipe.nothing  # noqa: B018
    assert "Makes" in pipe.batch.__doc__
    assert data.IterDataPipe[int] is not None and {"iter", "map"} <= set(dir(datapipes))


def test_a_pipe_that_is_its_own_iterator():
    pipe = Own()
    assert list(pipe) == list(pipe) == [2, 1, 0] and pipe._number_of_samples_yielded == 3
    with pytest.raises(TypeError, match="define __iter__"):
        iter(data.IterDataPipe())


def test_an_error_says_where_it_was_raised():
    pipe = IterableWrapper([1]).map(refuse).batch(2)
    with pytest.raises(ValueError, match="no") as caught:
        list(pipe)
    assert str(caught.value) == "no"
    assert caught.value.__notes__ == ["raised in __iter__ of MapperIterDataPipe(datapipe=IterableWrapperIterDataPipe, "
                                      "fn=refuse, input_col=None, output_col=None)"]


def test_register():
    @data.functional_datapipe("tripled")
    class Tripled(data.IterDataPipe):
        def __init__(self, source, plus=0):
            self.source, self.plus = source, plus

        def __iter__(self):
            return (3 * k + self.plus for k in self.source)

    assert list(Numbers(3).tripled(plus=1)) == [1, 4, 7]
    with pytest.raises(Exception, match="belongs to"):
        data.functional_datapipe("tripled")(Tripled)
    with pytest.raises(TypeError, match="subclass"):
        data.functional_datapipe("other")(int)
    with pytest.raises(NotImplementedError, match="frames"):
        data.functional_datapipe("other", enable_df_api_tracing=True)(Tripled)
    data.IterDataPipe.functions.pop("tripled")


def test_hooks():
    pipe = IterableWrapper([1, 2]).batch(2)
    data.IterDataPipe.set_reduce_ex_hook(lambda p: (list, ((type(p).__name__,),)))
    try:
        assert pickle.loads(pickle.dumps(pipe)) == ["BatcherIterDataPipe"]
        with pytest.raises(RuntimeError, match="there is one already"):
            data.IterDataPipe.set_reduce_ex_hook(print)
    finally:
        data.IterDataPipe.set_reduce_ex_hook(None)
    data.IterDataPipe.set_getstate_hook(lambda state: state | {"batch_size": 1})
    try:
        assert list(pickle.loads(pickle.dumps(pipe))) == [[1], [2]]
    finally:
        data.IterDataPipe.set_getstate_hook(None)
    assert list(pickle.loads(pickle.dumps(pipe))) == [[1, 2]]


def test_determinism():
    @data.non_deterministic
    class Any(Numbers):
        pass

    @data.non_deterministic(lambda count: count > 1)
    class Many(Numbers):
        pass

    Any(), Many(2)
    with data.guaranteed_datapipes_determinism():
        Many(1)
        for make in (Any, partial(Many, 2)):
            with pytest.raises(TypeError, match="may change"):
                make()
    Any()
    for wrong in (3, SequenceWrapper):
        with pytest.raises(TypeError, match="expected a subclass"):
            data.non_deterministic(wrong)


def test_validation():
    class Checked(data.IterDataPipe):
        @data.argument_validation
        def __init__(self, source: data.IterDataPipe[int], count: int = 0):
            self.source = source

        @data.runtime_validation
        def __iter__(self) -> Iterator[tuple[int, str | None]]:
            yield from self.source

    with pytest.raises(TypeError, match="'source' must be an IterDataPipe"):
        Checked([1])
    good = [(1, "a"), (2, None)]
    assert list(Checked(IterableWrapper(good))) == good
    for bad in ((1, 2), [1, "a"], (1,), 1):
        pipe = Checked(IterableWrapper([bad]))
        with pytest.raises(RuntimeError, match="a sample is"):
            list(pipe)
        with data.runtime_validation_disabled():
            assert list(pipe) == [bad]
    with pytest.raises(TypeError, match="__iter__"):
        data.runtime_validation(third)


def test_chunk():
    chunk = data.DataChunk(iter([2, 1]))
    chunk.sort()
    assert chunk == [1, 2] and chunk.as_str(" ") == " [1, 2]" and str(chunk) == "[1, 2]"
    assert list(chunk.raw_iterator()) == chunk.items == [2, 1]
    assert isinstance(pickle.loads(pickle.dumps(chunk)), data.DataChunk)


class TestMap:
    def test_dicts(self):
        rows = IterableWrapper([{"a": 1, "b": 2}])
        assert list(rows.map(str, "a")) == [{"a": "1", "b": 2}]
        assert list(rows.map(both, ["b", "a"])) == [{"b": 3}]
        assert list(rows.map(str, "a", "c")) == [{"a": 1, "b": 2, "c": "1"}]
        assert list(rows) == [{"a": 1, "b": 2}]

    def test_lists_and_tuples(self):
        rows = IterableWrapper([(1, 2, 3), [1, 2, 3]])
        assert list(rows.map(both, [2, 0])) == [(2, 4), [2, 4]]
        assert list(rows.map(str, 1, [0])) == [("2", 2, 3), ["2", 2, 3]]

    @pytest.mark.parametrize("fn, columns", [(both, 0), (both, None), (both, [0, 1, 2]), (lambda *, a: a, 0)])
    def test_arguments_that_do_not_fit(self, fn, columns):
        with pytest.raises(ValueError, match=r"arguments"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            Numbers().map(fn, columns)

    def test_output_without_input(self):
        with pytest.raises(ValueError, match="needs an input_col"):
            Numbers().map(str, None, 1)
        with pytest.raises(ValueError, match="one column"):
            Numbers().map(str, 0, [1, 2])
        with pytest.raises(TypeError, match="expected a function"):
            Numbers().map(3)

    def test_functions_that_pickle_cannot_write(self):
        for fn, kind in ((lambda k: k, "Lambda"), (self.local(), "Local")):
            with pytest.warns(UserWarning, match=f"^{kind} function"):
                Numbers().map(fn)

    def local(self):
        def inner(k):
            return k
        return inner


def test_collate():
    assert [t.tolist() for t in IterableWrapper([1, 2, 3]).batch(2).collate()] == [[1, 2], [3]]
    assert list(IterableWrapper([[1, 2]]).collate(sum)) == [3]
    assert list(IterableWrapper([[1, 2]]).collate(collate_fn=sum)) == [3]


def test_filter_needs_truth_values():
    with pytest.raises(ValueError, match="True or False"):
        list(Numbers().filter(third))
    with pytest.raises(TypeError, match="no len"):
        len(Numbers().filter(bool))


def test_batch_and_unbatch_refuse():
    with pytest.raises(AssertionError, match="positive"):
        Numbers().batch(0)
    with pytest.raises(IndexError, match="1 levels down there is int"):
        list(IterableWrapper([[1]]).unbatch(2))
    with pytest.raises(ValueError, match="-1"):
        list(IterableWrapper([[1]]).unbatch(-2))
    assert list(IterableWrapper(range(3)).batch(2, wrapper_class=tuple)) == [(0, 1), (2,)]


def test_groups_refuse():
    pipe = Numbers(12)
    for options in ({"group_size": 0}, {"group_size": 3, "buffer_size": 2}, {"guaranteed_group_size": 2},
                    {"group_size": 2, "guaranteed_group_size": 3}):
        with pytest.raises(AssertionError, match="groupby"):
            pipe.groupby(third, **options)
    with pytest.raises(RuntimeError, match="samples wait"):
        list(pipe.groupby(third, buffer_size=3, group_size=3, guaranteed_group_size=2))


class TestSplitting:
    def test_kinds(self):
        pipe = Numbers(3)
        assert pipe.fork(1) is pipe and Forker(pipe, 1) is pipe
        assert len(Demultiplexer(pipe, 2, third)) == 2
        for wrong in (partial(pipe.fork, 0), partial(pipe.demux, 0, third), partial(pipe.fork, 2, copy="x")):
            with pytest.raises(ValueError, match="must be"):
                wrong()
        with pytest.raises(TypeError, match="iterate over the children"):
            list(pipe.fork(2)[0].main_datapipe)

    def test_buffers(self):
        ahead, _ = Numbers().fork(2, buffer_size=3)
        with pytest.raises(BufferError, match="buffer_size=3"):
            list(ahead)
        _, last = IterableWrapper([0, 0, 0, 1]).demux(2, third, buffer_size=2)
        with pytest.raises(BufferError, match="buffer_size=2"):
            list(last)
        with pytest.warns(UserWarning, match="Unlimited buffer"):
            first, second = Numbers().fork(2, buffer_size=-1)
        assert list(first) == list(second) == [0, 1, 2, 3, 4]

    @pytest.mark.parametrize("copy, same", [(None, True), ("shallow", False), ("deep", False)])
    def test_copies(self, copy, same):
        a, b = IterableWrapper([[1]]).fork(2, copy=copy)
        (x, y), = a.zip(b)
        assert x == y and (x is y) is same

    def test_classes(self):
        for function in (third, lambda k: None):
            with pytest.raises(ValueError, match="from 0 to 1"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                list(Numbers().demux(2, function)[0])
        with pytest.raises(TypeError, match="not known"):
            len(Numbers().demux(2, third)[0])

    def test_rounds(self):
        a, b = Numbers(3).fork(2)
        first = iter(a), iter(b)
        assert [next(x) for x in first] == [0, 0]
        with pytest.warns(UserWarning, match="begins all of them anew"):
            again = iter(a)
        for old in first:
            with pytest.raises(RuntimeError, match="invalidated"):
                next(old)
        joined = iter(b)
        assert [*again, *joined] == [0, 1, 2, 0, 1, 2]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            iter(a)


def test_combining_refuses():
    for method in ("concat", "mux", "zip"):
        with pytest.raises(TypeError, match="instance of IterDataPipe"):
            getattr(Numbers(), method)([1])
        with pytest.raises(TypeError, match="len"):
            len(getattr(Numbers(), method)(Numbers()))
    for method in ("concat", "zip"):
        with pytest.raises(TypeError, match="instance of MapDataPipe"):
            getattr(SequenceWrapper([1]), method)([1])
    with pytest.raises(ValueError, match="at least one"):
        datapipes.iter.Concater()


def test_sampler():
    flambeau.manual_seed(0)
    assert list(Sampler(IterableWrapper(range(4)), data.RandomSampler)) == [2, 3, 0, 1]
    with pytest.raises(AssertionError, match="no __len__"):
        Sampler(Numbers())


def test_shuffle():
    with pytest.raises(AssertionError, match="positive"):
        Numbers().shuffle(buffer_size=0)
    flambeau.manual_seed(0)
    first = list(Numbers().shuffle())
    flambeau.manual_seed(0)
    assert list(Numbers().shuffle()) == first != list(Numbers().shuffle())
    assert list(Numbers().shuffle().set_shuffle(False)) == list(range(5))


class TestSharding:
    def test_groups(self):
        kind = datapipes.iter.sharding.SHARDING_PRIORITIES
        pipe = Numbers(12).sharding_filter()
        pipe.apply_sharding(2, 1, kind.DISTRIBUTED)
        pipe.apply_sharding(3, 2, kind.MULTIPROCESSING)
        assert list(pipe) == [5, 11] and (pipe.num_of_instances, pipe.instance_id) == (6, 5)
        with pytest.raises(RuntimeError, match="DEFAULT means all"):
            pipe.apply_sharding(2, 0)
        only = Numbers(6).sharding_filter(kind.DISTRIBUTED)
        only.apply_sharding(2, 1, kind.DISTRIBUTED)
        only.apply_sharding(3, 2, kind.MULTIPROCESSING)
        assert list(only) == [1, 3, 5]
        with pytest.raises(ValueError, match="from 0 to"):
            Numbers().sharding_filter().apply_sharding(2, 2)

    def test_twice(self):
        twice = Numbers().sharding_filter().map(str).sharding_filter()
        with pytest.raises(RuntimeError, match="twice"):
            apply_sharding(twice, 2, 0)
        a, b = Numbers().fork(2)
        assert list(apply_sharding(a.sharding_filter().zip(b.sharding_filter()), 2, 1)) == [(1, 1), (3, 3)]

    def test_a_class_of_the_user(self):
        class Share(Numbers):
            def apply_sharding(self, count, number):
                self.count = count * 10 + number

        assert len(list(apply_sharding(Share(), 2, 1))) == 21


class TestGraph:
    def test_pipes_in_containers_and_objects(self):
        inner = [Numbers(k) for k in range(4)]
        pipe = Numbers()
        pipe.some = {"a": [inner[0], (inner[1],)], "b": {1: partial(print, inner[2])}}
        pipe.function, pipe.lock = inner[3].map, [threading.Lock(), lambda: 0, (k for k in "a"), flambeau.ones(2)]
        pipe.me = [pipe]
        pipe.numbers = [Uncopied(), numpy.zeros(3)]
        assert list(traverse_dps(pipe)[id(pipe)][1]) == [id(p) for p in inner[:3]]
        everything = data.graph.traverse(pipe, only_datapipe=False)
        assert not Uncopied.copies
        assert list(everything[id(pipe)][1]) == [id(p) for p in inner]
        with pytest.raises(RuntimeError, match="expected an IterDataPipe"):
            traverse_dps([1])
        with pytest.warns(FutureWarning):
            data.graph.traverse(pipe)


class TestFiles:
    @pytest.fixture
    def folder(self, tmp_path):
        (tmp_path / "inner").mkdir()
        for name in ("b.txt", "a.json", "inner/c.txt"):
            (tmp_path / name).write_text("[1]")
        return str(tmp_path)

    def test_lists(self, folder):
        def names(*args, **kwargs):
            return [path.removeprefix(f"{folder}/") for path in FileLister(folder, *args, **kwargs)]
        assert names() == ["a.json", "b.txt"] == sorted(names(non_deterministic=True))
        assert names("*.txt", recursive=True) == ["b.txt", "inner/c.txt"]
        assert names(["*.json", "*.png"], abspath=True) == ["a.json"]
        assert list(FileLister([f"{folder}/b.txt"], "*.png")) == []
        assert list(IterableWrapper([folder]).list_files("*.json")) == [f"{folder}/a.json"]
        assert len(FileLister(folder, length=3)) == 3
        with pytest.raises(TypeError, match="length="):
            len(FileLister(folder))
        with pytest.raises(FileNotFoundError), pytest.warns(UserWarning, match="No such file"):
            list(FileLister(f"{folder}/nothing"))

    def test_opens(self, folder):
        files = FileLister(folder, "*.txt").open_files("b")
        (path, stream), = files
        assert stream.read() == b"[1]" and path.endswith("b.txt")
        assert [contents for _, contents in FileLister(folder).open_files().read_from_stream(2)] == ["[1", "]"] * 2
        for wrong in ({"mode": "w"}, {"mode": "rb", "encoding": "utf8"}):
            with pytest.raises(ValueError, match="open_files"):
                FileOpener([], **wrong)
        with pytest.raises(TypeError, match="path as str"):
            list(FileOpener([1]))

    def test_decodes(self, folder):
        assert [value for _, value in FileLister(folder).open_files("b").routed_decode()] == [[1], "[1]"]
        own = RoutedDecoder([("a.x", io.BytesIO(b"abc"))], decoder.handle_extension("x", lambda d: len(d.read())))
        assert list(own) == [("a.x", 3)] and len(own) == 1
        assert list(RoutedDecoder([("a.unknown", io.BytesIO(b"abc"))])) == [("a.unknown", b"abc")]


class TestStreams:
    def test_closes_when_dropped(self):
        file = io.StringIO("ab")
        stream = common.StreamWrapper(file, name="f")
        assert list(stream) == ["ab"] and repr(stream) == f"StreamWrapper<f,{file!r}>" and "read" in dir(stream)
        del stream
        gc.collect()
        assert file.closed

    def test_parents_close_with_their_last_part(self):
        parent = common.StreamWrapper(io.StringIO())
        parts = [common.StreamWrapper(io.StringIO(), parent) for _ in range(2)]
        parent.autoclose()
        parts[0].close()
        assert not parent.closed
        common.StreamWrapper.close_streams({"a": [parts[1]]})
        assert parent.closed and parent.file_obj.closed
        with pytest.raises(RuntimeError, match="parent_stream"):
            common.StreamWrapper(io.StringIO(), 3)


class TestDecoders:
    @pytest.mark.parametrize("ending, contents, value", [
        ("json", b'{"a": 1}', {"a": 1}), ("txt", b"hi", "hi"), ("cls", b"3", 3), ("id", b"x", None), ("x", b"", None)])
    def test_basic(self, ending, contents, value):
        assert decoder.basichandlers(ending, contents) == value

    def test_pickles_are_not_run(self):
        with pytest.raises(NotImplementedError, match="runs the code"):
            decoder.basichandlers("pickle", pickle.dumps(1))

    @pytest.mark.parametrize("spec", decoder.imagespecs)
    def test_images(self, spec):
        numpy, pillow = pytest.importorskip("numpy"), pytest.importorskip("PIL.Image")
        values, stream = numpy.arange(12, dtype="uint8").reshape(2, 2, 3), io.BytesIO()
        pillow.fromarray(values).save(stream, "png")
        found = decoder.imagehandler(spec)("png", stream.getvalue())
        kind, dtype, mode = decoder.imagespecs[spec]
        if kind == "pil":
            assert found.mode == mode.upper()
            return
        assert str(found.dtype).removeprefix("torch.") == ("uint8" if dtype == "uint8" else "float32")
        if mode == "rgb":
            scale = 1 if dtype == "uint8" else 255
            expected = values.transpose(2, 0, 1) if kind == "torch" else values
            assert numpy.allclose(numpy.asarray(found) * scale, expected, atol=1e-4)

    def test_refused(self):
        with pytest.raises(AssertionError, match="one of"):
            decoder.imagehandler("foo")
        with pytest.raises(NotImplementedError, match="films"):
            decoder.videohandler("mp4", b"film")
        for handler in (decoder.videohandler, decoder.audiohandler, decoder.mathandler()):
            assert handler("x", b"") is None


class TestKeys:
    def test_pipes(self):
        source = SequenceWrapper(list(range(5)))
        assert list(source.batch(2)) == [[0, 1], [2, 3], [4]] and source.batch(2)[-1] == [4]
        assert list(source.batch(2, drop_last=True)) == [[0, 1], [2, 3]]
        assert list(source.map(str).zip(source)) == [(str(k), k) for k in range(5)]
        joined = source.concat(SequenceWrapper("ab"))
        assert [joined[k] for k in (0, 4, 5, -1)] == [0, 4, "a", "b"] and len(joined) == 7
        assert list(SequenceWrapper({"x": 1, "y": 2}).shuffle(indices=["x"])) == [1]
        for pipe in (source.batch(2), joined, source.zip(source), source):
            with pytest.raises(IndexError, match="out of range"):
                pipe[9]

    def test_copies(self):
        values = [[1]]
        copied, same = SequenceWrapper(values), SequenceWrapper(values, deepcopy=False)
        values.append([2])
        assert len(copied) == 1 and len(same) == 2
        with pytest.warns(UserWarning, match="no deep copy"):
            assert list(IterableWrapper(k for k in "ab")) == ["a", "b"]

    def test_shuffles_as_pytorch_does(self):
        shuffled = SequenceWrapper(list(range(12))).shuffle().set_seed(1)
        assert list(shuffled) == [7, 11, 0, 8, 5, 6, 3, 10, 4, 1, 9, 2]
        assert list(shuffled.set_shuffle(False)) == list(range(12))


class Frame:
    """As much of a data frame as datapipes need."""

    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns

    def __getitem__(self, name):
        return Column(row[self.columns.index(name)] for row in self.rows)

    def __len__(self):
        return len(self.rows)


class Column(list):
    def __gt__(self, other):
        return Column(value > other for value in self)


class Frames:
    """A library of data frames, for set_df_wrapper."""

    create_dataframe, get_len = staticmethod(Frame), staticmethod(len)
    is_column = staticmethod(lambda data: isinstance(data, Column))
    is_dataframe = staticmethod(lambda data: isinstance(data, Frame))
    iterate = staticmethod(lambda data: iter(data.rows if isinstance(data, Frame) else data))
    get_item = staticmethod(lambda data, k: Frame(data.rows[k:k + 1], data.columns))
    concat = staticmethod(lambda held: Frame([row for frame in held for row in frame.rows], held[0].columns))


class TestDataFrames:
    @pytest.fixture(autouse=True)
    def _library(self):
        before = dataframe_wrapper.get_df_wrapper()
        dataframe_wrapper.set_df_wrapper(Frames)
        yield
        dataframe_wrapper.set_df_wrapper(before)

    @pytest.mark.filterwarnings("ignore:Lambda function")
    def test_pipes(self):
        frames = IterableWrapper([(k, -k) for k in range(5)])._to_dataframes_pipe(columns=["a", "b"], dataframe_size=2)
        assert isinstance(frames, data.DFIterDataPipe) and [len(f) for f in frames] == [2, 2, 1]
        assert [tuple(row) for row in frames._dataframes_as_tuples()] == [(k, -k) for k in range(5)]
        kept = frames._dataframes_filter(lambda frame: frame["a"] > 1)
        assert [tuple(row) for row in kept._dataframes_as_tuples()] == [(2, -2), (3, -3), (4, -4)]
        assert [len(f) for f in frames._dataframes_concat(2)] == [4, 1]
        assert len(list(frames._dataframes_per_row())) == 5
        assert sorted(tuple(r) for r in frames._dataframes_shuffle()._dataframes_as_tuples()) == \
            sorted((k, -k) for k in range(5))
        assert sum(map(len, frames.filter(lambda frame: frame["a"] > 1))) == 3
        assert list(DataChunkDF(frames)) == [[k, -k] for k in range(5)] and len(DataChunkDF(frames)) == 5

    def test_pandas(self):
        dataframe_wrapper.set_df_wrapper(dataframe_wrapper.PandasWrapper)
        assert not dataframe_wrapper.is_dataframe([1]) and not dataframe_wrapper.is_column([1])

    def test_refused(self):
        with pytest.raises(NotImplementedError, match="not recorded"):
            datapipes.dataframe.CaptureDataFrame()
