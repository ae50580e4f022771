"""What each kind of record looks like in an event file: one function per kind, arguments to a Summary message."""

import io
import json
import os
import wave

from ..._shown import shown
from ._arrays import as_array, grid, to_hwc, to_uint8, video_frames
from ._protos import protos

_LEAST_COUNT = 1e-7


def _of_plugin(name, content=b""):
    p = protos()
    return p.SummaryMetadata(plugin_data=p.SummaryMetadata.PluginData(plugin_name=name, content=content))


def _one(tag, **fields):
    p = protos()
    return p.Summary(value=[p.Summary.Value(tag=tag, **fields)])


def _shape(sizes):
    p = protos()
    return p.TensorShapeProto(dim=[p.TensorShapeProto.Dim(size=n) for n in sizes])


def scalar(name, tensor, collections=None, new_style=False, double_precision=False):
    """One number; `new_style` writes it as a tensor of the plugin "scalars", in float64 with `double_precision`."""
    if collections is not None:
        raise NotImplementedError("summary.scalar: event files have no collections; leave the argument out")
    values = as_array(tensor).reshape(-1)
    if values.size != 1:
        raise AssertionError(f"scalar {shown(name)}: expected one number, got {values.size} (shape "
                             f"{list(as_array(tensor).shape)})")
    value = float(values[0])
    if not new_style:
        return _one(name, simple_value=value)
    number = {"dtype": "DT_DOUBLE", "double_val": [value]} if double_precision else {
        "dtype": "DT_FLOAT", "float_val": [value]}
    return _one(name, tensor=protos().TensorProto(**number), metadata=_of_plugin("scalars"))


def tensor_proto(tag, tensor):
    """A whole tensor, in its own dtype."""
    dtypes = {"float32": "FLOAT", "float64": "DOUBLE", "float16": "HALF", "int8": "INT8", "int16": "INT16",
              "int32": "INT32", "int64": "INT64", "uint8": "UINT8", "bool": "BOOL", "complex64": "COMPLEX64",
              "complex128": "COMPLEX128"}
    values = as_array(tensor)
    if getattr(tensor, "ndim", None) == 0:
        values = values.reshape(())
    if values.dtype.name not in dtypes:
        raise ValueError(f"tensor {shown(tag)}: {values.dtype.name} has no form in an event file")
    content = protos().TensorProto(dtype=f"DT_{dtypes[values.dtype.name]}", tensor_shape=_shape(values.shape),
                                   tensor_content=values.tobytes())
    return _one(tag, tensor=content, metadata=_of_plugin("tensor"))


# ---- histograms

def _exponential_edges():
    """Bucket edges that grow by a tenth, from 1e-12 to 1e20, on both sides of zero."""
    edges, edge = [], 1e-12
    while edge < 1e20:
        edges.append(edge)
        edge *= 1.1
    return [-e for e in reversed(edges)] + [0.0] + edges


