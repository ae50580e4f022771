"""Weights from the network, by their older name."""

from ..hub import load_state_dict_from_url


def load_url(url, model_dir=None, map_location=None, progress=True, check_hash=False, file_name=None,
             weights_only=False):
    """As `flambeau.hub.load_state_dict_from_url`: downloads once, then reads the copy.

    >>> import flambeau, pathlib, tempfile
    >>> from flambeau.utils import model_zoo
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "weights.pt"
    ...     flambeau.save({"weight": flambeau.ones(2)}, file)
    ...     model_zoo.load_url(file.as_uri(), model_dir=folder + "/models", progress=False)
    {'weight': tensor([1., 1.])}
    """
    return load_state_dict_from_url(url, model_dir, map_location, progress, check_hash, file_name, weights_only)
