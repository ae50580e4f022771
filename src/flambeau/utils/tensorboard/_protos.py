"""The messages of event files, as the package `tensorboard` defines them, imported on first use."""

import functools
import importlib

_MESSAGES = {
    "tensorboard.compat.proto.summary_pb2": "Summary SummaryMetadata HistogramProto",
    "tensorboard.compat.proto.tensor_pb2": "TensorProto",
    "tensorboard.compat.proto.tensor_shape_pb2": "TensorShapeProto",
    "tensorboard.compat.proto.types_pb2": "DataType",
    "tensorboard.compat.proto.event_pb2": "Event SessionLog TaggedRunMetadata",
    "tensorboard.compat.proto.graph_pb2": "GraphDef",
    "tensorboard.compat.proto.node_def_pb2": "NodeDef",
    "tensorboard.compat.proto.attr_value_pb2": "AttrValue",
    "tensorboard.compat.proto.versions_pb2": "VersionDef",
    "tensorboard.compat.proto.step_stats_pb2": "StepStats DeviceStepStats",
    "tensorboard.compat.proto.config_pb2": "RunMetadata",
    "tensorboard.plugins.text.plugin_data_pb2": "TextPluginData",
    "tensorboard.plugins.pr_curve.plugin_data_pb2": "PrCurvePluginData",
    "tensorboard.plugins.custom_scalar.layout_pb2": "Layout Category Chart MultilineChartContent MarginChartContent",
    "tensorboard.plugins.hparams.plugin_data_pb2": "HParamsPluginData SessionStartInfo SessionEndInfo",
    "tensorboard.plugins.hparams.api_pb2": "Experiment HParamInfo MetricInfo MetricName Status",
    "tensorboard.plugins.projector.projector_config_pb2": "ProjectorConfig EmbeddingInfo",
    "tensorboard.plugins.mesh.plugin_data_pb2": "MeshPluginData",
    "tensorboard.summary.writer.event_file_writer": "EventFileWriter",
    "tensorboard.summary.writer.record_writer": "RecordWriter",
    "tensorboard.compat.tensorflow_stub.io": "gfile",
    "google.protobuf": "text_format",
    "google.protobuf.struct_pb2": "ListValue",
}
_MODULES = tuple(_MESSAGES)


class Protos:
    """Every message under its own name."""

    def __init__(self):
        for k, names in enumerate(_MESSAGES.values()):
            found = importlib.import_module(_MODULES[k])
            for name in names.split():
                setattr(self, name, getattr(found, name))


@functools.cache
def protos():
    """The messages; an ImportError that says what to install where tensorboard is not here."""
    try:
        return Protos()
    except ImportError as error:
        raise ImportError("event files are written by the package tensorboard, which cannot be imported: install it "
                          f"with pip install 'flambeau[tensorboard]' ({error})") from error