def make_histogram(values, bins, max_bins=None):
    """A HistogramProto: its first bucket is empty and ends where the first occupied one begins."""
    import numpy as np

    if values.size == 0:
        raise ValueError("histogram: there are no values")
    values = values.reshape(-1)
    counts, edges = np.histogram(values, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        each = len(counts) // max_bins
        if each > 1:
            counts = np.add.reduceat(counts, np.arange(0, len(counts), each))
            edges = np.append(edges[:-1:each], edges[-1])
    occupied = np.flatnonzero(counts)
    if occupied.size == 0:
        raise ValueError("histogram: no value lies within the bins (are all of them NaN?)")
    first, last = occupied[0], occupied[-1]
    return protos().HistogramProto(min=values.min(), max=values.max(), num=len(values), sum=values.sum(),
                                   sum_squares=values.dot(values), bucket_limit=edges[first:last + 2].tolist(),
                                   bucket=[0, *counts[first:last + 1].tolist()])


def histogram(name, values, bins, max_bins=None):
    """Counts of values in `bins` ("tensorflow", or what numpy.histogram takes)."""
    if isinstance(bins, str) and bins == "tensorflow":
        bins = _exponential_edges()
    return _one(name, histo=make_histogram(as_array(values).astype(float), bins, max_bins))


def histogram_raw(name, min, max, num, sum, sum_squares, bucket_limits, bucket_counts):
    """Counts that the caller has made."""
    return _one(name, histo=protos().HistogramProto(min=min, max=max, num=num, sum=sum, sum_squares=sum_squares,
                                                    bucket_limit=bucket_limits, bucket=bucket_counts))


# ---- pictures and sound

def _encoded(pictures, kind, **options):
    written = io.BytesIO()
    pictures[0].save(written, kind, **options)
    return written.getvalue()


def make_image(tensor, rescale=1, rois=None, labels=None):
    """A Summary.Image of uint8 pixels [H, W, C], with boxes drawn in."""
    from PIL import Image

    picture = Image.fromarray(tensor)
    if rois is not None:
        _draw(picture, rois, labels)
    if rescale != 1:
        size = max(1, int(picture.width * rescale)), max(1, int(picture.height * rescale))
        picture = picture.resize(size, Image.Resampling.LANCZOS)
    return protos().Summary.Image(height=picture.height, width=picture.width, colorspace=tensor.shape[2],
                                  encoded_image_string=_encoded([picture], "PNG"))


def _draw(picture, boxes, labels):
    from PIL import ImageDraw

    pen = ImageDraw.Draw(picture)
    for k, box in enumerate(boxes.tolist()):
        pen.rectangle(box, outline="red", width=2)
        if labels is not None:
            pen.text((box[0] + 3, box[1] + 3), labels[k], fill="red")


def image(tag, tensor, rescale=1, dataformats="NCHW"):
    """One picture, or several side by side, as PNG."""
    return _one(tag, image=make_image(to_uint8(to_hwc(as_array(tensor), dataformats)), rescale))


def image_boxes(tag, tensor_image, tensor_boxes, rescale=1, dataformats="CHW", labels=None):
    """A picture with boxes [left, top, right, bottom] in pixels, each with its label."""
    pixels = to_uint8(to_hwc(as_array(tensor_image), dataformats))
    boxes = as_array(tensor_boxes)
    if labels is not None:
        labels = [labels] if isinstance(labels, str) else labels
        if len(labels) != len(boxes):
            raise ValueError(f"image_boxes: {len(labels)} labels for {len(boxes)} boxes")
    return _one(tag, image=make_image(pixels, rescale, boxes, labels))


def make_video(tensor, fps):
    """A Summary.Image that moves: frames [T, H, W, C] as GIF."""
    from PIL import Image

    first, *others = (Image.fromarray(frame) for frame in tensor)
    moving = _encoded([first], "GIF", save_all=True, append_images=others, duration=1000 / fps, loop=0)
    return protos().Summary.Image(height=first.height, width=first.width, colorspace=tensor.shape[3],
                                  encoded_image_string=moving)


def video(tag, tensor, fps=4):
    """Clips [N, T, C, H, W] side by side."""
    clips = as_array(tensor)
    if clips.ndim != 5:
        raise AssertionError(f"video: expected clips [N, T, C, H, W], got shape {list(clips.shape)}")
    return _one(tag, image=make_video(video_frames(to_uint8(clips)), fps))


def audio(tag, tensor, sample_rate=44100):
    """One channel of sound in [-1, 1], as a WAV file of 16 bits."""
    import numpy as np

    samples = as_array(tensor).squeeze()
    if samples.ndim != 1:
        raise AssertionError(f"audio: expected one channel (a vector), got shape {list(samples.shape)}")
    samples = (samples.clip(-1, 1) * np.iinfo(np.int16).max).astype("<i2")
    written = io.BytesIO()
    with wave.open(written, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(sample_rate)
        out.writeframes(samples.tobytes())
    sound = protos().Summary.Audio(sample_rate=sample_rate, num_channels=1, length_frames=len(samples),
                                   encoded_audio_string=written.getvalue(), content_type="audio/wav")
    return _one(tag, audio=sound)


# ---- text, curves, meshes

def _string(text, *sizes):
    return protos().TensorProto(dtype="DT_STRING", string_val=[text], tensor_shape=_shape(sizes))


def text(tag, text):
    """Text in Markdown."""
    metadata = _of_plugin("text", protos().TextPluginData(version=0).SerializeToString())
    return _one(f"{tag}/text_summary", tensor=_string(text.encode(), 1), metadata=metadata)


def compute_curve(labels, predictions, num_thresholds=None, weights=None):
    """Rows tp, fp, tn, fn, precision, recall; a column per threshold, which are spread evenly over [0, 1]."""
    import numpy as np

    number = 127 if num_thresholds is None else num_thresholds
    labels, weights = labels.astype(float), np.asarray(1.0 if weights is None else weights)
    bucket = np.floor(predictions * (number - 1)).astype(np.int64)

    def at_least(weights):
        counts, _ = np.histogram(bucket, bins=number, range=(0, number - 1), weights=weights)
        return np.cumsum(counts[::-1])[::-1]

    tp, fp = at_least(labels * weights), at_least((1 - labels) * weights)
    tn, fn = fp[0] - fp, tp[0] - tp
    return np.stack([tp, fp, tn, fn, tp / np.maximum(_LEAST_COUNT, tp + fp), tp / np.maximum(_LEAST_COUNT, tp + fn)])


def _curve(tag, rows, num_thresholds):
    p = protos()
    data = p.PrCurvePluginData(version=0, num_thresholds=num_thresholds)
    metadata = _of_plugin("pr_curves", data.SerializeToString())
    content = p.TensorProto(dtype="DT_FLOAT", float_val=rows.reshape(-1).tolist(), tensor_shape=_shape(rows.shape))
    return _one(tag, tensor=content, metadata=metadata)


def pr_curve(tag, labels, predictions, num_thresholds=127, weights=None):
    """Precision and recall of predicted probabilities at every threshold."""
    weights = None if weights is None else as_array(weights).reshape(-1)
    rows = compute_curve(as_array(labels).reshape(-1), as_array(predictions).reshape(-1), num_thresholds, weights)
    return _curve(tag, rows, num_thresholds)


def pr_curve_raw(tag, tp, fp, tn, fn, precision, recall, num_thresholds=127, weights=None):
    """A curve that the caller has computed."""
    import numpy as np

    if weights is not None:
        raise NotImplementedError("pr_curve_raw: the counts carry their weights already; leave weights out")
    return _curve(tag, np.stack([as_array(x).reshape(-1) for x in (tp, fp, tn, fn, precision, recall)]), num_thresholds)


def mesh(tag, vertices, colors, faces, config_dict, display_name=None, description=None):
    """Points [N, P, 3], with faces [N, F, 3] of point numbers and colours [N, P, 3], for the plugin "mesh"."""
    p = protos()
    kinds = {"VERTEX": vertices, "FACE": faces, "COLOR": colors}
    numbers = {kind: p.MeshPluginData.ContentType.Value(kind) for kind in kinds}
    given = {kind: as_array(x) for kind, x in kinds.items() if x is not None}
    components = sum(1 << numbers[kind] for kind in given)
    values = []
    for kind, x in given.items():
        data = p.MeshPluginData(version=0, name=tag, content_type=numbers[kind], components=components, shape=x.shape,
                                json_config=json.dumps(config_dict or {}, sort_keys=True))
        metadata = p.SummaryMetadata(display_name=display_name, summary_description=description, plugin_data={
            "plugin_name": "mesh", "content": data.SerializeToString()})
        content = p.TensorProto(dtype="DT_FLOAT", float_val=x.reshape(-1).tolist(), tensor_shape=_shape(x.shape))
        values.append(p.Summary.Value(tag=f"{tag}_{kind}", tensor=content, metadata=metadata))
    return p.Summary(value=values)


def custom_scalars(layout):
    """How scalars are shown together: {category: {title: ["Multiline" or "Margin", tags]}}."""
    p = protos()

    def chart(title, kind, tags):
        if kind == "Margin":
            if len(tags) != 3:
                raise AssertionError(f"custom_scalars: a Margin chart has the tags of value, lower and upper bound; "
                                     f"got {shown(tags)}")
            series = p.MarginChartContent.Series(value=tags[0], lower=tags[1], upper=tags[2])
            return p.Chart(title=title, margin=p.MarginChartContent(series=[series]))
        if kind != "Multiline":
            raise ValueError(f"custom_scalars: a chart is Multiline or Margin, got {shown(kind)}")
        return p.Chart(title=title, multiline=p.MultilineChartContent(tag=list(tags)))

    categories = [p.Category(title=name, chart=[chart(title, *content) for title, content in charts.items()])
                  for name, charts in layout.items()]
    content = _string(p.Layout(category=categories).SerializeToString())
    return _one("custom_scalars__config__", tensor=content, metadata=_of_plugin("custom_scalars"))


# ---- hyperparameters

def _number(value):
    return float(as_array(value).reshape(-1)[0])


def _hparam(name, value):
    """(the field of a protobuf Value, the kind of hyperparameter) of one. A bool is written as 1 or 0."""
    if isinstance(value, str):
        return {"string_value": value}, "DATA_TYPE_STRING"
    if isinstance(value, (int, float)) or getattr(value, "size", None) == 1 or hasattr(value, "numel"):
        return {"number_value": _number(value)}, "DATA_TYPE_FLOAT64"
    raise ValueError(f"hparams: {shown(name)} must be a number, a bool, a string or a tensor of one number, got "
                     f"{shown(value)}")


def hparams(hparam_dict=None, metric_dict=None, hparam_domain_discrete=None):
    """Three summaries: the experiment, the begin of a session with its hyperparameters, and the session's end."""
    p = protos()
    for name, given in (("hparam_dict", hparam_dict), ("metric_dict", metric_dict)):
        if not isinstance(given, dict):
            raise TypeError(f"hparams: {name} must be a dictionary, got {shown(given)}")
    domains = hparam_domain_discrete or {}
    unknown = [name for name in domains if name not in hparam_dict]
    if unknown:
        raise TypeError(f"hparams: hparam_domain_discrete names {shown(unknown)}, which hparam_dict has not")
    start, infos = p.SessionStartInfo(), []
    for name, value in hparam_dict.items():
        if value is None:
            continue
        field, kind = _hparam(name, value)
        for key, each in field.items():
            setattr(start.hparams[name], key, each)
        domain = p.ListValue()
        domain.extend(domains.get(name, ()))
        infos.append(p.HParamInfo(name=name, type=kind, **({"domain_discrete": domain} if name in domains else {})))
    metrics = [p.MetricInfo(name=p.MetricName(tag=name)) for name in metric_dict]
    experiment = p.HParamsPluginData(experiment=p.Experiment(hparam_infos=infos, metric_infos=metrics), version=0)
    end = p.HParamsPluginData(session_end_info=p.SessionEndInfo(status="STATUS_SUCCESS"), version=0)
    parts = {"experiment": experiment, "session_start_info": p.HParamsPluginData(session_start_info=start, version=0),
             "session_end_info": end}
    return tuple(_one(f"_hparams_/{name}", metadata=_of_plugin("hparams", data.SerializeToString()))
                 for name, data in parts.items())


# ---- embeddings: files beside the event file

def _written(path, data):
    with protos().gfile.GFile(path, "wb") as out:
        out.write(data)


def _table(rows):
    return "".join("\t".join(map(str, row)) + "\n" for row in rows).encode()


def _sprite(images, folder):
    """All images in one square picture."""
    from PIL import Image

    pixels = to_uint8(as_array(images))
    columns = max(1, int((len(pixels) - 1) ** 0.5) + 1)
    written = _encoded([Image.fromarray(grid(pixels, columns).transpose(1, 2, 0).squeeze())], "PNG")
    _written(os.path.join(folder, "sprite.png"), written)
    return pixels.shape[3], pixels.shape[2]


def embedding(folder, mat, metadata, label_img, step, tag, metadata_header):
    """Writes the tables of an embedding into a folder of its own and names them in projector_config.pbtxt."""
    p = protos()
    rows = as_array(mat)
    if rows.ndim != 2:
        raise AssertionError(f"embedding: expected one row per point, got shape {list(rows.shape)}")
    for name, given in (("metadata", metadata), ("label_img", label_img)):
        if given is not None and len(given) != len(rows):
            raise AssertionError(f"embedding: {name} has {len(given)} entries for {len(rows)} points")
    place = f"{str(step or 0).zfill(5)}/{tag}"
    info = p.EmbeddingInfo(tensor_name=f"{tag}:{str(step or 0).zfill(5)}", tensor_path=f"{place}/tensors.tsv")
    p.gfile.makedirs(os.path.join(folder, place))
    _written(os.path.join(folder, info.tensor_path), _table(rows.tolist()))
    if metadata is not None:
        info.metadata_path = f"{place}/metadata.tsv"
        lines = [metadata_header, *metadata] if metadata_header else [[each] for each in metadata]
        _written(os.path.join(folder, info.metadata_path), _table(lines))
    if label_img is not None:
        info.sprite.image_path = f"{place}/sprite.png"
        info.sprite.single_image_dim.extend(_sprite(label_img, os.path.join(folder, place)))
    return info
